#!/bin/sh
# The disk of the scheduler's state fills up: nothing more is acknowledged, and
# it stops with a sentence rather than tell other things than are on disk; jobs
# go on. With room again it goes on where it was, and knows how those ended that
# ended meanwhile.
. tests/lib/firnd.sh
mkdir "$tmp/state"
mount -t tmpfs -o size=4m firn "$tmp/state" 2>/dev/null ||
    skip "no file system may be mounted here"
trap 'kill -9 "$daemon" 2>/dev/null; end_jobs; umount -l "$tmp/state"; daemon=
    cleanup' EXIT
spec="--gpus 1x2:v100@16 --policy fifo"

# Works until it is told to end.
cat >"$tmp/ticks" <<END
#!/bin/sh
while [ ! -e "$tmp/end.\$FIRN_JOB" ]; do
    echo >>"$tmp/count.\$FIRN_JOB"
    sleep 0.05
done
END
chmod +x "$tmp/ticks"

# end_jobs: none is there any more, whatever the disk has room for.
end_jobs()
{
    touch "$tmp/end.1" "$tmp/end.2"
    tries=0
    while [ -n "$(shepherds)" ] && [ "$tries" -lt "$patience" ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
}

# full: so is the disk; a submit is answered by an error that says so, and the
# scheduler ends by itself.
full()
{
    status=$(curl -s --max-time 60 --unix-socket "$socket" -X POST \
        -H 'Content-Type: application/yaml' --data-binary 'run: [sleep, "0"]' \
        -o "$tmp/out" -w '%{http_code}' http://firn/v1/jobs)
    [ "$status" = 500 ] || fail "a submit is answered by $status"
    out_has 'could not be written'
    out_has 'full'
    wait "$daemon" && fail "firnd ended with 0"
    tail -n 1 "$tmp/err" | grep -q 'firnd: .*full' || fail "firnd says no reason"
}

# shellcheck disable=SC2086 # words
up $spec
submit runs 1 "" "$tmp/ticks"
submit ends 1 "" "$tmp/ticks"
wait_state runs running
wait_state ends running
await "it does not work" [ -s "$tmp/count.1" ]
await "it does not work" [ -s "$tmp/count.2" ]
cat /dev/zero >"$tmp/state/fill" 2>/dev/null # until there is no more room
full
before=$(wc -l <"$tmp/count.1")
# Even so it comes up, and shows what is there.
# shellcheck disable=SC2086 # words
up $spec
[ "$(field runs state)" = running ] || fail "runs is $(field runs state)"
full
cat /dev/zero >>"$tmp/state/fill" 2>/dev/null
: >"$tmp/end.2"
sleep 0.3 # its end finds no room either
rm "$tmp/state/fill"
# shellcheck disable=SC2086 # words
up $spec
wait_state ends succeeded
[ "$(field runs state)" = running ] || fail "runs is $(field runs state)"
[ "$(field runs epoch)" = 1 ] || fail "it was started anew"
goes_on()
{
    [ "$(wc -l <"$tmp/count.1")" -gt "$before" ]
}
await "it stands still" goes_on
! api GET /jobs/3 >/dev/null || fail "a job that was refused is there"
submit next 1 "" /bin/true
wait_state next succeeded
: >"$tmp/end.1"
wait_state runs succeeded
down
exit 0
