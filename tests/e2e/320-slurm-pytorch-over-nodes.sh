#!/bin/sh
# PyTorch across Slurm nodes: plain DDP over gloo, stopped and gone on with on
# other nodes, whose ranks agree on the weights; and an elastic job of
# firn.torch whose weights have the bits of one process.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=$(cd "${FIRN%/firn}" && pwd)/libfirn_train.so
[ -z "${FIRN_QUICK:-}" ] || skip "Python is not under the checker"
"$python" -c 'import torch, numpy, torch.distributed' 2>/dev/null ||
    skip "python3-torch is not installed"
[ -f "$lib" ] || skip "libfirn_train.so is not built"
up --gpus 3x1:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
env="checkpoint: {grace: 20}
env:
  PYTHONPATH: $PWD/python
  PYTHONDONTWRITEBYTECODE: 1
  TORCHINDUCTOR_CACHE_DIR: $tmp/inductor
  GLOO_SOCKET_IFNAME: $([ -z "${FIRND_HOSTS:-}" ] && echo lo || echo eth0)"
elastic="elastic: {threads: 4}"

submit gloo 3..3 "$env
$elastic" env "FIRN_TRAIN_LIB=$lib" \
    "$python" "$PWD/tests/python/gloojob.py"

# Meanwhile one process by itself.
small="--threads 4 --epochs 1 --samples 256"
# shellcheck disable=SC2086 # words
TORCHINDUCTOR_CACHE_DIR=$tmp/inductor PYTHONPATH=python FIRN_TRAIN_LIB=$lib \
    PYTHONDONTWRITEBYTECODE=1 "$python" \
    examples/python/cnn.py $small | grep ^weights >"$tmp/one" ||
    fail "one process does not train"

# begins: it has, and goes no further than half way until it is told to stop.
begins()
{
    says /jobs/gloo/logs ' begins'
}
await "it does not begin" begins
[ "$(slurm_nodes)" = 'n0 n1 n2' ] || fail "it is on $(slurm_nodes)"
api PATCH /jobs/gloo '{"gpus": 2}' >/dev/null || fail "no new bounds"
wait_state gloo succeeded
api GET /jobs/gloo/logs >"$tmp/out"
out_has 'rank 0 of 3 on n0'
out_has 'rank 2 of 3 on n2'
out_has 'of 2 on n'
grep -q 'to 40$' "$tmp/out" || fail "it did not come to its end"
[ "$(grep -c '^step 40: ' "$tmp/out")" -eq 2 ] || fail "not two ranks"
[ "$(grep '^step 40: ' "$tmp/out" | sort -u | wc -l)" -eq 1 ] ||
    fail "ranks differ"

# shellcheck disable=SC2086 # words
submit elastic 2..2 "$env
$elastic" env "FIRN_TRAIN_LIB=$lib" \
    "$python" "$PWD/examples/python/cnn.py" $small
wait_state elastic succeeded
api GET /jobs/elastic/logs | grep ^weights >"$tmp/two"
cmp -s "$tmp/one" "$tmp/two" || fail "two processes on two nodes differ"
down
exit 0
