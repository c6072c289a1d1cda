#!/bin/sh
# The disk of the scheduler's state fills up. firnd stays up: it refuses new jobs
# with a sentence, shows the jobs there are, cancels them, notices their ends and
# starts none; it comes up on a full disk too, after a kill and after an orderly
# end; and with room again it goes on by itself.
if [ -z "${FIRN_MOUNTED:-}" ] && [ "$(id -u)" != 0 ] &&
    unshare -rm true 2>/dev/null; then
    FIRN_MOUNTED=1 exec unshare -rm "$0"
fi
. tests/lib/firnd.sh
only local "the disk is the scheduler's own: once is enough"
mkdir "$tmp/state"
mount -t tmpfs -o size=8m,mode=700 firn "$tmp/state" 2>/dev/null ||
    skip "no file system may be mounted here"
trap 'kill -9 "$daemon" 2>/dev/null; end_jobs; umount -l "$tmp/state"; daemon=
    cleanup' EXIT
spec="--gpus 1x4:v100@16 --policy fifo"

# Works until it is told to end.
cat >"$tmp/ticks" <<END
#!/bin/sh
while [ ! -e "$tmp/end.\$FIRN_JOB" ]; do
    echo >>"$tmp/count.\$FIRN_JOB"
    sleep 0.05
done
END
chmod +x "$tmp/ticks"

# end_jobs: ends all jobs, and makes room on the disk first.
end_jobs()
{
    for job in 1 2 3 4 5 6; do : >"$tmp/end.$job"; done
    rm -f "$tmp/state/fill"*
    tries=0
    while [ -n "$(shepherds)" ] && [ "$tries" -lt "$patience" ]; do
        nap
    done
}

# fill: there is no more room on the disk.
nfills=0
fill()
{
    nfills=$((nfills + 1))
    cat /dev/zero >"$tmp/state/fill$nfills" 2>/dev/null
}

# refused: a submit is, with 507 and a sentence that says what to do.
refused()
{
    status=$(curl -s --max-time 60 --unix-socket "$socket" -X POST \
        -H 'Content-Type: application/yaml' --data-binary 'run: [sleep, "0"]' \
        -o "$tmp/out" -w '%{http_code}' http://firn/v1/jobs)
    [ "$status" = 507 ] && out_has 'disk-full' && out_has 'MiB free'
}

# more JOB N: it has worked more than N times.
more()
{
    [ "$(cat "$tmp/count.$1" 2>/dev/null | wc -l)" -gt "$2" ]
}

# goes_on JOB: it works.
goes_on()
{
    await "job $1 stands still" more "$1" \
        "$(cat "$tmp/count.$1" 2>/dev/null | wc -l)"
}

# room STATE: the metric says that the disk is in it.
room()
{
    api GET /metrics | grep -q "^firn_disk_room{state=\"$1\"} 1"
}

in_trouble()
{
    says /health '"trouble"'
}

# must_be JOB STATE
must_be()
{
    [ "$(field "$1" state)" = "$2" ] || fail "$1 is $(field "$1" state)"
}

# shellcheck disable=SC2086 # words
up $spec
for name in runs ends victim last; do
    submit "$name" 1 "" "$tmp/ticks"
    wait_state "$name" running
done
submit waits 1 "" /bin/true
for job in 1 2 3 4; do goes_on "$job"; done
room ample || fail "the disk is not ample"
[ -s "$tmp/state/firn.reserve" ] || fail "there is no reserve"

# It fills up: that is seen, and said everywhere.
fill
await "the full disk is not seen" in_trouble
refused || fail "a submit is answered by $status: $(cat "$tmp/out")"
! room ample || fail "the metric says ample"
api GET /nodes >"$tmp/out"
out_has 'is nearly full'
grep -q 'disk: .*was ample' "$tmp/err" || fail "the log does not say it"

# Ends are noticed, nothing is started on what they leave.
: >"$tmp/end.2"
wait_state ends succeeded
must_be waits pending

# A cancel is answered, and ends the job.
api POST /jobs/victim/cancel >/dev/null || fail "the cancel is refused"
wait_state victim cancelled
must_be waits pending

# What the reserve left is taken as well.
fill
refused || fail "a submit is answered by $status"
must_be runs running

# Killed, it comes up on the full disk, and knows all.
down KILL
# shellcheck disable=SC2086 # words
up $spec
await "the full disk is not seen" in_trouble
must_be runs running
must_be ends succeeded
must_be victim cancelled
must_be waits pending
refused || fail "a submit is answered by $status"

# Ended in order, there is no -wal and no -shm, and no room for them.
down
fill
# shellcheck disable=SC2086 # words
up $spec
await "the full disk is not seen" in_trouble
must_be runs running
refused || fail "a submit is answered by $status"

# A cancel ends the processes even if it cannot be written.
curl -s --max-time 60 --unix-socket "$socket" -X POST -o "$tmp/out" \
    http://firn/v1/jobs/last/cancel
still()
{
    count=$(wc -l <"$tmp/count.4")
    sleep 0.3
    ! more 4 "$count"
}
await "the cancelled job works on" still
goes_on 1

# With room it goes on by itself.
rm "$tmp/state/fill"*
wait_state last cancelled
wait_state waits succeeded
await "the disk is not ample again" room ample
[ -s "$tmp/state/firn.reserve" ] || fail "there is no reserve"
[ "$(field runs epoch)" = 1 ] || fail "runs was started anew"
goes_on 1
submit next 1 "" /bin/true
wait_state next succeeded
[ "$(field next id)" = 6 ] || fail "a job that was refused is there"
: >"$tmp/end.1"
wait_state runs succeeded
kill -0 "$daemon" || fail "firnd ended"
down
exit 0
