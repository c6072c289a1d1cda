#!/bin/sh
# 063-compat-needs-its-tables.sh - worlds of others: named, and refused rightly.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 5
all="sim --trace $tmp/jobs.csv --cluster 1x8:v100 --policy fifo"
# shellcheck disable=SC2086
{
    run 2 $all --compat nothing
    err_has "no simulator 'nothing' is imitated; known: "
}
run 0 sim --help
known=$("$FIRN" sim --compat nothing 2>&1 | sed -n 's/.*; known: //p')
world=${known%%,*}
[ "$world" = none ] && exit 0
out_has "$world"
# shellcheck disable=SC2086
run 2 $all --compat "$world"
err_has "--compat $world needs the folder of the tables"
err_has "--profiles FOLDER, or FIRN_DATA set"
# The honest world is not named in a table, and is in CSV.
# shellcheck disable=SC2086
{
    run 0 $all
    grep -q "by the rules of" "$tmp/out" && fail "the honest world is named"
    run 0 $all -o csv
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "world") c = i }
        NR == 2 && $c == "honest" { ok = 1 } END { exit !ok }' "$tmp/out" ||
        fail "CSV does not say which world"
}
exit 0
