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

# Charts as files: SVG that can be read alone, PNG by rsvg-convert.
"$FIRN" report "$tmp/results" -o "$tmp/c.html" --charts "$tmp/charts" \
    >"$tmp/out" 2>"$tmp/err" || fail "report with --charts"
ls "$tmp/charts" >"$tmp/out"
out_has '1-completion-times-percent-of-jobs-below.svg'
head -c 44 "$tmp/charts/2-gpus-held.svg" |
    grep -q "<svg xmlns='http://www.w3.org/2000/svg'" || fail "no name space"
mkdir "$tmp/bin"
printf '#!/bin/sh\n[ "$1$3" = "-z-o" ] && cp "$5" "$4"\n' >"$tmp/bin/rsvg-convert"
chmod +x "$tmp/bin/rsvg-convert"
PATH=$tmp/bin:$PATH "$FIRN" report "$tmp/results" -o "$tmp/c.html" \
    --charts "$tmp/charts" --png >"$tmp/out" 2>"$tmp/err" || fail "with --png"
cmp "$tmp/charts/2-gpus-held.svg" "$tmp/charts/2-gpus-held.png" ||
    fail "rsvg-convert did not get the chart"
PATH=/nowhere "$FIRN" report "$tmp/results" -o "$tmp/c.html" \
    --charts "$tmp/charts" --png >"$tmp/out" 2>"$tmp/err" && fail "no program"
err_has 'apt install librsvg2-bin'
"$FIRN" report "$tmp/results" --png >"$tmp/out" 2>"$tmp/err" && fail "--png alone"
err_has '--png needs --charts DIR'
exit 0
