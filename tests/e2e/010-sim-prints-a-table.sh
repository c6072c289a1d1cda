#!/bin/sh
# 010-sim-prints-a-table.sh - firn sim prints one row for each trace and policy.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 50
run 0 sim --trace "$tmp/jobs.csv" --cluster 4x8:v100 --policy fifo,sjf
err_is_empty
out_has "cluster 4x8:v100, a restart costs 30 s"
out_has "mean JCT by GPUs asked for"
[ "$(grep -c '^jobs.csv  fifo' "$tmp/out")" -eq 2 ] || fail "two rows for fifo"
[ "$(grep -c '^jobs.csv  sjf' "$tmp/out")" -eq 2 ] || fail "two rows for sjf"
first=$(sed -n '4p' "$tmp/out" | awk '{ print $2, $3 }')
[ "$first" = "fifo 50" ] || fail "the first row is '$first'"
grep -q ' $' "$tmp/out" && fail "a line ends in a space"
cp "$tmp/out" "$tmp/first"
run 0 sim --trace "$tmp/jobs.csv" --cluster 4x8:v100 --policy fifo,sjf
cmp -s "$tmp/out" "$tmp/first" || fail "two runs differ"
run 0 sim -t "$tmp/jobs.csv" -c 4x8:v100 -p all
rows=$("$FIRN" policies -o json | grep -c '^{"name":')
[ "$(grep -c '^jobs.csv ' "$tmp/out")" -eq $((2 * rows)) ] || fail "all policies"
exit 0
