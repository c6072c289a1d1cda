#!/bin/sh
# 065-out-writes-the-files-of-each-run.sh - jobs, events and timeline.
. tests/lib/e2e.sh
mkdir "$tmp/x" "$tmp/y"
trace "$tmp/x/jobs.csv" 40
trace "$tmp/y/jobs.csv" 60
run 0 sim --trace "$tmp/x/jobs.csv" --trace "$tmp/y/jobs.csv" \
    --cluster 2x8:v100 --policy fifo --out "$tmp/o" --timeline-step 1m
for name in jobs--fifo jobs-2--fifo; do
    for kind in jobs.csv events.tsv timeline.csv; do
        [ -s "$tmp/o/$name.$kind" ] || fail "no $name.$kind"
    done
done
[ "$(find "$tmp/o" -type f | wc -l)" -eq 6 ] || fail "more files than promised"
[ "$(wc -l <"$tmp/o/jobs--fifo.jobs.csv")" -eq 41 ] || fail "a row a job"
[ "$(wc -l <"$tmp/o/jobs-2--fifo.jobs.csv")" -eq 61 ] || fail "a row a job"
# The mean of the jobs' own times is the mean printed.
run 0 sim --trace "$tmp/x/jobs.csv" --cluster 2x8:v100 --policy fifo -o csv
said=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "jct_mean_s")
    c = i } NR == 2 { printf "%.6f", $c }' "$tmp/out")
mean=$(awk -F, 'NR > 1 { s += $8 } END { printf "%.6f", s / (NR - 1) }' \
    "$tmp/o/jobs--fifo.jobs.csv")
[ "$said" = "$mean" ] || fail "the rows say $mean, the summary $said"
awk -F, 'NR > 1 && ($1 % 60 || $5 > $4 || $6 > $5) { exit 1 }' \
    "$tmp/o/jobs--fifo.timeline.csv" || fail "the timeline is not sane"
: >"$tmp/file"
run 1 sim --trace "$tmp/x/jobs.csv" --cluster 2x8:v100 --policy fifo \
    --out "$tmp/file"
err_has "Not a directory"
exit 0
