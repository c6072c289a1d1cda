#!/bin/sh
# 062-explain-tells-a-life.sh - with a run, from a log, as JSON, or not at all.
. tests/lib/e2e.sh
TMPDIR=$tmp
export TMPDIR
trace "$tmp/jobs.csv" 60
all="sim --trace $tmp/jobs.csv --cluster 2x8:v100"
# shellcheck disable=SC2086
{
    # One life for each policy and job, behind the results.
    run 0 $all --policy fifo,tiresias --explain j12 --explain 3
    err_is_empty
    out_has "mean JCT by GPUs asked for"
    for who in "j12 (job 12)" "j3 (job 3)"; do
        for policy in fifo tiresias; do
            out_has "$who of $tmp/jobs.csv under $policy"
        done
    done
    [ "$(grep -c '^done at ' "$tmp/out")" -eq 4 ] || fail "four lives"
    [ "$(find "$tmp" -name 'firn-sim.*' | wc -l)" -eq 0 ] ||
        fail "the folder for logs is left"
    sed -n '/^j12 .* under fifo$/,/^waited/p' "$tmp/out" >"$tmp/with-run"

    # The same from a log.
    run 0 $all --policy fifo,tiresias --out "$tmp/o"
    run 0 sim --replay "$tmp/o/jobs--fifo.events.tsv" --explain j12
    cmp -s "$tmp/with-run" "$tmp/out" || fail "run and log tell two lives"
    run 0 sim --replay "$tmp"/o/jobs--*.events.tsv --explain j12
    [ "$(grep -c '^done at ' "$tmp/out")" -eq 2 ] || fail "one life a log"

    # --out and --explain together leave the files.
    run 0 $all --policy fifo --out "$tmp/p" --explain j12
    cmp -s "$tmp/o/jobs--fifo.events.tsv" "$tmp/p/jobs--fifo.events.tsv" ||
        fail "the log is another with --explain"

    # Unknown and doubtful names; the results are printed all the same.
    run 1 $all --policy fifo --explain j5x
    err_has "--explain: $tmp/jobs.csv: no job 'j5x'; did you mean 'j5'?"
    out_has "mean JCT"
    run 1 sim --replay "$tmp/o/jobs--fifo.events.tsv" --explain j
    err_has "'j' is the beginning of 60 names"
    run 2 $all --policy fifo -o csv --explain j5
    err_has "--explain needs -o table or -o json, not csv"

    # A job of one trace of two is told from that one.
    trace "$tmp/few.csv" 3
    run 0 $all --trace "$tmp/few.csv" --policy fifo --explain j12
    err_is_empty
    [ "$(grep -c '^done at ' "$tmp/out")" -eq 1 ] || fail "one life"
}

# A run that stalls tells why a job never ran: its node is gone for good.
printf '10,0,down\n' >"$tmp/failures.csv"
run 1 sim --trace "$tmp/few.csv" --cluster 1x8:v100 --policy fifo \
    --failures "$tmp/failures.csv" --explain j2
out_has "its node is lost; waits (0 of 0 GPUs free"
out_has "not ended when the log ends, at 10.00s"

# Damaged logs are refused, not told from.
log=$tmp/o/jobs--fifo.events.tsv
sed 's/^\([0-9.]*\)	start	3	.*/\1	start	3	n9[0]/' "$log" >"$tmp/bad.tsv"
run 1 sim --replay "$tmp/bad.tsv" --explain j3
err_has "bad.tsv: line "
[ ! -s "$tmp/out" ] || fail "a damaged log is told from"
printf 'x\n' >"$tmp/bad.tsv"
run 1 sim --replay "$tmp/bad.tsv" --explain j3
err_has "this is no event log"
run 1 sim --replay "$tmp/none.tsv" --explain j3
err_has "none.tsv"

# JSON that others can read, with the sums of the parts.
command -v python3 >/dev/null || skip "no python3 for JSON"
# shellcheck disable=SC2086
run 0 $all --policy fifo,tiresias --explain j12 --explain j40 -o json
python3 - "$tmp/out" <<'EOF' || fail "the JSON is not as promised"
import json, sys
page = json.load(open(sys.argv[1]))
assert len(page["results"]) == 2 and len(page["lives"]) == 4
for life in page["lives"]:
    parts = sum(life[k] for k in
                ("waited_s", "restarted_s", "trained_s", "stood_s"))
    assert abs(parts - life["jct_s"]) < 1e-6, life
    at = life["submit_s"]
    for s in life["stretches"]:
        assert s["from_s"] == at and s["to_s"] > at
        at = s["to_s"]
    assert at == life["end_s"]
EOF
run 0 sim --replay "$log" --explain j12 -o json
python3 -c 'import json, sys
assert [x["name"] for x in json.load(open(sys.argv[1]))["lives"]] == ["j12"]' \
    "$tmp/out" || fail "the JSON of a replay"
exit 0
