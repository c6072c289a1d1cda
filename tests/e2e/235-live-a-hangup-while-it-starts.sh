#!/bin/sh
# SIGHUP while firnd reads its configuration does not end it: the configuration
# is read again once it runs, and what it says by then holds.
. tests/lib/firnd.sh
only local "it is about firnd alone"
printf 'policy: sjf\ngpus: 1x2:v100@16\n' >"$tmp/old"
printf 'policy: fifo\ngpus: 1x2:v100@16\n' >"$tmp/new"
# Reading a pipe blocks until it is written: firnd is still starting until then.
mkfifo "$tmp/config" || fail "no pipe"
"$firnd" --config "$tmp/config" --state "$tmp/state" --socket "$socket" \
    --allow-root 2>>"$tmp/err" &
daemon=$!
exec 3>"$tmp/config"
kill -HUP "$daemon"
mv "$tmp/new" "$tmp/config"
cat "$tmp/old" >&3
exec 3>&-
await "firnd does not answer" answers
await "the new configuration was not read" says /policy '"name": "fifo"'
down
exit 0
