#!/bin/sh
# firn report and firn sim --report write the same page about the same runs, and
# --report leaves no other file behind.
. tests/lib/e2e.sh
mkdir "$tmp/scratch" "$tmp/none"
printf 'job_id,submit_s,duration_s,num_gpus\na,0,600,1\nb,10,60,2\nc,20,30,1\n' >"$tmp/t.csv"
TMPDIR=$tmp/scratch "$FIRN" sim -t "$tmp/t.csv" -c 1x2:v100 -p fifo,sjf \
    --report "$tmp/a.html" --out "$tmp/results" >"$tmp/out" 2>"$tmp/err" ||
    fail "sim with --out and --report"
TMPDIR=$tmp/scratch "$FIRN" sim -t "$tmp/t.csv" -c 1x2:v100 -p fifo,sjf \
    --report "$tmp/b.html" >"$tmp/out" 2>"$tmp/err" || fail "sim with --report"
"$FIRN" report "$tmp/results" -o "$tmp/c.html" >"$tmp/out" 2>"$tmp/err" ||
    fail "report"
cmp "$tmp/a.html" "$tmp/b.html" || fail "the page depends on --out"
cmp "$tmp/a.html" "$tmp/c.html" || fail "firn report writes another page"
grep -q 'Report of 2 simulations' "$tmp/c.html" || fail "two runs"
grep -q '<script\|src=\|href=' "$tmp/c.html" && fail "the page loads something"
[ -z "$(ls "$tmp/scratch")" ] || fail "files are left in TMPDIR"
"$FIRN" report "$tmp/none" >"$tmp/out" 2>"$tmp/err" && fail "an empty folder"
grep -q "has no results: 'firn sim --out" "$tmp/err" || fail "no remedy is said"
