#!/bin/sh
# 169-models-without-gpus.sh - language models made up, and run by frenzy.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

yard=1x2:a100,1x1:a100,1x4:a800,2x2:a100-80

# The same jobs twice: with GPUs open, and with those a user would ask for.
run 0 trace gen -n 40 -c $yard --models new --duration-max 2h -o "$tmp/open.csv"
run 0 trace gen -n 40 -c $yard --models new --duration-max 2h --ask \
    -o "$tmp/asked.csv"
grep -q '^name,submit_s,gpus,duration_s,app,batch,seq$' "$tmp/open.csv" ||
    fail "other columns"
[ "$(cut -d, -f3 "$tmp/open.csv" | grep -c '^0$')" -eq 40 ] ||
    fail "GPUs are said"
[ "$(cut -d, -f3 "$tmp/asked.csv" | grep -c '^[1-4]$')" -eq 40 ] ||
    fail "GPUs are not said"

# All of them end, and what was done can be checked.
run 0 sim -t "$tmp/open.csv,$tmp/asked.csv" -c $yard \
    -p frenzy,opportunistic,sia --out "$tmp/runs" -o json
[ "$(grep -o '"jobs":40,' "$tmp/out" | wc -l)" -eq 6 ] || fail "jobs are left"
run 0 sim --replay "$tmp/runs"/*.events.tsv

# What cannot be is said.
run 1 trace gen -n 4 -c 1x4:2080ti --models gpt2-7b
err_has "model gpt2-7b does not fit on any GPU of this cluster"
run 1 trace gen -n 4 -c 1x4:2080ti --models gpt3
err_has "no model 'gpt3'"
