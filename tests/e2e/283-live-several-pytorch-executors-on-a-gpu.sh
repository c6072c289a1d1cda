#!/bin/sh
# easyscale: a PyTorch job whose profile says that several processes on one GPU
# are faster than one gets as many there as it has threads, and its weights have
# the bits of a run in one process. A part of `make soak`, as four imports of
# PyTorch take seconds; skipped where PyTorch is not there.
. tests/lib/firnd.sh
[ -n "${FIRN_SOAK:-}" ] || skip "it is a part of make soak"
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
only local "the Slurm engine starts one process on a GPU"
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=${FIRN%/firn}/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import sys, importlib.util as u
sys.exit(not all(u.find_spec(m) for m in ("torch", "numpy")))' 2>/dev/null ||
    skip "python3-torch is not installed"

cat >"$tmp/train.py" <<'END'
import hashlib, os
import torch
from torch import nn
from firn.torch import Elastic

torch.manual_seed(1)
g = torch.Generator().manual_seed(2)
x, y = torch.randn(192, 20, generator=g), torch.randint(0, 4, (192,), generator=g)
model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(x, y)
elastic = Elastic(model, optimizer, data, threads=3, batch_size=32, epochs=5)
print("process", elastic.place.rank, "of", os.environ.get("WORLD_SIZE", "1"),
      "on GPU", os.environ.get("CUDA_VISIBLE_DEVICES", "-"), flush=True)
for x, y in elastic:
    elastic.backward(nn.functional.cross_entropy(model(x), y))
data = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
if elastic.place.rank == 0:
    print("weights", hashlib.sha256(data).hexdigest(), flush=True)
elastic.close()
END
cat >"$tmp/train" <<END
#!/bin/sh
export FIRN_TRAIN_LIB="$lib" PYTHONPATH="$PWD/python" OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE=1 TMPDIR="$tmp" # PyTorch keeps caches there
exec "$python" "$tmp/train.py"
END
chmod +x "$tmp/train"
sh "$tmp/train" >"$tmp/alone" 2>&1 &
alone=$!
up --gpus 1x1:v100@32 --policy easyscale --set easyscale.interval=1

# A mini-batch of 32 for each of three threads: profiles/easyscale/resnet50.txt
# has a row of three processes for it, which are faster than one.
submit three 1..1 "can: [resize, passes, executors]
app: resnet50
batch: 96
elastic: {threads: 3}
checkpoint: {grace: 10}
freeze: {rule: off}
duration: 60" "$tmp/train"
wait_state three succeeded
"$FIRN" logs --socket "$socket" three >"$tmp/out"
out_has 'process 0 of 3 on GPU 0'
out_has 'process 1 of 3 on GPU 0'
out_has 'process 2 of 3 on GPU 0'
wait "$alone" || fail "alone: $(cat "$tmp/alone")"
grep ^weights "$tmp/alone" >"$tmp/want"
grep ^weights "$tmp/out" >"$tmp/got"
cmp "$tmp/want" "$tmp/got" || fail "three processes on a GPU have other weights"
down
exit 0
