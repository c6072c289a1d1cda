#!/bin/sh
# 015-one-job-takes-its-duration.sh - hand-worked: two jobs behind one another.
. tests/lib/e2e.sh
cat >"$tmp/two.csv" <<'T'
#firn-trace 1
name,submit_s,gpus,duration_s
first,0,2,100
second,10,2,50
T
run 0 sim --trace "$tmp/two.csv" --cluster 1x2:v100 --policy fifo -o json
out_has '"jobs":2,'
out_has '"jct_mean_s":120,'
out_has '"queue_mean_s":45,'
out_has '"makespan_s":150,'
out_has '"gpu_alloc_ratio":1,'
out_has '"restarts":0,'
# srtf: the second preempts at 10 and the first restarts at 60, 30 s later.
run 0 sim --trace "$tmp/two.csv" --cluster 1x2:v100 --policy srtf -o json
out_has '"jct_mean_s":115,'
out_has '"restarts":1,'
out_has '"gpu_s_overhead":60,'
run 0 sim --trace "$tmp/two.csv" --cluster 1x2:v100 --policy srtf -o json \
    --restart-cost 1m
out_has '"jct_mean_s":130,'
exit 0
