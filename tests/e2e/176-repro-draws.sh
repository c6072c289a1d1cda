#!/bin/sh
# 176-repro-draws.sh - draws, their interval, variants and repeats.
#
# One GPU; draw k: jobs of 10, 100 and 10 k s submitted at 0, 1 and 2 s.
#   fifo  JCT 10, 109, 108 + 10 k: sum 227 + 10 k
#   sjf   JCT 10, 8 + 10 k, 109 + 10 k: sum 127 + 20 k
# fifo / sjf for k = 1, 2, 3: 237/147 = 1.6122, 247/167 = 1.4790, 257/187 =
# 1.3743. Logarithms 0.4776, 0.3914, 0.3180: mean 0.3957, deviation 0.0799;
# 4.3027 x 0.0799 / sqrt(3) = 0.1985. So 1.485, from 1.218 to 1.812.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh
mkdir "$tmp/papers" "$tmp/data"
FIRN_DATA=$tmp/data
export FIRN_DATA
for k in 1 2 3; do
    printf '#firn-trace 1\nname,submit_s,gpus,duration_s\na,0,1,10\nb,1,1,100\nc,2,1,%d\n' \
        $((10 * k)) >"$tmp/data/t$k.csv"
done
cat >"$tmp/papers/a.yaml" <<'END'
name: drawn
paper: Example
shows: three draws
cluster: 1x1:v100
metrics: [jct_mean_s]
chosen: on no workload; made up for this test
traces: ["t{1..3}.csv"]
options: {restart-cost: 0}
sweep:
  of: restart-cost
  axis: cost
  points:
    - {at: 0, use: 0}
    - {at: 1, use: 1}
policies:
  - {label: SJF, policy: sjf}
  - {label: own, policy: fifo, set: [skip=yes], options: {scaling: 0.5}, variant: SJF}
  - {label: FIFO, policy: fifo}
claims:
  - {of: SJF, at: 0, over: FIFO, times: 1.2}
  - {of: SJF, at: 0, over: FIFO, times: 1.5}
  - {of: SJF, at: 0, over: FIFO, times: 1.5, reach: 0.9}
  - {of: SJF, at: 0, over: FIFO, times: 3}
  - {of: SJF, at: 1, over-at: 0, at-most: 1.1}
  - {of: SJF, at: 1, over-at: 0, at-most: 1.1, acts: 0.01}
END
run 0 repro --papers "$tmp/papers" --report "$tmp/page.md"
err_is_empty
out_has "1.20x   1.16x  1.49x  1.22 to 1.81   1.00x (1.00 to 1.00), no: even   yes"
out_has "1.50x   1.40x  1.49x  1.22 to 1.81   1.00x (1.00 to 1.00), no: even   undecided"
out_has "3.00x   2.60x  1.49x  1.22 to 1.81   1.00x (1.00 to 1.00), no: even   no: short"
# No job is restarted, so the cost of a restart changes nothing.
out_has "no: inert"
out_has "  firn's variant of SJF, own, is fifo with skip=yes, --scaling 0.5."
out_has "Judged over 3 draws."
out_has "2 of 6 claims hold; 2 undecided"
grep -q '^- firn.s variant of SJF, own, is fifo' "$tmp/page/example.md" ||
    fail "the page does not name the options of the variant"
grep -q '| undecided | with firn' "$tmp/page.md" || fail "no summary"
grep -q '| \[drawn\](page/example.md#drawn) | three draws | 2 of 6 | 2 | 1 of 6 |' \
    "$tmp/page.md" || fail "no row: $(grep drawn "$tmp/page.md")"
grep -c '<line x1="\([0-9.]*\)" y1="[0-9.]*" x2="\1"' "$tmp/page/drawn.svg" \
    >"$tmp/n"
[ "$(cat "$tmp/n")" -ge 6 ] || fail "the plot has no intervals"
run 0 repro --papers "$tmp/papers" -o json
if command -v python3 >/dev/null 2>&1; then
    python3 - "$tmp/out" <<'T' || fail "not the promised JSON"
import json, sys
it, = json.load(open(sys.argv[1]))["scenarios"]
first, second = it["claims"][:2]
assert first["draws"] == 3 and first["holds"] is True
assert abs(first["low"] - 1.2179) < 1e-4 and abs(first["high"] - 1.8116) < 1e-4
assert second["holds"] is None and second["why"] == "undecided"
assert first["variant"]["of"] == "own" and first["variant"]["why"] == "even"
value = it["values"][0]
assert value["draws"] == 3 and value["low"] < value["ours"] < value["high"]
T
fi
run 0 repro --papers "$tmp/papers" --draws 1
out_has "1.61x  one draw"
out_has "One workload, as published; no interval."
sed 's/t{1..3}/t{1,3}/' "$tmp/papers/a.yaml" >"$tmp/x"
mv "$tmp/x" "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
out_has "Judged over 2 draws."
sed 's/traces:.*/traces: ["t{1,3}.csv", t1.csv]/' "$tmp/papers/a.yaml" >"$tmp/x"
mv "$tmp/x" "$tmp/papers/a.yaml"
run 1 repro --papers "$tmp/papers"
err_has "drawn: 't{1,3}.csv' is 2 traces, but 't1.csv' is 1: a draw has one of each"
# Two patterns are two parts of one draw: (147 + 167) / 3 / 2 = 52.33.
sed 's/traces:.*/traces: [t1.csv, t2.csv]/' "$tmp/papers/a.yaml" >"$tmp/x"
mv "$tmp/x" "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
out_has "0     SJF     jct_mean_s      -  52.33"

# --report FILE.html is the page of firn report about the first draw, with the
# verdicts; no file is left.
mkdir "$tmp/scratch"
TMPDIR=$tmp/scratch "$FIRN" repro --papers "$tmp/papers" --report "$tmp/r.html" \
    >"$tmp/out" 2>"$tmp/err" || fail "repro --report r.html"
for text in '<h2>Verdicts</h2>' 'Report of 3 simulations' 'drawn' 'SJF' '</html>'; do
    grep -qF "$text" "$tmp/r.html" || fail "the page has no $text"
done
grep -q '^0     SJF     jct_mean_s' "$tmp/r.html" || fail "the lines are not kept"
grep -q '<script\|src=\|href=' "$tmp/r.html" && fail "the page loads something"
[ -z "$(ls "$tmp/scratch")" ] || fail "left: $(ls "$tmp/scratch")"
[ -d "$tmp/r" ] && fail "it wrote Markdown too"

# Times are the least of several runs.
cat >"$tmp/papers/a.yaml" <<'END'
name: timed
paper: Example
shows: time of a round
cluster: 1x1:v100
metrics: [round_cpu_s]
traces: [t1.csv]
repeats: 4
policies:
  - {label: SJF, policy: sjf}
claims:
  - {of: SJF, below: 60}
END
run 0 repro --papers "$tmp/papers"
out_has "the least of 4 runs that alternate"
exit 0
