#!/bin/sh
# easyscale: a PyTorch job whose profile says that several processes on one GPU
# are faster than one gets as many there as it has threads, and its weights have
# the bits of a run in one process. A part of `make soak`, as four imports of
# PyTorch take seconds; skipped where PyTorch is not there.
. tests/lib/firnd.sh
[ -n "${FIRN_SOAK:-}" ] || skip "it is a part of make soak"
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
only local "the Slurm engine starts one process on a GPU"
. tests/lib/torchjob.sh
set -- --threads 3 --samples 192 --batch 32 --steps 10
torch_alone "$@"
up --gpus 1x1:v100@32 --policy easyscale --set easyscale.interval=1

# A mini-batch of 32 for each of three threads: profiles/easyscale/resnet50.txt
# has a row of three processes for it, which are faster than one.
submit three 1..1 "can: [resize, passes, executors]
app: resnet50
batch: 96
elastic: {threads: 3}
checkpoint: {grace: 10}
freeze: {rule: off}
duration: 60" "$torchjob" "$@"
wait_state three succeeded
"$FIRN" logs --socket "$socket" three >"$tmp/out"
out_has 'process 0 of 3 on GPU 0'
out_has 'process 1 of 3 on GPU 0'
out_has 'process 2 of 3 on GPU 0'
torch_same "$tmp/out"
down
exit 0
