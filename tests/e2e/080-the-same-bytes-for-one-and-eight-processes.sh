#!/bin/sh
# 080-the-same-bytes-for-one-and-eight-processes.sh - also in the files.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 30
trace "$tmp/more.csv" 50
for j in 1 8; do
    for format in table csv json; do
        "$FIRN" sim --trace "$tmp/jobs.csv,$tmp/more.csv" --policy all \
            --cluster 2x8:v100,2x4:a100 -j $j -o $format --out "$tmp/files$j" \
            --mtbf 2h --mttr 10m --seed 3 >"$tmp/$format$j" 2>"$tmp/err" ||
            fail "-j $j -o $format"
    done
done
sed 's/"cpu_s":[^}]*//' "$tmp/json1" >"$tmp/j1"
sed 's/"cpu_s":[^}]*//' "$tmp/json8" >"$tmp/j8"
cmp "$tmp/j1" "$tmp/j8" || fail "JSON differs"
cmp "$tmp/csv1" "$tmp/csv8" || fail "CSV differs"
cmp "$tmp/table1" "$tmp/table8" || fail "the tables differ"
diff -r "$tmp/files1" "$tmp/files8" || fail "the files differ"
exit 0
