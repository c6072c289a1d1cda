#!/bin/sh
# With firn-launch a job runs as the user who submitted it, in folders of its
# own; it cannot touch its control files, others' jobs or their logs. Without
# the launcher firnd takes no jobs of other users.
. tests/lib/firnd.sh
only local "it is about processes of this host"
[ "$(id -u)" = 0 ] || skip "real users need root"
for tool in useradd userdel groupadd groupdel setpriv pgrep; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
done
launcher=${FIRN%/firn}/firn-launch
[ -x "$launcher" ] || skip "firn-launch is not built"
case $firnd in
*/asan/*) skip "a leak checker cannot look into a supervisor that changes users" ;;
esac
tag=fe$$ root_daemon=
# Not below $tmp, which other users cannot enter.
lab=$(mktemp -d /tmp/firn-lab.XXXXXX) || skip "there is no folder for a lab"
mates="${tag}d ${tag}a ${tag}b"
tidy()
{
    [ -z "$root_daemon" ] || kill "$root_daemon" 2>/dev/null
    for user in $mates; do
        for pid in $(pgrep -u "$user"); do
            kill -9 "$pid" 2>/dev/null
        done
        userdel "$user" 2>/dev/null
    done
    groupdel "${tag}g" 2>/dev/null
    rm -rf "$tmp" "$lab"
}
trap tidy EXIT
groupadd "${tag}g" 2>"$tmp/err" || skip "no group can be made: $(cat "$tmp/err")"
for user in $mates; do
    useradd -M -G "${tag}g" -s /bin/sh "$user" 2>"$tmp/err" ||
        skip "no user can be made: $(cat "$tmp/err")"
done
chmod 755 "$lab"
mkdir "$lab/run" "$lab/state"
chown "${tag}d" "$lab/run" "$lab/state"
chmod 755 "$lab/run"
cp "$firnd" "$FIRN" "$lab/" # the build folder may be closed to others
socket=$lab/run/sock

# as USER COMMAND...: runs it as that user, with the groups of that user.
as()
{
    user=$1
    shift
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
        env HOME=/ FIRN_SOCKET="$socket" "$@"
}
gpus="--gpus 1x2:v100@16"
start_firnd()
{
    # shellcheck disable=SC2086 # two words, or none
    setpriv --reuid "${tag}d" --regid "$(id -g "${tag}d")" --init-groups \
        env HOME=/ LD_LIBRARY_PATH="$lab" "$lab/firnd" $gpus --state "$lab/state" \
        --socket "$socket" --socket-group "${tag}g" "$@" 2>>"$tmp/err" &
    daemon=$!
    await "firnd does not answer" answers
}
end_firnd()
{
    kill "$daemon"
    wait "$daemon" 2>/dev/null
    daemon=
}

# Without a launcher: a sentence for others.
start_firnd
as "${tag}a" "$lab/firn" submit -- true >"$tmp/out" 2>&1 &&
    fail "firnd without a launcher took the job of another user"
out_has "runs all jobs as its own user"
end_firnd

# With limits, where this host has control groups for them.
limits="--memory-max 200M --pids-max 300 --cpus-max 3"
more=
start_launcher()
{
    # shellcheck disable=SC2086 # several words
    "$launcher" --state "$lab/state" --socket "$lab/run/launch" \
        --user "${tag}d" --group "${tag}g" --shepherd "$lab/firnd" --uid-min 1 \
        $limits $more 2>"$tmp/launcher" &
    root_daemon=$!
}
is_up_or_over()
{
    [ -S "$lab/run/launch" ] || ! kill -0 "$root_daemon" 2>/dev/null
}
start_launcher
await "the launcher neither listens nor ends" is_up_or_over
if [ ! -S "$lab/run/launch" ]; then
    grep -q 'no control groups that limit' "$tmp/launcher" ||
        fail "the launcher ended: $(cat "$tmp/launcher")"
    echo "# without limits: $(cat "$tmp/launcher")"
    limits='' more=--without-cgroups
    start_launcher
fi
await "there is no launcher" test -S "$lab/run/launch"
start_firnd --launcher "$lab/run/launch"

# The job says who it is, tries to change what is not its own, and goes on until
# it is cancelled.
cat >"$lab/job" <<END
id -un
id -nG
pwd
touch mine && echo wrote its folder
touch "$lab/state/control/1/x" 2>/dev/null && echo WROTE CONTROL FILES
cat "$lab/state/firn.db" >/dev/null 2>&1 && echo READ THE STATE
kill \$PPID 2>/dev/null && echo SIGNALLED ITS SUPERVISOR
ls "$lab/state/control" 2>/dev/null && echo SAW CONTROL FILES
echo token \${FIRN_TOKEN:+given}
echo ready
exec sleep 1000
END
chmod 755 "$lab/job"
# workdir: its own folder under the state directory
printf 'name: a\nrun: [/bin/sh, %s]\ngpus: 1\n' "$lab/job" >"$lab/a.yaml"
chmod 644 "$lab/a.yaml"
as "${tag}a" curl -sf --unix-socket "$socket" -H 'Content-Type: application/yaml' \
    --data-binary @"$lab/a.yaml" http://firn/v1/jobs >"$tmp/out" ||
    fail "the job was not taken"
ready()
{
    as "${tag}a" "$lab/firn" logs a >"$tmp/out" 2>&1
    grep -q '^ready' "$tmp/out"
}
await "the job does not get ready" ready
grep -qx "${tag}a" "$tmp/out" || fail "the job does not run as its user"
grep -q "${tag}g" "$tmp/out" || fail "the job lacks the groups of its user"
out_has "wrote its folder"
out_has "$lab/state/jobs/1/work"
! grep -q '^[A-Z][A-Z][A-Z]' "$tmp/out" || fail "the job reached too far"
[ "$(stat -c %U "$lab/state/jobs/1/work/mine")" = "${tag}a" ] ||
    fail "its file is not its user's"

# The groups of the job have the limits, and its user cannot leave them.
sleeper=$(pgrep -u "${tag}a" -x sleep)
limit_of() # CONTROLLER FILE: of the group of the job
{
    group=$(sed -n "s/^[0-9]*:\(.*,\)*$1\(,[^:]*\)*:\(.*\)/\3/p" "/proc/$sleeper/cgroup")
    cat "/sys/fs/cgroup/$1$group/$2" 2>/dev/null ||
        cat "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$sleeper/cgroup" |
            sed 's|/firn[-/][^/]*$||')/$3"
}
if [ -n "$limits" ] && [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
    [ "$(limit_of memory memory.limit_in_bytes memory.max)" = 209715200 ] ||
        fail "the job has no limit of memory: $(cat "/proc/$sleeper/cgroup")"
    [ "$(limit_of pids pids.max pids.max)" = 300 ] || fail "no limit of processes"
    [ "$(limit_of cpu cpu.cfs_quota_us cpu.max)" = 300000 ] || fail "no limit of processors"
    as "${tag}a" sh -c "echo $sleeper >/sys/fs/cgroup/memory/cgroup.procs" 2>/dev/null &&
        fail "a user leaves the control group"
fi
if [ -n "$limits" ]; then
    as "${tag}a" curl -sf --unix-socket "$socket" -H 'Content-Type: application/yaml' \
        --data-binary 'name: hog
run: [/bin/sh, -c, "head -c 900M /dev/zero | tail -c 900M | wc -c"]
gpus: 1' http://firn/v1/jobs >/dev/null || fail "job hog was not taken"
    hog_is_over() { api GET /jobs/hog | grep -q -e '"ended_s": [1-9]'; }
    await "the job with too much memory does not end" hog_is_over
    as "${tag}a" "$lab/firn" logs hog >"$tmp/out"
    ! grep -qx 943718400 "$tmp/out" || fail "a job has more memory than its limit"
fi

# Another user sees the job, and not its log; cannot end it.
as "${tag}b" "$lab/firn" ls >"$tmp/out" || fail "firn ls of another user"
out_has "${tag}a"
as "${tag}b" "$lab/firn" logs a >"$tmp/out" 2>&1 && fail "a log is not private"
out_has "belongs to user ${tag}a"
as "${tag}b" "$lab/firn" cancel a >"$tmp/out" 2>&1 && fail "cancelled by another"

# A restart of firnd takes the job over; its user ends it.
end_firnd
start_firnd --launcher "$lab/run/launch"
pgrep -u "${tag}a" -x sleep >/dev/null || fail "the job ended with firnd"
as "${tag}a" "$lab/firn" cancel a >"$tmp/out" 2>&1 || fail "not cancelled"
is_over() { api GET /jobs/a | grep -q '"state": "cancelled"'; }
await "the job does not end" is_over
! pgrep -u "${tag}a" -x sleep >/dev/null || fail "a process of the job is left"

# A supervisor that is killed leaves no process of the user behind.
as "${tag}a" curl -sf --unix-socket "$socket" -H 'Content-Type: application/yaml' \
    --data-binary 'name: b
run: [/bin/sh, -c, "setsid sleep 1000 & echo ready; wait"]
gpus: 1' http://firn/v1/jobs >/dev/null || fail "job b was not taken"
b_is_ready() { as "${tag}a" "$lab/firn" logs b 2>/dev/null | grep -q ready; }
await "job b does not get ready" b_is_ready
kill -9 "$(pgrep -u "${tag}d" -f -- --shepherd-for | head -n 1)"
none_left() { ! pgrep -u "${tag}a" -x sleep >/dev/null; }
await "processes are left behind a killed supervisor" none_left
as "${tag}a" "$lab/firn" cancel b >/dev/null 2>&1
end_firnd

# The disk quota counts files in folders that are the user's.
printf "users:\n  - name: '*'\n    disk: 1MiB\n" >"$lab/shares.yaml"
chmod 644 "$lab/shares.yaml"
start_firnd --launcher "$lab/run/launch" --shares "$lab/shares.yaml"
submit_big()
{
    as "${tag}a" curl -s --unix-socket "$socket" -H 'Content-Type: application/yaml' \
        --data-binary 'name: big
run: [/bin/sh, -c, "mkdir d && head -c 2000000 /dev/zero >d/file"]
gpus: 1' http://firn/v1/jobs >"$tmp/out"
}
submit_big
out_has '"name": "big"'
big_is_over() { api GET /jobs/big | grep -q '"state": "succeeded"'; }
await "the job with a file does not succeed" big_is_over
submit_big
out_has "over quota: the jobs of user ${tag}a have"
end_firnd

# With a driver (a made-up one here): a job can open the devices of its own GPUs
# only. The made-up driver numbers its devices backwards: GPU 0 is /dev/nvidia1.
# These devices have no driver either: open() fails, but not by "not permitted".
grep -q 'GPUs of others are closed' "$tmp/launcher" ||
    { echo "# devices: $(cat "$tmp/launcher")" && exit 0; }
cp "$FIRN_BUILD/tests/fake/libnvidia-ml.so.1" "$lab/" &&
    mknod -m 666 "$lab/nv0" c 195 0 && mknod -m 666 "$lab/nv1" c 195 1 ||
    { echo "# devices: there is no made-up driver" && exit 0; }
printf '15 Tesla T4:\n15 Tesla T4:\n' >"$lab/gpus"
chmod 644 "$lab/gpus"
gpus=
start_firnd --launcher "$lab/run/launch"
cat >"$lab/open" <<END
echo "GPU \$CUDA_VISIBLE_DEVICES"
for i in 0 1; do
    (true <"$lab/nv\$i") 2>&1 | grep -q 'not permitted' && echo closed \$i || echo open \$i
done
END
chmod 755 "$lab/open"
as "${tag}a" "$lab/firn" submit --name opens --gpus 1 --workdir / --wait \
    -- /bin/sh "$lab/open" >"$tmp/out" 2>&1 || fail "the job fails: $(cat "$tmp/out")"
as "${tag}a" "$lab/firn" logs opens >"$tmp/out" 2>&1
case $(grep -v '^firn:' "$tmp/out" | tr '\n' ' ') in
"GPU GPU-0 closed 0 open 1 " | "GPU GPU-1 open 0 closed 1 ") ;;
*) fail "its devices: $(cat "$tmp/out")" ;;
esac
end_firnd
