#!/bin/sh
# 171-repro-reads-strictly.sh - a wrong scenario is named with file and line.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh
mkdir "$tmp/papers"
printf '#firn-trace 1\nname,submit_s,gpus,duration_s\na,0,1,10\n' \
    >"$tmp/jobs.csv"
cat >"$tmp/good" <<END
name: good
paper: Example
shows: nothing
cluster: 1x2:v100
metrics: [jct_mean_s]
traces: [$tmp/jobs.csv]
options:
  restart-cost: 0
policies:
  - {label: one, policy: fifo}
  - {label: two, policy: sjf}
claims:
  - {of: one, over: two, times: 1}
END
cp "$tmp/good" "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
# As good is not better.
out_has "no: even"
out_has "0 of 1 claims hold"

# bad SED SENTENCE: the good one, changed, is refused with that sentence.
bad()
{
    sed "$1" "$tmp/good" >"$tmp/papers/a.yaml"
    cmp -s "$tmp/good" "$tmp/papers/a.yaml" && fail "'$1' changes nothing"
    run 1 repro --papers "$tmp/papers"
    err_has "a.yaml: $2"
    [ ! -s "$tmp/out" ] || fail "printed something"
}

bad 's/^paper:/papper:/' "line 2: Unexpected key: papper"
bad 's/  restart-cost/  restart-costs/' "line 8: Unexpected key: restart-costs"
bad '/^cluster/d' "line "
bad 's/of: one, over/off: one, over/' "line 13: Unexpected key: off"
bad 's/over: two/over: three/' "line 13: 'over' is 'three': no policy of that"
bad 's/label: two/label: one/' "line 10: 'label' is 'one': given twice"
bad 's/jct_mean_s/jct_meen_s/' "line 5: 'metrics' is 'jct_meen_s': unknown metric"
bad 's/times: 1/times: many/' "line 13: 'times' is 'many'"
bad 's/times: 1/reach: 1/' "line 10: 'of' is 'one': a claim has one of times, less, at-most and below"
bad 's/times: 1/times: 1, at: 7/' "line 13: 'at' is '7': no point of the sweep"
bad 's/times: 1/times: 1, by: compat/' "line 13: 'by' is 'compat': the scenario has no 'compat'"
bad 's/, policy: sjf/, compat: sjf/' "line 11: 'compat' is 'sjf'"
bad 's/, policy: sjf/, model: sjf/' "line 11: 'model' is 'sjf': unknown memory model"
bad 's/policy: sjf/policy: sjf, missing: no/' "line 11: 'label' is 'two': needs"
bad 's/, policy: sjf//' "line 11: 'label' is 'two': needs 'policy'"
bad 's/times: 1/at-most: 1, beyond: jct_mean_s/' "line 5: 'beyond' is 'jct_mean_s': only with 'times'"
bad 's/times: 1/times: 1, beyond: rho_mean/' "line 13: 'metric' is 'rho_mean': not among"
bad 's/jct_mean_s/rho_mean@x/' "line 5: 'metrics' is 'rho_mean@x': unknown metric"
bad 's/^claims/sweep: {of: cluster, axis: x, points: [{at: 1}]}\nclaims/' "line 12: 'at' is '1': needs either 'use' or 'missing'"
bad 's/times: 1/times: 1, acts: 0.1/' "line 13: 'acts' is '0.1': the scenario has no sweep"
bad 's/policy: sjf/policy: sjf, variant: three/' "line 11: 'variant' is 'three': no policy of that label"
bad 's/policy: sjf/policy: sjf, variant: two/' "line 11: 'variant' is 'two': is a variant itself"
bad 's/policy: sjf/policy: sjf, variant: one/' "line 10: 'variant' is 'one': there is no 'chosen'"
bad 's/^cluster/repeats: 21\ncluster/' "line 4: 'repeats' is '21': not a number from 1 to 20"
bad 's/^cluster/unit: parsec\ncluster/' "line 4: 'unit' is 'parsec'"
bad '/^traces/d' "line 1: 'name' is 'good': the scenario has no traces"
bad 's/^traces.*/traces: *x/' "line 6"
: >"$tmp/papers/a.yaml"
run 1 repro --papers "$tmp/papers"
err_has "a.yaml: the file is empty"
cp "$tmp/good" "$tmp/papers/a.yaml"
cp "$tmp/good" "$tmp/papers/b.yaml"
run 1 repro --papers "$tmp/papers"
err_has "b.yaml: there is another 'good'"
rm "$tmp/papers/"*.yaml
run 1 repro --papers "$tmp/papers"
err_has "has no .yaml file"
run 1 repro --papers "$tmp/nowhere"
err_has "nowhere: No such file"

# What firn sim would refuse is the reason that a run has no number.
sed 's/  restart-cost: 0/  noise: loud/' "$tmp/good" >"$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
out_has "  --noise: 'loud' is not PART=X, with PART throughput"
out_has "no: failed"
out_has "0 of 1 claims hold"
exit 0
