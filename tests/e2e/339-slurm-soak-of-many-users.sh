#!/bin/sh
# The soak of issue "a good guest" (FIRN_SOAK=1): many users with fair share on
# submit jobs through firn beside a stream of foreign sbatch jobs, while Slurm
# preempts, nodes are drained and resumed, reservations come and go, and firnd is
# killed, at random. At the end: each job ran to its end once and never twice at
# a time; no job that is not firn's was cancelled; and firn's accounting has for
# each attempt the start and the end that Slurm's has, to the second, and the same
# GPU-seconds for each user.
#
#   FIRN_SOAK_S      seconds of trouble, 3600
#   FIRN_SOAK_USERS  20
#   FIRN_SOAK_JOBS   of each user, 50
#   FIRN_SOAK_SEED   of the random numbers, 1
#   FIRN_SOAK_KEEP   a folder for Slurm's accounting, firnd's state and its log
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -n "${FIRN_SOAK:-}" ] || skip "it takes an hour: make soak"
. tests/lib/slurmusers.sh
PATH=$PATH:/usr/sbin
for tool in slurmdbd mariadbd sacctmgr sacct flock; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
span=${FIRN_SOAK_S:-3600} nusers=${FIRN_SOAK_USERS:-20}
njobs=${FIRN_SOAK_JOBS:-50} seed=${FIRN_SOAK_SEED:-1}
cat >"$tmp/more" <<END
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF
END
slurm_up 4x4:v100@16 --accounts --more "$tmp/more"
acct() { timeout 240 sacctmgr -Q -i "$@" >"$tmp/out" || fail "sacctmgr $*"; }
users=
tidy_users()
{
    if [ -n "${FIRN_SOAK_KEEP:-}" ]; then
        mkdir -p "$FIRN_SOAK_KEEP"
        cp -r "$tmp/sacct" "$tmp/slurm" "$tmp/ours" "$tmp/err" "$tmp/launcher" \
            "$tmp/gpu_s" "$tmp/usage" "$lab/state" "$lab/out" "$bed/log" "$FIRN_SOAK_KEEP/" 2>/dev/null
    fi
    leave
    for user in $users; do
        userdel "$user" 2>/dev/null
    done
}
trap tidy_users EXIT
for account in a0 a1 a2 a3; do
    acct add account $account cluster=bed fairshare=$((${account#a} + 1))
done
acct add user "$ann" account=a0 # who uses sbatch alone
acct add user root account=a0
i=0
while [ $i -lt "$nusers" ]; do
    user=${tag}u$i
    useradd -M -G "$people" -s /bin/sh "$user" || fail "no user $user"
    users="$users $user"
    acct add user "$user" account=a$((i % 4))
    i=$((i + 1))
done
mkdir "$lab/out/jobs" && chmod 1777 "$lab/out/jobs"
cat >"$lab/job" <<END
#!/bin/sh
# \$1 seconds; one process of a rank at a time, by a lock that dies with it.
exec 9>>"$lab/out/jobs/\$FIRN_JOB.\$RANK"
flock -n 9 || echo "doubled" >&9
echo "start \$FIRN_ATTEMPT" >&9
sleep "\$1" &
trap 'kill \$!; exit 83' TERM USR1 # asked for a checkpoint
wait \$!
trap '' TERM USR1 # it is done, and says so
echo "end \$FIRN_ATTEMPT" >&9
END
chmod 755 "$lab/job"
launcher_up
users_up --policy firn --set slurm.poll=0.5

# draw N: a number below N, into $drawn.
draw()
{
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

# send USER: one more job of that user.
send()
{
    draw 4
    more='checkpoint: {grace: 2}'
    gpus=$((drawn % 2 + 1))
    draw 8
    setpriv --reuid "$1" --regid "$(id -g "$1")" --init-groups curl -s \
        --max-time 60 --unix-socket "$socket" -w ' %{http_code}' \
        -H 'Content-Type: application/yaml' --data-binary "run: [$lab/job, \"$drawn\"]
gpus: $gpus
$more" http://firn/v1/jobs >"$tmp/answer" 2>&1
    rc=$?
    case $(cat "$tmp/answer") in
    *' 201') nsent=$((nsent + 1)) && return ;;
    esac
    nrefused=$((nrefused + 1))
    kill -0 "$daemon" || fail "firnd has ended"
    echo "# $(date -u +%T) a job of $1 was not taken: $rc $(cat "$tmp/answer")"
    [ $nrefused -lt 20 ]
}

foreign()
{
    draw 2
    (cd / && as "$ann" sbatch -Q -J theirs --gres=gpu:$((drawn + 1)) -o /dev/null \
        --wrap "sleep $((drawn * 3 + 1))") && nforeign=$((nforeign + 1))
}

preempt()
{
    (cd / && as "$ann" sbatch -Q -J theirs -p high --gres=gpu:2 -o /dev/null \
        --wrap "sleep 2") && npreempt=$((npreempt + 1))
}

trouble()
{
    draw 40
    case $drawn in
    [0-9]) foreign ;;
    1[0-4]) preempt ;;
    15 | 16)
        draw 4
        timeout 60 scontrol update NodeName=n$drawn State=DRAIN Reason=soak &&
            ndrains=$((ndrains + 1))
        ;;
    17 | 18 | 19 | 20)
        for node in n0 n1 n2 n3; do
            timeout 60 scontrol update NodeName=$node State=RESUME 2>/dev/null
        done
        ;;
    21)
        draw 4
        timeout 60 scontrol create reservation=soak$nbooked starttime=now+60 \
            duration=1 nodes=n$drawn flags=maint user=root >/dev/null 2>&1 &&
            nbooked=$((nbooked + 1))
        ;;
    22)
        down KILL
        users_up --policy firn --set slurm.poll=0.5
        nkills=$((nkills + 1))
        ;;
    esac
}

nsent=0 nrefused=0 nforeign=0 npreempt=0 ndrains=0 nbooked=0 nkills=0
began=$(date +%s)
all=$((nusers * njobs))
while now=$(($(date +%s) - began)) && [ $now -lt "$span" ]; do
    # As many jobs as the time that has passed asks for.
    while [ $nsent -lt "$all" ] && [ $((nsent * span)) -le $((all * now * 5 / 4)) ]; do
        # shellcheck disable=SC2086 # words
        set -- $users
        shift $((nsent % nusers))
        send "$1" || fail "a job of $1 was not taken"
    done
    trouble
    sleep 0.5
done
for node in n0 n1 n2 n3; do
    timeout 60 scontrol update NodeName=$node State=RESUME 2>/dev/null
done
i=0
while [ $i -lt $nbooked ]; do
    timeout 60 scontrol delete reservation=soak$i 2>/dev/null
    i=$((i + 1))
done
active=pending,starting,running,resizing,preempting,completing
all_over()
{
    api GET "/jobs?state=$active&limit=5000" >"$tmp/active" &&
        ! grep -q '"id"' "$tmp/active"
}
patience=$((patience * 10)) # on a busy machine
await "jobs are left" all_over
none_theirs() { [ -z "$(timeout 60 squeue -h -o %i)" ]; }
await "Slurm has jobs left" none_theirs

# Nothing lost, nothing doubled.
nok=$(api GET "/jobs?state=succeeded&limit=5000" | tr '{' '\n' | grep -c '"state": "succeeded"')
nend=$(cat "$lab"/out/jobs/*.0 | grep -c '^end')
ndoubled=$(cat "$lab"/out/jobs/* | grep -c '^doubled')
nstarts=$(cat "$lab"/out/jobs/*.0 | grep -c '^start')
# An attempt ran to its end if all its ranks did: of a job that is preempted, one
# rank may have ended before the other one was asked for a checkpoint.
nagain=$(for file in "$lab"/out/jobs/*.0; do
    whole=0
    for attempt in $(sed -n 's/^end //p' "$file"); do
        [ -e "${file%.0}.1" ] && ! grep -qx "end $attempt" "${file%.0}.1" ||
            whole=$((whole + 1))
    done
    [ $whole = 1 ] || echo "${file##*/}: $whole"
done)
[ -z "$nagain" ] || fail "jobs that did not run to their end exactly once: $nagain"
[ "$ndoubled" = 0 ] || fail "$ndoubled starts beside a running one"
has_all() # slurmdbd commits once a second
{
    timeout 240 sacct -a -X -n -P -S now-2days \
        -o JobName,User,State,Start,End,JobID,ExitCode,AllocTRES >"$tmp/sacct" &&
        ! grep -q 'RUNNING\|PENDING\|COMPLETING' "$tmp/sacct"
}
await "Slurm's accounting has jobs that are not over" has_all
[ "$nok" = "$nsent" ] || {
    for id in $(api GET '/jobs?state=failed,lost' | tr '{' '\n' |
        sed -n 's/.*"id": \([0-9]*\),.*"state".*/\1/p'); do
        grep ":$id:[0-9]*|" "$tmp/sacct"
        cat "$lab/state/jobs/$id/log"
        api GET "/jobs/$id" | tr '{' '\n' | grep exit_status
    done
    fail "$nok of $nsent jobs succeeded"
}

# Nothing cancelled that was not ours.
nbad=$(grep '^theirs|' "$tmp/sacct" | grep -c 'CANCELLED\||FAILED')
[ "$nbad" = 0 ] || fail "foreign jobs: $(grep '^theirs|' "$tmp/sacct" | grep 'CANC\|FAIL')"

# Times: of each attempt, by its name. An attempt that Slurm never started has no
# start there, and no length in firn.
grep '^firn:' "$tmp/sacct" | while IFS='|' read -r name user state start end more; do
    case $start in
    None | Unknown) began=none ;;
    *) began=$(date -d "$start" +%s) ;;
    esac
    echo "${name#firn:*:} $began $(date -d "$end" +%s) $user $more" |
        sed 's/:/ /; s/ [^ ]*gres\/gpu=\([0-9]*\).*/ \1/'
done >"$tmp/slurm"
ours_now()
{
    i=1
    while [ $i -le "$nsent" ]; do
        api GET "/jobs/$i" | sed 's/.*"attempts": //; s/"epochs": .*//' | tr '{' '\n' |
            sed -n 's/.*"attempt": \([0-9]*\),.*"started_s": \([0-9.]*\),.*"ended_s": \([0-9.]*\).*/'$i' \1 \2 \3/p'
        i=$((i + 1))
    done >"$tmp/ours"
}
# Each line of Slurm's: job, attempt, start, end, user, GPUs.
compare()
{
    ours_now
    awk 'NR == FNR { start[$1 " " $2] = $3; end[$1 " " $2] = $4; next }
        { k = $1 " " $2; n++ }
        !(k in end) { nmissing++; next }
        {
            never = $3 == "none"; nnever += never; nzero += !never && $3 == $4
            d = start[k] - (never ? $4 : $3); if (d < 0) d = -d
            e = end[k] - $4; if (e < 0) e = -e
            if (d > e) e = d
            if (e > most) most = e
            if (e > 1) nfar++
            if (!never) slurm_s += $4 - $3
            ours_s += end[k] - start[k]
        }
        END { printf "# %d jobs in Slurm: %d withdrawn before they started, %d ended in the second of their start; %d not in firn;\n# times at most %.1f s apart, %d by more than 1 s; %.0f s in Slurm, %.0f s in firn\n",
            n, nnever, nzero, nmissing, most, nfar, slurm_s, ours_s
            exit n == 0 || nmissing > 0 || nfar > 0 }' "$tmp/ours" "$tmp/slurm" >"$tmp/compared"
}
echo "# $nsent jobs of $nusers users, $nstarts starts, $nend ends; $nforeign foreign jobs,"
echo "# $npreempt preemptions, $ndrains drains, $nbooked reservations, $nkills kills of firnd, $nrefused submissions refused"
await "the accounts differ: $(compare; cat "$tmp/compared")" compare
cat "$tmp/compared"
# GPU-seconds of each user.
FIRN_SOCKET=$socket "$FIRN" usage --by user -o json | tr -d ' ",' |
    awk -F: '$1 == "user" { user = $2 } $1 == "gpu_hours" && user { print user, 3600 * $2 }' |
    sort >"$tmp/usage"
awk '{ s[$5] += $3 == "none" ? 0 : ($4 - $3) * $6 } END { for (u in s) print u, s[u] }' \
    "$tmp/slurm" | sort >"$tmp/gpu_s"
join "$tmp/gpu_s" "$tmp/usage" | awk '{ n++; d = $2 - $3; if (d < 0) d = -d; all += $2; if (d > most) most = d }
    END { printf "# %d GPU-seconds of %d users in Slurm; users'"'"' sums in firn at most %.1f apart\n", all, n, most
        exit n < '"$nusers"' || most > 1 }' || fail "GPU-seconds: $(join "$tmp/gpu_s" "$tmp/usage")"
down
exit 0
