#!/bin/sh
# 175-training-fills-what-serving-leaves.sh - a serving load and easyscale.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

gen()
{
    status=$1
    shift
    run "$status" trace gen -c 4x8:v100 --jobs 60 --elastic 1 --load 0.6 \
        --duration-max 2h "$@"
}
gen 0 --serving 0.4 -o "$tmp/both.csv"
gen 0 -o "$tmp/train.csv"
{ sed -n 1,2p "$tmp/both.csv"; grep serving "$tmp/both.csv"; } >"$tmp/serve.csv"

# The other jobs are the same, servers or not.
grep '^j' "$tmp/both.csv" | cut -d, -f1-6 >"$tmp/a"
grep '^j' "$tmp/train.csv" >"$tmp/b"
cmp -s "$tmp/a" "$tmp/b" || fail "a serving load changes the other jobs"

# Servers never wait for a GPU, every job finishes, more of the cluster is held.
alloc() { grep -o '"gpu_alloc_ratio":[0-9.]*' "$tmp/out" | cut -d: -f2; }
run 0 sim -t "$tmp/serve.csv" -c 4x8:v100 -p easyscale -q -o json
alone=$(alloc)
run 0 sim -t "$tmp/both.csv" -c 4x8:v100 -p easyscale -q -o json \
    --restart-cost 5s --out "$tmp/both"
awk "BEGIN { exit !($(alloc) > $alone + 0.1) }" || fail "little is filled"
out_has '"unfinished":0'
run 0 sim --replay "$tmp/both"/*.events.tsv
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "queue_s") q = i }
         /^serve/ && $q > 0 { exit 1 }' "$tmp/both"/*.jobs.csv ||
    fail "a server waited"

gen 1 --serving 1.5
err_has "serving is 1.5: must be above 0, to 1"
