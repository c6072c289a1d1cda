#!/bin/sh
# 030-bad-rows-are-named-and-skipped.sh - once a trace, with file and line.
. tests/lib/e2e.sh
cat >"$tmp/bad.csv" <<'T'
#firn-trace 1
name,submit_s,gpus,duration_s
ok,0,1,100
negative,1,-1,100
nan,nan,1,100
large,2,999,100
short,3,1
late,5,1,10
T
run 0 sim --trace "$tmp/bad.csv" --cluster 1x8:v100 --policy fifo,sjf
err_has "bad.csv: line 4: "
err_has "bad.csv: line 5: "
err_has "bad.csv: 1 more bad row"
[ "$(grep -c 'line 4' "$tmp/err")" -eq 1 ] || fail "said once, not once a policy"
out_has "bad.csv: 4 bad rows skipped"
grep -q '^bad.csv  fifo  *2 ' "$tmp/out" || fail "two good jobs are run"
run 0 sim --trace "$tmp/bad.csv" --cluster 1x8:v100 --policy fifo --quiet
err_is_empty
run 0 sim --trace "$tmp/bad.csv" --cluster 1x8:v100 --policy fifo -o json
out_has '"bad_rows":4,'
exit 0
