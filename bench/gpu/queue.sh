#!/bin/sh
# queue.sh - a queue of real PyTorch jobs on one GPU, under policy after policy.
#
#     bench/gpu/queue.sh BIN OUT [POLICY...]
#
# BIN has firn, firnd and libfirn_train.so. Eight jobs of the example CNN (three
# to ten epochs) come at once; each may share the GPU, takes checkpoints and says
# about how long it will run. The policies run the same queue in the order in
# which they are named; one that is named twice runs it twice.
# Writes OUT/queue.csv: a row for each job, with its wait, its time to
# completion, how often it was started and its weights (the same under every
# policy, or the scheduler has changed what was trained), and prints a line for
# each run. Needs Python 3 and PyTorch; with DEVICE=cpu it is a smoke test on a
# declared GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
. bench/gpu/firnd.sh
bin=$(cd "${1:?the folder of firn and firnd}" && pwd)
out=$(cd "${2:?the folder for queue.csv}" && pwd)
shift 2
[ $# -gt 0 ] || set -- fifo sjf sjf-ffs sjf-bsbf lucid icefrog
device=${DEVICE:-cuda}
samples=${SAMPLES:-12000}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-queue.XXXXXX")
export FIRN_SOCKET="$tmp/firn.sock" CUBLAS_WORKSPACE_CONFIG=:4096:8
export PYTHONPATH="$PWD/python" FIRN_TRAIN_LIB="$bin/libfirn_train.so"
daemon=
declared=
[ "$device" = cuda ] || declared="--gpus 1x1:v100@16"
trap 'kill "$daemon" 2>/dev/null; rm -rf "$tmp"' EXIT

# one RUN POLICY: the queue from the first submit to the last end.
one()
{
    # shellcheck disable=SC2086 # two words, or none
    up --policy "$2" $declared
    for epochs in 6 10 3 8 4 9 5 7; do
        "$bin/firn" submit --name "e$epochs" --app cnn --gpus 1 --share --elastic \
            --threads 1 -e FIRN_TRAIN_LIB -e PYTHONPATH \
            -e CUBLAS_WORKSPACE_CONFIG --memory 6 --duration $((6 + 2 * epochs))s -- \
            python3 "$PWD/examples/python/cnn.py" --device "$device" \
            --samples "$samples" --threads 1 --epochs "$epochs" >/dev/null ||
            exit 1
    done
    for epochs in 6 10 3 8 4 9 5 7; do
        for _ in $(seq 1500); do
            "$bin/firn" show "e$epochs" -o json >"$tmp/job.$epochs"
            grep -q '"ended_s": [0-9]' "$tmp/job.$epochs" && break
            sleep 0.2
        done
        "$bin/firn" logs "e$epochs" | sed -n 's/^weights //p' | tail -n 1 \
            >"$tmp/weights.$epochs"
    done
    down
    python3 - "$1" "$2" "$tmp" "$out/queue.csv" <<'PYTHON'
import json, sys
run, policy, folder, table = sys.argv[1:]
jobs = []
for epochs in (6, 10, 3, 8, 4, 9, 5, 7):
    job = json.load(open(f"{folder}/job.{epochs}"))
    job["epochs"] = epochs
    job["weights"] = open(f"{folder}/weights.{epochs}").read().strip()
    jobs.append(job)
first = min(j["submitted_s"] for j in jobs)
with open(table, "a") as f:
    for j in jobs:
        wait_s = j["started_s"] - j["submitted_s"]
        jct_s = j["ended_s"] - j["submitted_s"]
        print(policy, run, j["epochs"], j["state"], f"{wait_s:.2f}", f"{jct_s:.2f}",
              j["epoch"], j["weights"], sep=",", file=f)
mean_s = sum(j["ended_s"] - j["submitted_s"] for j in jobs) / len(jobs)
starts = sum(j["epoch"] for j in jobs)
good = sum(j["state"] == "succeeded" for j in jobs)
print(f"{policy:10} run {run}: mean completion {mean_s:6.1f} s, all after "
      f"{max(j['ended_s'] for j in jobs) - first:6.1f} s, {starts} starts, "
      f"{good} of {len(jobs)} succeeded", flush=True)
PYTHON
}

echo "policy,run,epochs,state,wait_s,jct_s,starts,weights" >"$out/queue.csv"
run=0
for policy; do
    run=$((run + 1))
    one "$run" "$policy"
done
