#!/bin/sh
# 090-no-progress-bar-in-a-pipe.sh - only a terminal sees one.
. tests/lib/e2e.sh
# Long enough for a bar: a checker makes it longer by itself.
trace "$tmp/jobs.csv" "$([ -z "${FIRN_QUICK:-}" ] && echo 60000 || echo 12000)"
run 0 sim --trace "$tmp/jobs.csv" --cluster 2x8:v100 --policy fifo,srtf
err_is_empty
command -v script >/dev/null 2>&1 || skip "no script(1) to make a terminal"
export SHELL=/bin/sh # which script(1) runs, whatever the user's is
cat >"$tmp/go" <<T
exec "$FIRN" sim --trace "$tmp/jobs.csv" --cluster 2x8:v100 \\
    --policy fifo,srtf >"$tmp/out"
T
script -qc "sh $tmp/go" /dev/null >"$tmp/terminal" </dev/null ||
    fail "it does not run on a terminal"
grep -q 'of 2 done' "$tmp/terminal" || fail "no bar on a terminal"
out_has "jobs.csv  srtf"
grep -q 'of 2 done' "$tmp/out" && fail "the bar is in the results"
sed 's/ sim / sim --quiet /' "$tmp/go" >"$tmp/quiet"
script -qc "sh $tmp/quiet" /dev/null >"$tmp/terminal" </dev/null
grep -q 'of 2 done' "$tmp/terminal" && fail "a bar in spite of --quiet"
exit 0
