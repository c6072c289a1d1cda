#!/bin/sh
# 080-the-same-bytes-for-one-and-eight-processes.sh - also in the files.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 30
trace "$tmp/more.csv" 50
formats="table csv json"
[ -z "${FIRN_QUICK:-}" ] || formats=json # the others are the plain run's
for j in 1 8; do
    for format in $formats; do
        # What differs between formats does not go by the policy.
        policies=fifo,srtf,tiresias
        [ $format != json ] || policies=all
        "$FIRN" sim --trace "$tmp/jobs.csv,$tmp/more.csv" --policy $policies \
            --cluster 2x8:v100,2x4:a100 -j $j -o $format --out "$tmp/files$j" \
            --mtbf 2h --mttr 10m --seed 3 >"$tmp/$format$j" 2>"$tmp/err" ||
            fail "-j $j -o $format"
    done
done
for format in $formats; do
    sed 's/"cpu_s":[^}]*//' "$tmp/${format}1" >"$tmp/one"
    sed 's/"cpu_s":[^}]*//' "$tmp/${format}8" >"$tmp/eight"
    cmp "$tmp/one" "$tmp/eight" || fail "$format differs"
done
diff -r "$tmp/files1" "$tmp/files8" || fail "the files differ"
exit 0
