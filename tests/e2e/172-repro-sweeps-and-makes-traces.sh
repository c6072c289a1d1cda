#!/bin/sh
# 172-repro-sweeps-and-makes-traces.sh - points, pictures, traces made up.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh
mkdir "$tmp/papers" "$tmp/data"
FIRN_DATA=$tmp/data
export FIRN_DATA

# One GPU: n jobs of 10 s, all at 0, end at 10, 20, ...: mean 5 (n + 1).
printf '#firn-trace 1\nname,submit_s,gpus,duration_s\n' >"$tmp/head"
for i in 1 2 3 4; do
    cp "$tmp/head" "$tmp/data/t$i.csv"
    for k in $(seq "$i"); do
        echo "j$k,0,1,10" >>"$tmp/data/t$i.csv"
    done
done
cat >"$tmp/data/philly.csv" <<'END'
job_id,submit_s,duration_s,num_gpus,vc
0,3600,600,1,a
1,7200,36000,2,a
2,10800,36000,8,a
3,14400,59,1,a
4,90000,36000,1,a
END
cat >"$tmp/papers/a.yaml" <<'END'
name: sweep
paper: Example
shows: queue by length
cluster: 1x1:v100
metrics: [jct_mean_s]
options: {restart-cost: 0}
sweep:
  of: trace
  axis: jobs
  points:
    - {at: 1, use: "t1.csv"}
    - {at: 3, use: "t3.csv"}
    - {at: few, use: "t{1..3}.csv"}
    - {at: two places, use: "t2.csv", cluster: "1x2:v100"}
policies:
  - {label: FIFO, policy: fifo}
numbers:
  - {of: FIFO, at: 3, value: 21}
claims:
  - {of: FIFO, at: 1, over-at: 3, times: 2}
  - {of: FIFO, over-at: 3, at-most: 1}
END
run 0 repro --papers "$tmp/papers" --report "$tmp/page.md"
# 10; (10 + 20 + 30) / 3; the mean of 10, 15 and 20; both at once
out_has "1           FIFO    jct_mean_s      -  10.00"
out_has "3           FIFO    jct_mean_s  21.00  20.00"
out_has "few         FIFO    jct_mean_s      -  15.00"
out_has "two places  FIFO    jct_mean_s      -  10.00"
out_has "2 of 2 claims hold"
grep -q '(sweep.svg)' "$tmp/page/example.md" || fail "the page has no picture"
grep -q '<polyline' "$tmp/page/sweep.svg" || fail "no line in the picture"
if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
        "$tmp/page/sweep.svg" || fail "the picture is no XML"
fi

# Options and settings are varied too.
cat >"$tmp/papers/a.yaml" <<'END'
name: cost
paper: Example
shows: first starts
cluster: 1x1:v100
metrics: [jct_mean_s]
traces: [t1.csv]
options: {charge-first-start: "yes"}
sweep:
  of: restart-cost
  axis: cost
  points:
    - {at: 0, use: 0}
    - {at: 5, use: 5s}
policies:
  - {label: FIFO, policy: fifo, set: [skip=yes]}
  - {label: free, policy: fifo, options: {charge-first-start: "no"}}
END
run 0 repro --papers "$tmp/papers"
out_has "0     FIFO    jct_mean_s      -  10.00"
out_has "5     FIFO    jct_mean_s      -  15.00"

# made TRACE JOBS: checks the number of jobs of a synthetic trace.
made()
{
    cat >"$tmp/papers/a.yaml" <<END
name: made
paper: Example
shows: "a made-up trace"
cluster: 2x4:v100
metrics: [jobs, jct_mean_s]
traces: ["$1"]
policies:
  - {label: FIFO, policy: fifo}
END
    run 0 repro --papers "$tmp/papers" -o json
    err_is_empty
    grep -q "\"metric\":\"jobs\",\"paper\":null,\"ours\":$2," "$tmp/out" ||
        fail "$1 has not $2 jobs"
}

sed 's/^#.*//' "$tmp/data/philly.csv" >"$tmp/data/p2.csv"
made "philly.csv" 5
made "join:philly.csv p2.csv" 10
made "thin:2 philly.csv" 3
made "gen:--jobs 7 --seed 3" 7
# Hours 1 to 4: jobs 0, 1, 2 and 4 (25 h is hour 1); 3 lasts under a minute.
made "sample:philly.csv jobs=4 seed=1 hours=1-5 5:x*1@1-8/32 99:y*1@1-8/32" 4
cat >"$tmp/papers/a.yaml" <<'END'
name: made
paper: Example
shows: too many
cluster: 2x4:v100
metrics: [jobs]
traces: ["sample:philly.csv jobs=5 hours=1-5 5:x*1@1-8/32"]
policies:
  - {label: FIFO, policy: fifo}
END
run 1 repro --papers "$tmp/papers"
err_has "made: philly.csv: has only 4 such jobs"
sed -i 's/jobs=5/jobs=4 bogus/' "$tmp/papers/a.yaml"
run 1 repro --papers "$tmp/papers"
err_has "'sample:' cannot read 'bogus'"
sed -i 's/philly.csv/gone.csv/; s/ bogus//' "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
out_has "skipped: gone.csv: file not found"

# A policy that refuses a job has an easy mean: such runs are not compared.
printf 'gang,0,2,10\nsmall,0,1,10\n' | cat "$tmp/head" - >"$tmp/data/two.csv"
cat >"$tmp/papers/a.yaml" <<'END'
name: unequal
paper: Example
shows: a gang that fits on no one type
cluster: 1x1:v100,1x1:t4
metrics: [jct_mean_s]
traces: [two.csv]
policies:
  - {label: mixes, policy: fifo}
  - {label: gangs, policy: yarn-cs}
claims:
  - {of: gangs, over: mixes, times: 1}
END
run 0 repro --papers "$tmp/papers"
out_has "no: jobs differ"

# Nothing is left behind.
mkdir "$tmp/scratch"
sed 's/two.csv/"gen:--jobs 3"/' "$tmp/papers/a.yaml" >"$tmp/x" &&
    mv "$tmp/x" "$tmp/papers/a.yaml"
TMPDIR=$tmp/scratch run 0 repro --papers "$tmp/papers"
[ -z "$(ls "$tmp/scratch")" ] || fail "files are left in TMPDIR"
exit 0
