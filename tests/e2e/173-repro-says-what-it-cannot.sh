#!/bin/sh
# 173-repro-says-what-it-cannot.sh - missing things, groups, models of memory.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh
mkdir "$tmp/papers" "$tmp/data"
FIRN_DATA=$tmp/data
export FIRN_DATA

# One GPU. fifo: a 0-100, b to 110, c to 130; sjf: a 0-100, b to 110, c to 130.
# With b and c exchanged in length sjf runs c first.
cat >"$tmp/data/t.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,group
a,0,1,100,
b,1,1,30,long
c,2,1,10,short
END
cat >"$tmp/papers/a.yaml" <<'END'
name: partly
paper: Example
shows: what there is
note: by hand
found: the jobs are too few
cluster: 1x1:v100
metrics: [jct_mean_s, jct_mean_s@short, jct_mean_s@long, jobs@-]
options: {restart-cost: 0}
sweep:
  of: trace
  axis: trace
  points:
    - {at: here, use: t.csv}
    - {at: there, missing: "there is secret"}
policies:
  - {label: FIFO, policy: fifo}
  - {label: SJF, policy: sjf}
  - {label: Oracle, missing: "none is public"}
claims:
  - {of: SJF, over: FIFO, metric: jct_mean_s@short, times: 1.2}
  - {of: SJF, at: there, over: FIFO, times: 1.2}
  - {of: Oracle, at: here, over: FIFO, times: 9}
  - {of: SJF, over: FIFO, metric: jct_mean_s@short, beyond: jct_mean_s@long, times: 1.2}
  - {of: SJF, at: here, over: FIFO, times: 5}
END
run 0 repro --papers "$tmp/papers" --report "$tmp/page.md"
# fifo: b 130 - 1 = 129, c 140 - 2 = 138; sjf: c 108, b 139
out_has "here   FIFO    jct_mean_s@short      -  138.0"
out_has "here   SJF     jct_mean_s@short      -  108.0"
out_has "here   SJF     jct_mean_s@long       -  139.0"
out_has "here   SJF     jobs@-                -  1.000"
grep -q "^there" "$tmp/out" && fail "shows what there is not"
out_has "not reproducible: there is secret"
out_has "not reproducible: none is public"
# The worst point is the one there is; (138/108) / (129/139) = 1.377
out_has "(worst point), jct_mean_s@short                         1.20x   1.16x  1.28x  one draw       yes"
out_has "jct_mean_s@short beyond jct_mean_s@long  1.20x   1.16x  1.38x  one draw       yes"
grep -c -- '-  *not reproducible$' "$tmp/out" >"$tmp/n"
[ "$(cat "$tmp/n")" = 2 ] || fail "not two claims that cannot be reproduced"
out_has "2 of 3 claims hold; 2 not reproducible"
grep -q 'Why not: the jobs are too few' "$tmp/page/example.md" || fail "no reason"
grep -q '^- not reproducible: none is public' "$tmp/page/example.md" ||
    fail "no list"
run 0 repro --papers "$tmp/papers" -o json
out_has '"claims":3,"held":2,"undecided":0,"skipped":0,"not_reproducible":2'
sed -i '/^found/d' "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers" --report "$tmp/page.md"
grep -q 'Why not: no reason is known' "$tmp/page/example.md" || fail "hides it"

# A table whose peaks are the formula's, and twice that at four samples.
awk 'BEGIN {
    print "model,seq,micro_batch,precision,attn,checkpointing,optimizer,peak_alloc_mib,peak_reserved_mib"
    h = 768; l = 12; a = 12; V = 50257; s = 512
    W = V * h + l * (12 * h * h + 13 * h)
    for (b = 1; b <= 4; b *= 2) {
        mib = (20 * W + s * b * h * l * (34 + 5 * a * s / h)) / 1048576
        mib *= b == 4 ? 2 : 1
        printf "gpt2-124m,%d,%d,amp,eager,0,adamw,%.9f,%.9f\n", s, b, mib, mib
    }
    print "gpt2-124m,512,1,fp32,eager,0,adamw,1,1"
}' >"$tmp/data/peaks.csv"
cat >"$tmp/papers/a.yaml" <<'END'
name: memory
paper: Example
shows: peaks
cluster: 1x1:h200
metrics: [error_max, error_mean]
traces: ["peaks.csv#gpt2-124m"]
policies:
  - {label: MARP, model: marp}
  - {label: ours, model: memory}
claims:
  - {of: MARP, below: 0.5001}
  - {of: MARP, below: 0.4999}
END
run 0 repro --papers "$tmp/papers"
out_has "MARP    error_max       -  0.500"
out_has "MARP    error_mean      -  0.167"
out_has "1 of 2 claims hold"
# There is no other model to fit to.
out_has "ours    error_max       -      -"
sed -i 's/#gpt2-124m/#gpt2-350m/' "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
out_has "no row of model 'gpt2-350m'"
sed -i 's/peaks.csv#gpt2-350m/t.csv#x/' "$tmp/papers/a.yaml"
run 0 repro --papers "$tmp/papers"
out_has "no: failed"

# made TRACE JOBS MEAN: how many jobs the trace has, and their mean length on
# as many GPUs.
made()
{
    cat >"$tmp/papers/a.yaml" <<END
name: made
paper: Example
shows: "a made-up trace"
cluster: 64x1:v100
metrics: [jobs, jct_mean_s]
options: {restart-cost: 0}
traces: ["$1"]
policies:
  - {label: FIFO, policy: fifo}
END
    run 0 repro --papers "$tmp/papers"
    err_is_empty
    grep -q "jobs  *-  *$2\$" "$tmp/out" || fail "$1 has not $2 jobs"
    grep -q "jct_mean_s  *-  *$3\$" "$tmp/out" || fail "$1 has no mean of $3"
}
made "keep:long,short t.csv" 2.000 20.00
made "keep:!long,short t.csv" 1.000 100.0
made "swap:30=60,100=40 t.csv" 3.000 36.67
made "thin:2 t.csv" 2.000 55.00
made "keep:serve gen:--jobs 5 --serving 0.5 --duration-max 1h" "[1-9][0-9.]*" "[1-9][0-9.]*"
cat >"$tmp/data/pollux.csv" <<'END'
name,time,application,num_replicas,batch_size
a,0,ncf,8,1
b,0,ncf,8,1
c,0,ncf,1,1
d,0,ncf,2,1
END
cat >"$tmp/papers/a.yaml" <<'END'
name: made
paper: Example
shows: "rows that are drawn"
cluster: 4x8:v100
metrics: [jobs, jct_mean_s]
traces: ["draw:3,1,0.34,num_replicas pollux.csv pollux.csv"]
policies:
  - {label: FIFO, policy: fifo}
END
run 0 repro --papers "$tmp/papers"
grep -q 'jobs  *-  *3.000$' "$tmp/out" || fail "not three rows"
for wrong in "draw:3,1,1,num_replicas pollux.csv" "draw:3,1,0.3,gpus pollux.csv" \
    "draw:3 pollux.csv"; do
    sed -i "s|^traces.*|traces: [\"$wrong\"]|" "$tmp/papers/a.yaml"
    run 1 repro --papers "$tmp/papers"
    err_has "made: "
done
for wrong in "swap:a t.csv" "keep: t.csv" "swap:=b t.csv" "keep:a"; do
    sed -i "s|^traces.*|traces: [\"$wrong\"]|" "$tmp/papers/a.yaml"
    run 1 repro --papers "$tmp/papers"
    err_has "needs"
done
exit 0
