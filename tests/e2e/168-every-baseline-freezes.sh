#!/bin/sh
# 168-every-baseline-freezes.sh - "+ tuned FreezeOut" under each policy.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

awk 'BEGIN {
    split("bert-base resnet18-c resnet50-c mobilenetv2-c", app, " ")
    print "#firn-trace 1"
    print "name,submit_s,gpus,duration_s,app"
    for (i = 0; i < 24; i++)
        printf "j%d,%d,%d,%d,%s\n", i, i * 60, 1 + i % 3 % 2, 600 + i * 100,
            app[1 + i % 4]
}' >"$tmp/jobs.csv"
# The published variances: by those measured on an H200 tuned FreezeOut never
# pays for these applications (docs/models/freeze.md).
cp -r profiles "$tmp/profiles"
for app in bert-base resnet18-c resnet50-c; do
    grep -v '^layers_of' "profiles/h200/$app.txt" >"$tmp/profiles/h200/$app.txt"
done
mean() { grep -o '"jct_mean_s":[0-9.]*' "$tmp/out" | head -1 | cut -d: -f2; }

for policy in optimus pollux lucid themis sia tiresias srtf; do
    all="sim -t $tmp/jobs.csv -c 2x4:h200 --profiles $tmp/profiles -q -o json"
    all="$all --elastic 1..4 --share"
    # shellcheck disable=SC2086
    run 0 $all -p $policy
    off=$(mean)
    # shellcheck disable=SC2086
    run 0 $all -p $policy --freeze tuned-freezeout --out "$tmp/o"
    on=$(mean)
    awk "BEGIN { exit !($on < $off) }" ||
        fail "$policy: $off s without freezing, $on s with"
    run 0 sim --replay "$tmp/o"/*"$policy"*.events.tsv
done
