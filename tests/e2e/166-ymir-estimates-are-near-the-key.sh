#!/bin/sh
# 166-ymir-estimates-are-near-the-key.sh - merges by estimates, after the cold
# start, are worth what merges by the true epochs are worth.
#
# A published workload is submitted twice; the second half, when the estimator
# has seen the first, is compared: within 15 % of the answer key, and better
# than without merging.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh
[ -d "$data/ymir" ] || skip "no fine-tuning workloads in FIRN_DATA"

# later_half NAME OPTION...: the mean JCT of the jobs that were submitted last.
later_half()
{
    name=$1
    shift
    run 0 sim -t "$tmp/twice.csv" -c ymir -p ymir --profiles builtin -q \
        --ahead 30 --out "$tmp/$name" "$@"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
             $at["submit_s"] >= 200000 { sum += $at["jct_s"]; n++ }
             END { print sum / n }' "$tmp/$name"/*.jobs.csv
}

for workload in FM-1-vit FM-1-vit-large FM-1-roberta-base FM-1-roberta-large \
    FM-2-vit FM-2-vit-large FM-2-roberta-base FM-2-roberta-large; do
    awk -F, -v OFS=, 'NR == 1 { print; next } { print; row[++n] = $0 }
        END { for (i = 1; i <= n; i++) {
                  split(row[i], cell, ",")
                  sub(",[^,]*", "," cell[2] + 200000, row[i])
                  print "again-" row[i] } }' \
        "$data/ymir/workloads/$workload.csv" >"$tmp/twice.csv"
    key=$(later_half key --transfer-key)
    estimate=$(later_half estimate)
    none=$(later_half none --set ymir.merge=no)
    echo "# $workload: key $key s, estimate $estimate s, none $none s"
    echo "$key $estimate $none" |
        awk '{ exit !($1 > 0 && $2 <= 1.15 * $1 && $2 < $3) }' ||
        fail "$workload: estimate $estimate s, key $key s, without merging $none s"
done
