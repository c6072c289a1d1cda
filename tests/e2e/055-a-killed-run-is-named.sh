#!/bin/sh
# 055-a-killed-run-is-named.sh - the others still finish and are printed.
. tests/lib/e2e.sh
command -v pgrep >/dev/null 2>&1 || skip "no pgrep"
trace "$tmp/small.csv" 20
trace "$tmp/large.csv" 400000
"$FIRN" sim --trace "$tmp/large.csv,$tmp/small.csv" --cluster 2x8:v100 \
    --policy srtf -j 1 -o csv >"$tmp/out" 2>"$tmp/err" &
pid=$!
i=0
while ! child=$(pgrep -P $pid); do
    i=$((i + 1))
    [ $i -lt 300 ] || fail "no child process"
    sleep 0.1
done
kill -KILL "$child"
wait $pid
rc=$?
[ $rc -eq 1 ] || fail "status $rc, not 1"
err_has "large.csv (srtf): the process was ended by signal 9"
out_has "small.csv,srtf,"
exit 0
