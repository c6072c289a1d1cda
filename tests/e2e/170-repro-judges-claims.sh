#!/bin/sh
# 170-repro-judges-claims.sh - firn repro on scenarios small enough to work out.
#
# Three jobs of two GPUs on a cluster of two, submitted at 0, 1, 2 s, of 100,
# 200 and 10 s; restarts cost nothing.
#   fifo  ends at 100, 300, 310: JCT 100, 299, 308, mean 707/3 = 235.667
#   sjf   ends at 100, 310, 110: JCT 100, 309, 108, mean 517/3 = 172.333
# so fifo / sjf = 707/517 = 1.3675, and sjf is 1 - 517/707 = 26.87 % below.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

cat >"$tmp/jobs.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s
a,0,2,100
b,1,2,200
c,2,2,10
END
mkdir "$tmp/papers"
cat >"$tmp/papers/tiny.yaml" <<END
name: tiny
paper: Example
shows: "Table 0: three jobs"
claimed: sjf is better
note: worked by hand
unit: min
cluster: 1x2:v100
metrics: [jct_mean_s, makespan_s]
traces: [$tmp/jobs.csv]
options: {restart-cost: 0}
policies:
  - {label: SJF, policy: sjf}
  - {label: FIFO, policy: fifo}
  - {label: Later, policy: no-such-policy}
numbers:
  - {of: SJF, value: 2.5}
claims:
  - {of: SJF, over: FIFO, times: 1.45}
  - {of: SJF, over: FIFO, times: 1.47}
  - {of: FIFO, over: SJF, times: 1.1}
  - {of: SJF, over: FIFO, times: 1.47, reach: 0.7}
  - {of: SJF, over: FIFO, less: 0.33}
  - {of: SJF, over: FIFO, less: 0.34}
  - {of: FIFO, over: SJF, at-most: 1.37}
  - {of: FIFO, over: SJF, at-most: 1.36}
  - {of: FIFO, over: SJF, metric: makespan_s, times: 1.2}
  - {of: SJF, below: 2.88}
  - {of: SJF, below: 2.87}
  - {of: Later, over: SJF, times: 2}
END

# holds N WORD: how the Nth claim of the table ended.
holds()
{
    got=$(sed -n '/^claim /,/^$/p' "$tmp/out" | sed -n "$(($1 + 1))p")
    case $got in
    *"  $2") ;;
    *) fail "claim $1 is not '$2': $got" ;;
    esac
}

run 0 repro --papers "$tmp/papers" -j 1
err_is_empty
out_has "tiny: Example, Table 0: three jobs"
out_has "SJF     jct_mean_s [min]  2.500  2.872"
out_has "FIFO    jct_mean_s [min]      -  3.928"
out_has "  there is no policy 'no-such-policy'"
# 1 + 0.8 x 0.45 = 1.36; 1 + 0.8 x 0.47 = 1.376; 1 + 0.7 x 0.47 = 1.329
holds 1 yes
holds 2 "no: short"
holds 3 "no: reversed"
holds 4 yes
# 0.8 x 0.33 = 0.264; 0.8 x 0.34 = 0.272
holds 5 yes
holds 6 "no: short"
holds 7 yes
holds 8 "no: above"
# both end with the last of 310 s of work
holds 9 "no: even"
# 172.333 s = 2.8722 min
holds 10 yes
holds 11 "no: above"
holds 12 "no: no policy"
out_has "5 of 12 claims hold"

# The same bytes, whatever the number of processes.
cp "$tmp/out" "$tmp/one"
run 0 repro tiny --papers "$tmp/papers" -j 4
cmp -s "$tmp/one" "$tmp/out" || fail "-j 4 prints something else"

# JSON, a report, the list.
run 0 repro -o json --papers "$tmp/papers" --report "$tmp/page.md"
if command -v python3 >/dev/null 2>&1; then
    python3 - "$tmp/out" <<'T' || fail "not the promised JSON"
import json, sys
all = json.load(open(sys.argv[1]))
assert (all["claims"], all["held"], all["skipped"]) == (12, 5, 0)
it, = all["scenarios"]
assert it["name"] == "tiny" and it["skipped"] is None and it["unit"] == "min"
v = {(x["policy"], x["metric"]): x for x in it["values"]}
assert abs(v["SJF", "jct_mean_s"]["ours"] - 517 / 180) < 1e-12
assert v["SJF", "jct_mean_s"]["paper"] == 2.5
assert v["Later", "jct_mean_s"]["ours"] is None
first = it["claims"][0]
assert first["holds"] is True and abs(first["ours"] - 707 / 517) < 1e-12
assert it["claims"][-1]["holds"] is False
assert it["claims"][-1]["why"] == "no policy"
T
fi
grep -q '^## Example' "$tmp/page.md" || fail "no section in the report"
grep -q '\[tiny\](page/example.md#tiny)' "$tmp/page.md" || fail "no link"
grep -q '5 of 12 claims hold' "$tmp/page.md" || fail "no count in the report"
grep -q '^## tiny' "$tmp/page/example.md" || fail "no section in the page"
grep -q 'worked by hand' "$tmp/page/example.md" || fail "no note in the page"
grep -q 'One workload, as published; no interval' "$tmp/page/example.md" ||
    fail "one draw is not said"
run 0 repro --list --papers "$tmp/papers"
out_has "tiny  Example  Table 0: three jobs"
run 2 repro tinny --papers "$tmp/papers"
err_has "did you mean 'tiny'?"

# Those built in are sound, and listed.
run 0 repro --list
for name in icefrog-table7 sjf-bsbf-table3 frenzy-fig5b easyscale-fig14 \
    ymir-fig10 pollux-jobload; do
    out_has "$name"
done
run 0 repro --list icefrog -o json
out_has '"name":"icefrog-table8"'
grep -q ymir "$tmp/out" && fail "icefrog is not ymir"

# Without the data a scenario is skipped, and says so.
run 0 repro sjf-bsbf-table2
out_has "skipped: FIRN_DATA is not set"
out_has "0 of 0 claims hold; 4 skipped"
FIRN_DATA=$tmp run 0 repro sjf-bsbf-table2
out_has "skipped: sjf_bsbf/trace-data/trace_data_new.csv: file not found"
exit 0
