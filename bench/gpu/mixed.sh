#!/bin/sh
# mixed.sh - twelve real PyTorch jobs of several kinds that arrive over time, on
# one GPU, under policy after policy.
#
#     bench/gpu/mixed.sh BIN OUT [POLICY...]
#
# BIN has firn, firnd and libfirn_train.so. The jobs (mixed_job.py) are small
# CNNs, ResNet18, ResNet50, BERT-base and GPT-2 small; one arrives every GAP
# seconds. Each may share the GPU, checkpoints on request, says about how long it
# runs alone and that it waits for its GPU if it is started early (`--can ahead`);
# two of them allow their front layers to be frozen. The policies run the same queue
# in the order in which they are named; one that is named twice runs it twice.
# Writes OUT/mixed.csv: a row for each job, with its wait, its time to completion,
# how often it was started and its weights, and prints a line for each run. The
# weights of a job are the same under every policy, but for a job that allows
# frozen layers where the policy freezes them. Ends before a run that would begin
# after SECONDS_MAX seconds. OUT/events.RUN.POLICY has what happened. AHEAD=N: the
# processes of N jobs are started before the GPU is free, under every policy; 0: of
# none. Needs Python 3 and PyTorch; with DEVICE=cpu TINY=1 it is a smoke test on a
# declared GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
. bench/gpu/firnd.sh
bin=$(cd "${1:?the folder of firn and firnd}" && pwd)
out=$(cd "${2:?the folder for mixed.csv}" && pwd)
shift 2
[ $# -gt 0 ] || set -- fifo sjf-ffs sjf-bsbf icefrog lucid firn
device=${DEVICE:-cuda}
tiny=${TINY:+--tiny}
gap=${GAP:-4}
python=${PYTHON:-python3}
begin=$(date +%s)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-mixed.XXXXXX")
export FIRN_SOCKET="$tmp/firn.sock" CUBLAS_WORKSPACE_CONFIG=:4096:8
export PYTHONPATH="$PWD/python" FIRN_TRAIN_LIB="$bin/libfirn_train.so"
daemon=
declared=
[ "$device" = cuda ] || declared="--gpus 1x1:h200@140"
trap 'kill "$daemon" 2>/dev/null; rm -rf "$tmp"' EXIT

# name, model, steps, GiB, seconds that it takes alone, freezing rule or -
cat >"$tmp/jobs" <<JOBS
a resnet50 320 6 15 -
b cnn 1200 3 11 -
c bert-base 120 10 17 -
d resnet18 320 5 13 penalty
e cnn 400 3 9 -
f gpt2-small 160 10 17 -
g resnet18 160 5 11 -
h cnn 2400 3 14 -
i resnet50 160 6 12 penalty
j bert-base 40 10 12 -
k cnn 800 3 10 -
l gpt2-small 80 10 13 -
JOBS

# send NAME MODEL STEPS GIB SECONDS RULE: submits one job.
send()
{
    can=resize,passes,ahead
    freeze=
    [ "$6" = - ] || freeze="--freeze $6" can="$can,freeze"
    # shellcheck disable=SC2086 # words
    "$bin/firn" submit --name "$1" --app "$2" --gpus 1 --share --elastic --threads 1 \
        -e FIRN_TRAIN_LIB -e PYTHONPATH -e CUBLAS_WORKSPACE_CONFIG --memory "$4" \
        --duration "$5s" --can "$can" $freeze -- "$python" "$PWD/bench/gpu/mixed_job.py" \
        --device "$device" $tiny --model "$2" --steps "$3" >/dev/null
}

# ended NAME: waits for the end of a job and keeps its record and weights.
ended()
{
    "$bin/firn" wait "$1" --timeout 600s >/dev/null 2>&1
    "$bin/firn" show "$1" -o json >"$tmp/job.$1"
    "$bin/firn" logs "$1" >"$tmp/log.$1"
    sed -n 's/^weights //p' "$tmp/log.$1" | tail -n 1 >"$tmp/weights.$1"
}

# one RUN POLICY: the queue from the first submit to the last end.
one()
{
    # shellcheck disable=SC2086 # two words, or none
    up --policy "$2" --set "local.ahead=${AHEAD:-1}" $declared
    while read -r name model steps gib seconds rule; do
        send "$name" "$model" "$steps" "$gib" "$seconds" "$rule" </dev/null || exit 1
        sleep "$gap"
    done <"$tmp/jobs"
    while read -r name _; do
        ended "$name" </dev/null
    done <"$tmp/jobs"
    "$bin/firn" events >"$out/events.$1.$2" 2>/dev/null
    down
    "$python" - "$1" "$2" "$tmp" "$out/mixed.csv" <<'PYTHON'
import json, sys
run, policy, folder, table = sys.argv[1:]
jobs = []
for line in open(f"{folder}/jobs"):
    name, model, steps = line.split()[:3]
    job = json.load(open(f"{folder}/job.{name}"))
    job.update(name=name, model=model, steps=steps)
    job["weights"] = open(f"{folder}/weights.{name}").read().strip()
    jobs.append(job)
first = min(j["submitted_s"] for j in jobs)
with open(table, "a") as f:
    for j in jobs:
        wait_s = (j["started_s"] or j["ended_s"]) - j["submitted_s"]
        jct_s = j["ended_s"] - j["submitted_s"]
        print(policy, run, j["name"], j["model"], j["steps"], j["state"],
              f"{wait_s:.2f}", f"{jct_s:.2f}", j["epoch"], j["weights"], sep=",", file=f)
        if j["state"] != "succeeded":
            print(open(f"{folder}/log.{j['name']}").read()[-1500:])
mean_s = sum(j["ended_s"] - j["submitted_s"] for j in jobs) / len(jobs)
good = sum(j["state"] == "succeeded" for j in jobs)
print(f"{policy:10} run {run}: mean completion {mean_s:6.1f} s, all after "
      f"{max(j['ended_s'] for j in jobs) - first:6.1f} s, "
      f"{sum(j['epoch'] for j in jobs)} starts, {good} of {len(jobs)} succeeded",
      flush=True)
PYTHON
}

echo "policy,run,job,model,steps,state,wait_s,jct_s,starts,weights" >"$out/mixed.csv"
run=0
for policy; do
    run=$((run + 1))
    if [ $(($(date +%s) - begin)) -gt "${SECONDS_MAX:-3600}" ]; then
        echo "no time for run $run, $policy" >&2
        continue
    fi
    one "$run" "$policy"
done
