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
err_has "--compat $world needs the tables of that simulator"
err_has "give --profiles DIR or set FIRN_DATA"
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
# With the tables: each policy the artifact had, and a log that says so.
case ,$(echo "$known" | tr -d ' '), in *,easyscale,*) ;; *) exit 0 ;; esac
[ -f "$data/easyscale/workload.csv" ] || skip "no tables in FIRN_DATA"
FIRN_DATA=$data
export FIRN_DATA
all="sim --compat easyscale --cluster 4x4:t4,4x8:v100,2x8:p100"
all="$all --trace $data/easyscale/workload.csv"
# shellcheck disable=SC2086
{
    run 0 $all --policy all --out "$tmp/o" --explain 7
    out_has "seed 1, by the rules of easyscale"
    out_has "under yarn-cs, by the rules of easyscale"
    run 0 $all --policy yarn-cs -o json
    out_has '"world":"easyscale"'
    run 2 $all --policy srtf
    err_has "never had a policy 'srtf'; it had "
}
run 0 sim --replay "$tmp"/o/*.events.tsv
[ "$(grep -c 'under --compat easyscale the work of jobs is not checked' "$tmp/out")" \
    -eq 3 ] || fail "the replay does not report what it does not check"
exit 0
