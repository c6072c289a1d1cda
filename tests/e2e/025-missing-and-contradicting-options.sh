#!/bin/sh
# 025-missing-and-contradicting-options.sh - are named, and nothing is run.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 5
run 2 sim
err_has "no trace given: use --trace FILE"
run 2 sim --trace "$tmp/jobs.csv" --policy fifo
err_has "no cluster given: use --cluster"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100
err_has "no policy given: use --policy"
run 2 sim "$tmp/jobs.csv"
err_has "name a trace by --trace"
all="sim --trace $tmp/jobs.csv --cluster 1x8:v100 --policy fifo"
# shellcheck disable=SC2086
{
    run 2 $all --mtbf 1d --failures x
    err_has "exclude each other"
    run 2 $all --mtbf 1d --mttr 0
    err_has "--mtbf needs --mttr above 0"
    run 2 $all --timeline-step 60
    err_has "--timeline-step needs --out"
    run 2 $all --interval 1w
    err_has "--interval: '1w' is not a duration"
    run 2 $all --share-slowdown 0.5
    err_has "--share-slowdown: 0.5 is below 1"
    run 2 $all -j 0
    err_has "--jobs"
}
run 1 sim --trace "$tmp/jobs.csv" --cluster 0x8:v100 --policy fifo
[ -s "$tmp/err" ] || fail "no message about a cluster without GPUs"
run 1 sim --trace "$tmp/nothing.csv" --cluster 1x8:v100 --policy fifo,sjf
err_has "nothing.csv (fifo, sjf): "
[ "$(wc -l <"$tmp/err")" -eq 1 ] || fail "one sentence for both policies"
exit 0
