#!/bin/sh
# 050-ctrl-c-leaves-the-finished.sh - an interrupted batch prints what it has.
. tests/lib/e2e.sh
trace "$tmp/small.csv" 20
trace "$tmp/large.csv" 400000
"$FIRN" sim --trace "$tmp/small.csv,$tmp/large.csv" --cluster 2x8:v100 \
    --policy srtf -j 2 -o csv --out "$tmp/files" >"$tmp/out" 2>"$tmp/err" &
pid=$!
i=0
while [ ! -f "$tmp/files/small--srtf.jobs.csv" ]; do
    i=$((i + 1))
    [ $i -lt 300 ] || fail "the small run does not end"
    sleep 0.1
done
sleep 0.3
kill -TERM $pid
wait $pid
rc=$?
[ $rc -eq 130 ] || fail "status $rc, not 130"
[ "$(wc -l <"$tmp/out")" -eq 2 ] || fail "a head and one row"
out_has "small.csv,srtf,"
err_has "interrupted; 1 of 2 runs finished"

# The same from a terminal.
command -v script >/dev/null 2>&1 || exit 0
cat >"$tmp/go" <<T
trap : INT
"$FIRN" sim --trace "$tmp/small.csv,$tmp/large.csv" --cluster 2x8:v100 \\
    --policy srtf -j 2 -o csv >"$tmp/out" 2>"$tmp/err"
echo \$? >"$tmp/rc"
T
(sleep 2; printf '\003'; sleep 2) | script -qc "sh $tmp/go" /dev/null >/dev/null
[ -f "$tmp/rc" ] || fail "the shell on the terminal did not go on"
[ "$(cat "$tmp/rc")" -eq 130 ] || fail "status $(cat "$tmp/rc"), not 130"
out_has "small.csv,srtf,"
exit 0
