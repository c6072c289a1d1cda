#!/bin/sh
# With firn-launch each user's job is submitted to Slurm as that user: squeue
# shows the user, the job runs as the user and cannot read the operator's token,
# firnd's state or another user's job; a job that only has firn's name is not
# taken for firn's; jobs go on over a restart of firnd and are cancelled as their
# users; a launcher that is away is a refusal, not the end of the job. Arrays are
# jobs of their user, too.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
. tests/lib/slurmusers.sh
slurm_up 1x4:v100@16
launcher_up
users_up --policy fifo

cat >"$lab/look" <<END
#!/bin/sh
id -un
echo "home \$HOME user \$USER secret \$SECRET"
touch "mine-\$FIRN_JOB" && echo wrote its folder
other=\$((\$FIRN_JOB % 3 + 1))
for path in token state/firn.db state/jobs/\$other/log; do
    cat "$lab/\$path" >/dev/null 2>&1 && echo "READ \$path"
done
ls "$lab/state/control/\$other/"* >/dev/null 2>&1 && echo READ CONTROL FILES
(echo 9 >"$lab/state/control/\$FIRN_JOB/fence") 2>/dev/null && echo WROTE THE FENCE
cat /proc/$daemon/environ 2>/dev/null | grep -q . && echo READ FIRND
echo ready
sleep 3000
END
chmod 755 "$lab/look"
for user in $ann $ben $cat; do
    as "$user" firn submit --name "of-$user" --gpus 1 --workdir "$lab/out" -- \
        "$lab/look" >"$tmp/out" 2>&1 || fail "not taken: $(cat "$tmp/out")"
done
for user in $ann $ben $cat; do
    wait_state "of-$user" running
done
timeout 240 squeue -h -t R -o %u | sort >"$tmp/users"
printf '%s\n' "$ann" "$ben" "$cat" | sort | cmp -s - "$tmp/users" ||
    fail "squeue shows $(cat "$tmp/users")"
ready()
{
    as "$1" firn logs "of-$1" >"$tmp/out" 2>&1 && grep -q '^ready' "$tmp/out"
}
for user in $ann $ben $cat; do
    await "the job of $user is not ready" ready "$user"
    grep -qx "$user" "$tmp/out" || fail "it runs as another user"
    out_has "user $user secret "
    out_has "wrote its folder"
    ! grep -q '^READ\|^WROTE\|of-firnd' "$tmp/out" || fail "the job reached too far"
done
as "$ben" firn logs "of-$ann" >"$tmp/out" 2>&1 && fail "a log is not private"

# A job of ben's that has the name of ann's is none of hers.
name=$(timeout 240 squeue -h -u "$ann" -o %j)
(cd / && as "$ben" sbatch -Q -J "$name" -o /dev/null --wrap 'sleep 3000') ||
    fail "sbatch failed"
gone_twin()
{
    [ "$(timeout 240 squeue -h -t PD,R -u "$ben" -o %j | grep -c "^$name\$")" = 0 ]
}
await "ben's job with a name of firn's stays" gone_twin
is "of-$ann" state running || fail "ann's job is $value"

# firnd is killed and comes again; then the launcher is away for a while.
down KILL
users_up --policy fifo
is "of-$ann" state running || wait_state "of-$ann" running
as "$ben" firn cancel "of-$ann" >/dev/null 2>&1 && fail "cancelled by another"
as "$ann" firn cancel "of-$ann" >"$tmp/out" 2>&1 || fail "not cancelled"
wait_state "of-$ann" cancelled
[ "$(field "of-$ann" epoch)" = 1 ] || fail "ann's job was started again"
as "$cat" firn submit --name soon --gpus 1 -- true >/dev/null 2>&1 ||
    fail "not taken"
wait_state soon succeeded
as "$cat" firn submit --name later --gpus 4 -- true >/dev/null 2>&1
kill "$root_daemon" && rm -f "$lab/run/launch"
as "$ben" firn submit --name refused -- true >"$tmp/out" 2>&1 &&
    fail "taken without a launcher"
out_has "is firn-launch running"
# Its processes that run Slurm's commands are the user's, not root's.
mkdir -m 755 "$lab/commands" && mkdir -m 1777 "$lab/seen"
for command in sbatch scancel; do
    printf '#!/bin/sh\nid -u >"%s/$$"\nstat -c %%u "/proc/$PPID" >>"%s/$$"\nexec %s "$@"\n' \
        "$lab/seen" "$lab/seen" "$(command -v $command)" >"$lab/commands/$command"
    chmod 755 "$lab/commands/$command"
done
launcher_up --slurm-path "$lab/commands"
as "$ben" firn cancel "of-$ben" >/dev/null 2>&1 || fail "not cancelled"
as "$cat" firn cancel "of-$cat" >/dev/null 2>&1 || fail "not cancelled"
wait_state later succeeded
cat "$lab"/seen/* >"$tmp/out" || fail "no command of Slurm was run"
! grep -qx 0 "$tmp/out" || fail "root waits for a command of Slurm"

# An array without the inbox: each number is a job of its user.
as "$ann" firn submit --name arr --array 1-2%1 -- sh -c 'echo "$(id -un) $ARRAY_INDEX"' \
    >"$tmp/out" 2>&1 || fail "the array was not taken"
for n in 1 2; do
    wait_state arr-$n succeeded
    as "$ann" firn logs arr-$n >"$tmp/out" 2>&1
    out_has "$ann $n"
done
down
exit 0
