#!/bin/sh
# A script for torchrun runs as it stands, submitted from an active virtual
# environment: one process for the job, two workers by torchrun, a sum over both.
# A part of `make soak`, as two imports of PyTorch take seconds. FIRN_VENV is a
# virtual environment with PyTorch; without it the distribution's is used.
. tests/lib/firnd.sh
only local "it is about processes of this host"
[ -n "${FIRN_SOAK:-}" ] || skip "it is a part of make soak"
[ -z "${FIRN_VENV:-}" ] || PATH=$FIRN_VENV/bin:$PATH
command -v torchrun >/dev/null || skip "there is no torchrun"

cat >"$tmp/train.py" <<'END'
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(x)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {x.item()} "
      f"gpus {os.environ['CUDA_VISIBLE_DEVICES']} {sys.executable}", flush=True)
dist.destroy_process_group()
END
export TMPDIR="$tmp" # torchrun leaves a folder there
up --gpus 1x2:v100@16 --policy fifo
export FIRN_SOCKET="$socket" OMP_NUM_THREADS=1
"$FIRN" submit --name torch --gpus 2 --env OMP_NUM_THREADS --wait -- \
    torchrun --standalone --nproc-per-node=2 "$tmp/train.py" >"$tmp/number" 2>"$tmp/states" ||
    fail "torchrun failed: $("$FIRN" logs torch | tail -n 5)"
"$FIRN" logs torch >"$tmp/out"
out_has "rank 0 of 2 sum 3.0 gpus 0,1"
out_has "rank 1 of 2 sum 3.0 gpus 0,1"
# The Python is that of the shell, by the PATH that goes along.
[ -z "${FIRN_VENV:-}" ] || out_has "$FIRN_VENV/bin/python"
down
