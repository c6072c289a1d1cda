#!/bin/sh
# 055-a-killed-run-is-named.sh - the others still finish and are printed.
. tests/lib/e2e.sh
command -v pgrep >/dev/null 2>&1 || skip "no pgrep"
trace "$tmp/small.csv" 20
trace "$tmp/large.csv" 20000 # minutes under this policy
"$FIRN" sim --trace "$tmp/large.csv,$tmp/small.csv" --cluster 2x8:v100 \
    --policy sia -j 1 -o csv >"$tmp/out" 2>"$tmp/err" &
pid=$!
has_child()
{
    pgrep -P $pid >"$tmp/child"
}
await "no child process" has_child
kill -KILL "$(cat "$tmp/child")"
wait $pid
rc=$?
[ $rc -eq 1 ] || fail "status $rc, not 1"
err_has "large.csv (sia): the process was killed by signal 9"
out_has "small.csv,sia,"
exit 0
