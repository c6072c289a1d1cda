#!/bin/sh
# merge.sh - what it is worth that ymir merges two real PyTorch fine-tuning jobs
# under firnd on one GPU, against separate runs.
#
#     bench/gpu/merge.sh BIN OUT [SEED...]
#
# BIN has firn, firnd and libfirn_train.so. The jobs are those of merge_job.py:
# LoRA adapters and a head for each of two tasks, a and b, over one backbone, of
# KIND stripes (default) or bytes. Both jobs are submitted while another job holds
# the GPU, so that one round sees both, and their time counts from when the GPU is
# free. Each job ends at its target metric: TARGETS has both (stripes: 0.75 and
# 0.68, those of partners.py). Without them a first run, with seed 0 and a fixed
# number of epochs, has each job alone, and targets are SHARE of the best metric
# that each job reached. For each SEED (default: 1 2 3) both jobs then train
#
#     merged   by ymir, which trains both in one process; without its guard, which
#              parts two jobs where the metric of one has not improved for two
#              epochs (GUARD=yes: with it)
#     alone    by fifo, one after the other; the summary counts the better of both
#              orders
#
# Writes OUT/merge.csv: a row for each job of each run, with the seconds to its
# end, how often it was started, its steps, the device's steps from the first of
# its process to its last, epochs, metric, and whether the metric met the target;
# OUT/merge_curves.csv: a row for each epoch; and prints a summary. No run begins
# after SECONDS_MAX seconds (default: 170). Needs Python 3 and PyTorch; with
# DEVICE=cpu TINY=1 it is a smoke test on a declared GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
. bench/gpu/firnd.sh
bin=$(cd "${1:?the folder of firn and firnd}" && pwd)
out=$(cd "${2:?the folder for merge.csv}" && pwd)
shift 2
[ $# -gt 0 ] || set -- 1 2 3
kind=${KIND:-stripes}
device=${DEVICE:-cuda}
tiny=${TINY:+--tiny}
case $kind in
stripes) epochs=${EPOCHS:-60} many=${MANY:-600} few=${FEW:-300} targets=${TARGETS:-0.75 0.68} ;;
*) epochs=${EPOCHS:-60} many=${MANY:-160} few=${FEW:-96} targets=${TARGETS:-} ;;
esac
python=${PYTHON:-python3}
begin=$(date +%s)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-merge.XXXXXX")
export FIRN_SOCKET="$tmp/firn.sock" CUBLAS_WORKSPACE_CONFIG=:4096:8
export PYTHONPATH="$PWD/python" FIRN_TRAIN_LIB="$bin/libfirn_train.so"
daemon=
declared=
[ "$device" = cuda ] || declared="--gpus 1x1:h200@140"
trap 'kill "$daemon" 2>/dev/null; rm -rf "$tmp"' EXIT
job="$PWD/bench/gpu/merge_job.py"

# send TASK SAMPLES SEED TARGET: submits one job.
send()
{
    cat >"$tmp/job.yaml" <<JOB
name: $1
run: [$python, $job, --kind, $kind, --base, $tmp, --device, $device,
      ${tiny:+$tiny,} --task, $1,
      --samples, "$2", --epochs, "$epochs", --seed, "$3", ${EXTRA:-}]
gpus: 1
duration: 60
workdir: $tmp
checkpoint: {grace: 60}
env: {FIRN_TRAIN_LIB: $FIRN_TRAIN_LIB, PYTHONPATH: $PYTHONPATH,
      CUBLAS_WORKSPACE_CONFIG: "$CUBLAS_WORKSPACE_CONFIG"}
target: {metric: $4}
finetune: {base: $kind, dataset: $1, sharing: allowed}
JOB
    "$bin/firn" submit -f "$tmp/job.yaml" >/dev/null || exit 1
}

# ended NAME: waits for the end of a job and keeps its record and log.
ended()
{
    "$bin/firn" wait "$1" --timeout 600s >/dev/null 2>&1
    "$bin/firn" show "$1" -o json >"$tmp/$1.json"
    "$bin/firn" logs "$1" >"$tmp/$1.log" 2>/dev/null
}

# one WAY SEED TARGET_A TARGET_B: both jobs, from a free GPU to the end of both.
one()
{
    policy=fifo
    [ "$1" != merged ] || policy="ymir --set ymir.between=yes --set ymir.guard=${GUARD:-no}"
    # shellcheck disable=SC2086 # words
    up --policy $policy $declared
    "$bin/firn" submit --name block --gpus 1 -- /bin/sleep 600 >/dev/null || exit 1
    until "$bin/firn" show block -o json | grep -q '"state": *"running"'; do
        sleep 0.05
    done
    send a "$many" "$2" "$3"
    send b "$few" "$2" "$4"
    "$bin/firn" cancel block >/dev/null
    ended a
    ended b
    ended block
    "$bin/firn" events >"$tmp/events" 2>/dev/null
    down
    "$python" bench/gpu/merge_table.py add "$out" "$tmp" "$1" "$2" "$3" "$4"
    [ "$1" != merged ] || grep 'parted\|together with' "$tmp/events"
}

# shellcheck disable=SC2086 # words, or none
"$python" "$job" --kind "$kind" --make --base "$tmp" --device "$device" $tiny \
    ${EXTRA_BASE:-} || exit 1
for table in merge merge_curves; do
    cp "$tmp/about" "$out/$table.csv" || exit 1
done
if [ -z "$targets" ]; then
    one first 0 1 1
    targets=$("$python" bench/gpu/merge_table.py targets "$out" "${SHARE:-0.98}") || exit 1
fi
echo "targets: $targets"
for seed; do
    for way in merged alone; do
        if [ $(($(date +%s) - begin)) -gt "${SECONDS_MAX:-170}" ]; then
            echo "no time for seed $seed, $way" >&2
            continue
        fi
        # shellcheck disable=SC2086 # two words
        one "$way" "$seed" $targets
    done
done
"$python" bench/gpu/merge_table.py summary "$out"
