#!/bin/sh
# 060-replay-accepts-and-refuses.sh - logs as written pass, damaged ones do not.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 100
run 0 sim --trace "$tmp/jobs.csv" --cluster 3x8:v100 --policy all \
    --out "$tmp/a"
run 0 sim --replay "$tmp"/a/*.events.tsv
[ "$(grep -c ': ok, 100 jobs under ' "$tmp/out")" -eq \
    "$("$FIRN" policies -o json | grep -c '^{"name":')" ] || fail "each is ok"
run 0 sim --trace "$tmp/jobs.csv" --cluster 3x8:v100 --policy all \
    --out "$tmp/b" --mtbf 1h --mttr 5m --checkpoint-interval 2m --seed 5
run 0 sim --replay "$tmp"/b/*.events.tsv
run 0 sim --trace "$tmp/jobs.csv" --cluster 3x8:v100 --policy all \
    --out "$tmp/c" --interval 60 --quantum 1 --charge-first-start
run 0 sim --replay "$tmp"/c/*.events.tsv

log=$tmp/a/jobs--fifo.events.tsv
# refused SCRIPT TEXT: the log edited by sed is refused with that text.
refused()
{
    sed "$1" "$log" >"$tmp/damaged.tsv"
    cmp -s "$log" "$tmp/damaged.tsv" && fail "sed '$1' changes nothing"
    run 1 sim --replay "$tmp/damaged.tsv"
    err_has "damaged.tsv: line "
    err_has "$2"
}
refused 's/^jct_mean_s	.*/jct_mean_s	1/' "the summary says 'jct_mean_s' is 1"
refused 's/^restarts	.*/restarts	99/' "the summary says 'restarts' is 99"
refused '/	done	7$/d' "more jobs than may"
refused '/	submit	3	/d' "job 3 was never submitted"
refused 's/^\([0-9.]*	start	3	\).*/\1n0[0]/' "gang"
refused 's/^end$/aborted/' "the run was aborted"
refused '$d' "the summary has no"
refused '1d' "no event log"
# Good and bad together: both are told, the status is 1.
run 1 sim --replay "$log" "$tmp/damaged.tsv"
out_has "jobs--fifo.events.tsv: ok"
run 1 sim --replay "$tmp/nothing.tsv"
err_has "nothing.tsv"
exit 0
