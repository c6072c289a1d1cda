#!/bin/sh
# A job that the kernel kills for want of memory is known to have run out of it:
# tried once more with more, then failed. A control group that a killed shepherd
# left is removed when its job is taken over.
. tests/lib/firnd.sh
[ "$(id -u)" = 0 ] || skip "control groups are root's here"
cage=$(sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - cgroup2 .*/\1/p' \
    /proc/self/mountinfo | head -n 1)
[ -n "$cage" ] || skip "there are no control groups"

# A group of little memory, of whichever kind there is.
group=$cage/firn-e2e-$$
if mkdir "$group" 2>/dev/null && [ -e "$group/memory.max" ]; then
    echo 32M >"$group/memory.max"
    echo 0 >"$group/memory.swap.max" 2>/dev/null
else
    rmdir "$group" 2>/dev/null
    group=/sys/fs/cgroup/memory/firn-e2e-$$
    mkdir "$group" 2>/dev/null && echo 32M >"$group/memory.limit_in_bytes" ||
        skip "no control group of memory can be made here"
fi
trap 'rmdir "$group" 2>/dev/null; cleanup' EXIT
cat >"$tmp/eats" <<END
#!/bin/sh
echo x >>"$tmp/starts"
echo \$\$ >"$group/cgroup.procs" || exit 9
exec tail /dev/zero
END
chmod +x "$tmp/eats"

spec="--gpus 1x1:v100@16,1x1:a100@40 --policy fifo --set local.cgroup=on"
# shellcheck disable=SC2086 # words
up $spec
submit eats 1 "memory: 10GiB" "$tmp/eats"
wait_state eats failed
[ "$(field eats reason)" = out-of-memory ] || fail "$(api GET /jobs/eats)"
[ "$(wc -l <"$tmp/starts")" = 2 ] || fail "$(wc -l <"$tmp/starts") starts"
# Ten were too few, so on the second try it was on the larger one.
held_once eats "n1[0]" || fail "$(api GET /jobs/eats)"

[ "$engine" = local ] || {
    down
    exit 0 # Slurm has its own groups
}
submit left 1 "" /bin/sleep 600
wait_state left running
await "its shepherd says nothing" says /jobs/left/logs 'firn: attempt 1 '
says /jobs/left/logs 'in a control group' ||
    skip "no control group is used here"
pid=$(tr ' ' '\n' <"$tmp/state/control/2/epoch-1/pid" | sed -n 4p)
# Below our own, wherever that is; groups of others come and go.
find "$cage" -name "firn-2-1-$pid" >"$tmp/out" 2>/dev/null
[ -s "$tmp/out" ] || fail "there is no group of shepherd $pid"
down
kill -9 "$pid"
[ -d "$(cat "$tmp/out")" ] || fail "the group is gone already"
# shellcheck disable=SC2086 # words
up $spec
wait_state left lost
[ ! -d "$(cat "$tmp/out")" ] || fail "the group is still there"
down
exit 0
