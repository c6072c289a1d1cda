#!/bin/sh
# 276-live-a-chatty-job.sh - a job that prints without end: its log keeps to its
# limit and has the newest lines, the scheduler works and does not grow, and the
# job is cancelled as any other. What was dropped is told. A shepherd that stands
# still loses nothing. A log that is a planted link is refused, not followed.
. tests/lib/firnd.sh
"$FIRN" help | grep -q '^  submit ' || skip "firn was built without its client"
FIRN_SOCKET=$socket
export FIRN_SOCKET
spec="--gpus 1x2:v100@16 --policy fifo --log-mib 1"
# shellcheck disable=SC2086 # words
up $spec

# dropped JOB: bytes that its log had and has no more.
dropped()
{
    api GET "/jobs/$1" |
        sed -n 's/.*"dropped_bytes": \([0-9]*\).*/\1/p'
}

# has_dropped JOB BYTES: has the log dropped at least BYTES?
has_dropped()
{
    [ "$(dropped "$1")" -ge "$2" ] 2>/dev/null
}

# kib FOLDER: what a folder takes on disk; files may come and go meanwhile.
kib()
{
    du -sk "$1" 2>/dev/null | cut -f 1
}

# resident: KiB of the scheduler in memory.
resident()
{
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$daemon/status"
}

submit chatty 1 "checkpoint: {grace: 2}" yes "a line that is printed without end"
wait_state chatty running
await "nothing is dropped" has_dropped chatty 1000000
before=$(resident)
most=0
for i in 8 16 24 32; do
    await "it stands still" has_dropped chatty $((i * 1000000))
    now=$(kib "$tmp/state/jobs/1")
    [ "$now" -le "$most" ] || most=$now
    run 0 logs --tail 2 chatty
    grep -q 'a line that is printed without end' "$tmp/out" ||
        fail "the last lines are not there"
done
# 1 MiB, and what the file system takes for small files and for a file that is
# being replaced.
[ "$most" -le 1600 ] || fail "the job's folder has $most KiB"
[ "$(resident)" -le $((before + 4096)) ] ||
    fail "firnd grew from $before to $(resident) KiB"
run 0 show chatty
grep -q '^log: [0-9]* bytes kept, the oldest [0-9]* dropped$' "$tmp/out" ||
    fail "show does not say what was dropped"
run 0 logs chatty
err_has 'bytes were dropped before they were read'
run 0 submit --wait --name other -- true # others are scheduled meanwhile
run 0 cancel chatty
wait_state chatty cancelled
"$FIRN" logs chatty >"$tmp/all" 2>/dev/null || fail "its log cannot be read"
[ "$(wc -c <"$tmp/all")" -le 1048576 ] || fail "the log is over its limit"
grep -q '^firn: [0-9]* bytes of output came before this line; this log keeps the newest 1 MiB$' \
    "$tmp/all" || fail "the log does not say it"
tail -n 1 "$tmp/all" | grep -q '^firn: .*was ended' || fail "its end is not last"

# A follower gets every byte of a log below the limit, through a rotation, with
# a shepherd that stands still on the way and a job that prints more than the
# pipe takes.
cat >"$tmp/count" <<END
#!/bin/sh
echo begun
until [ -e "$tmp/go" ]; do sleep 0.2; done
seq 100000
END
chmod +x "$tmp/count"
submit counts 1 "" "$tmp/count"
wait_state counts running
id=$(field counts id)
"$FIRN" logs -f --raw counts >"$tmp/followed" 2>"$tmp/missed" &
follower=$!
has_begun()
{
    grep -qx begun "$tmp/followed"
}
await "nothing is followed" has_begun
shepherd=
[ "$engine" != local ] || shepherd=$(shepherds)
[ -z "$shepherd" ] || kill -STOP "$shepherd"
: >"$tmp/go"
if [ -n "$shepherd" ]; then # else the job may be over by now
    says "/jobs/counts" running || fail "the API does not answer"
    kill -CONT "$shepherd"
fi
wait_state counts succeeded
wait "$follower" || fail "the follower failed"
[ ! -s "$tmp/missed" ] || fail "the follower missed bytes"
grep '^[0-9]*$' "$tmp/followed" >"$tmp/numbers"
seq 100000 | cmp -s - "$tmp/numbers" || fail "lines are missing or in disorder"
[ -e "$tmp/state/jobs/$id/log.1" ] || fail "the log was not rotated"

# A log as an older firn left it: one file.
printf 'plain\nold\n' >"$tmp/state/jobs/2/log"
run 0 logs other
[ "$(cat "$tmp/out")" = "$(printf 'plain\nold')" ] || fail "an old log is not read"

# A link in the place of the next job's log.
: >"$tmp/outside"
next=$((id + 1))
mkdir "$tmp/state/jobs/$next"
ln -s "$tmp/outside" "$tmp/state/jobs/$next/log"
submit linked 1 "" echo secret
wait_state linked failed
[ ! -s "$tmp/outside" ] || fail "the link was followed"
run 0 show linked
out_has "the job's log is a symbolic link, not a plain file"
run 1 logs linked
err_has 'a symbolic link'
down
exit 0
