#!/bin/sh
# live.sh - the live scheduler on a machine with a real GPU, scene by scene.
#
#     bench/gpu/live.sh BIN [OUT]
#
# BIN has firn, firnd and libfirn_train.so. Shows what needs a driver: GPUs are
# found through NVML; GPUs with foreign processes are left alone; a PyTorch job
# that stops by a checkpoint continues with the same bits; two jobs share a GPU
# by time slicing and under CUDA's multi-process service, each within its part
# of the memory; a job that runs out of memory is recognised. One line for each
# scene, "ok" or "FAIL"; the exit status counts the failures. Needs Python 3,
# PyTorch and a GPU without other processes.
set -u
cd "$(dirname "$0")/../.." || exit 1
. bench/gpu/firnd.sh
bin=$(cd "${1:?the folder of firn and firnd}" && pwd)
out=${2:-.}
firn=$bin/firn
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-live.XXXXXX")
export FIRN_SOCKET="$tmp/firn.sock"
export PYTHONPATH="$PWD/python" FIRN_TRAIN_LIB="$bin/libfirn_train.so"
export CUBLAS_WORKSPACE_CONFIG=:4096:8
cnn="python3 $PWD/examples/python/cnn.py --device cuda --samples 12000"
nfailed=0
daemon=

# say TEXT STATUS [MORE]: prints a scene's line.
say()
{
    if [ "$2" -eq 0 ]; then
        echo "ok    $1${3:+: $3}"
    else
        echo "FAIL  $1${3:+: $3}"
        nfailed=$((nfailed + 1))
    fi
}

trap 'kill "$daemon" 2>/dev/null; rm -rf "$tmp"' EXIT

# state JOB: its state.
state()
{
    "$firn" show "$1" -o json 2>/dev/null | tr ',{' '\n\n' |
        sed -n 's/^ *"state": *"\([a-z]*\)".*/\1/p' | head -n 1
}

# until_state JOB STATE SECONDS: waits; on failure shows the job's output.
until_state()
{
    for _ in $(seq $(($3 * 5))); do
        now=$(state "$1")
        [ "$now" = "$2" ] && return 0
        case $now in
        succeeded | failed | cancelled | lost | "") break ;;
        esac
        sleep 0.2
    done
    echo "      job $1 is '$now', not $2"
    "$firn" logs "$1" | tail -n 8
    return 1
}

# submit OPTION... -- COMMAND...: a job of one GPU.
submit()
{
    "$firn" submit -e FIRN_TRAIN_LIB --gpus 1 "$@"
}

# hold_gpu SECONDS: starts a foreign process on the GPU.
hold_gpu()
{
    python3 -c "import torch, time
x = torch.ones(1 << 28, device='cuda'); torch.cuda.synchronize()
print('held', flush=True); time.sleep($1)" &
}

found()
{
    up --policy fifo
    "$firn" nodes
    nvidia-smi --query-gpu=name,memory.total --format=csv,noheader
    "$firn" nodes | grep -qi h[12]00
    say "the driver's GPUs are found" $? "$("$firn" nodes | tail -n 1)"
    hold_gpu 12
    foreign=$!
    sleep 6
    submit --name waits -- $cnn --epochs 1 >/dev/null
    sleep 3
    [ "$(state waits)" != running ]
    say "a GPU with a foreign process is left alone" $? "$(state waits)"
    "$firn" why waits
    wait "$foreign"
    until_state waits succeeded 60
    say "and taken when it is free" $? "$("$firn" logs waits | tail -n 1)"
    down
}

same_bits()
{
    up --policy fifo
    submit --name whole --elastic --threads 4 --wait -- \
        $cnn --epochs 4 >/dev/null
    submit --name cut --elastic --threads 4 -- \
        $cnn --epochs 4 >/dev/null
    until_state cut running 20
    sleep 7
    "$firn" hold cut && until_state cut pending 30
    "$firn" release cut && until_state cut succeeded 90
    a=$("$firn" logs whole | grep ^weights | tail -n 1)
    b=$("$firn" logs cut | grep ^weights | tail -n 1)
    [ -n "$a" ] && [ "$a" = "$b" ]
    say "held and released, the bits are the same" $? "$a, $b"
    down
}

# shared NAME: two jobs on the one GPU.
shared()
{
    up --policy sjf-ffs
    for i in 1 2; do
        submit --name "pair-$i" --share --elastic --threads 1 \
            --memory 20 --duration 60s -- sh -c \
            "env | grep -E 'FIRN_(MEM_)?SHARE|MPS' | sort
                exec $cnn --threads 1 --epochs 4" >/dev/null
    done
    both=1
    for _ in $(seq 100); do
        if [ "$(state pair-1) $(state pair-2)" = "running running" ]; then
            both=0
            sleep 5
            nvidia-smi --query-compute-apps=pid,name,used_memory \
                --format=csv,noheader
            "$firn" ls
            break
        fi
        sleep 0.2
    done
    say "two jobs share the GPU, $1" "$both"
    until_state pair-1 succeeded 120 && until_state pair-2 succeeded 120
    say "both end well, $1" $? "$("$firn" logs pair-2 | tail -n 1)"
    "$firn" logs pair-2 | grep -E 'SHARE|MPS'
    down
}

memory()
{
    up --policy fifo
    submit --name greedy -- python3 -c "import torch
x = [torch.ones(1 << 32, device='cuda') for _ in range(20)]" >/dev/null
    until_state greedy failed 90
    "$firn" show greedy | grep -qi memory
    say "out of memory is recognised" $? \
        "$("$firn" show greedy | grep -i memory | head -n 1)"
    FIRN_MEM_SHARE=0.25 python3 -c "
import torch
from firn.torch.elastic import keep_to_share
d = torch.device('cuda', 0)
keep_to_share(d)
total = torch.cuda.get_device_properties(0).total_memory
torch.empty(int(total * 0.2), dtype=torch.uint8, device=d)
try:
    torch.empty(int(total * 0.3), dtype=torch.uint8, device=d)
except torch.cuda.OutOfMemoryError:
    raise SystemExit(0)
raise SystemExit(1)"
    say "a job is held to its part of the memory" $?
    down
}

found
same_bits
shared "by time slicing"
if command -v nvidia-cuda-mps-control >/dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY="$tmp/mps" CUDA_MPS_LOG_DIRECTORY="$tmp/mps"
    mkdir "$tmp/mps"
    nvidia-cuda-mps-control -d
    shared "under the multi-process service"
    echo quit | nvidia-cuda-mps-control
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
else
    echo "skip  no multi-process service here"
fi
memory
exit "$nfailed"
