#!/bin/sh
# 040-strict-stops-at-the-first-bad-row.sh - with file and line, status 1.
. tests/lib/e2e.sh
trace "$tmp/good.csv" 5
cp "$tmp/good.csv" "$tmp/bad.csv"
echo "x,20,-1,5" >>"$tmp/bad.csv"
run 1 sim --trace "$tmp/bad.csv" --cluster 1x8:v100 --policy fifo,sjf --strict
err_has "bad.csv (fifo, sjf): line 8: "
[ ! -s "$tmp/out" ] || fail "nothing is finished, nothing is printed"
# The good trace is still run and printed.
run 1 sim --trace "$tmp/bad.csv,$tmp/good.csv" --cluster 1x8:v100 \
    --policy fifo --strict -o csv
err_has "line 8: "
[ "$(wc -l <"$tmp/out")" -eq 2 ] || fail "a head and one row"
out_has "good.csv,fifo,"
run 0 sim --trace "$tmp/good.csv" --cluster 1x8:v100 --policy fifo --strict
exit 0
