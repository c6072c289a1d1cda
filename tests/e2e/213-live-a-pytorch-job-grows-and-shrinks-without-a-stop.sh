#!/bin/sh
# An elastic PyTorch job grows when its neighbour ends and shrinks when another
# job comes, in one attempt: a process joins and leaves while it trains. Its events
# tell each pause, and `firn show` the last one. Its weights equal those of a run
# that was never resized. Skipped where PyTorch is not there.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
only local "processes join on the local engine only"
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=${FIRN%/firn}/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import sys, importlib.util as u
sys.exit(not all(u.find_spec(m) for m in ("torch", "numpy")))' 2>/dev/null ||
    skip "python3-torch is not installed"

# 300 small steps, slow ones until a file is there.
cat >"$tmp/train.py" <<'END'
import hashlib, os, time
import torch
from torch import nn
from firn.torch import Elastic

fast = os.path.join(os.environ["TMPDIR"], "fast")


def pace(elastic):
    if not os.path.exists(fast):
        time.sleep(0.2)


torch.manual_seed(1)
g = torch.Generator().manual_seed(2)
x, y = torch.randn(64, 20, generator=g), torch.randint(0, 4, (64,), generator=g)
model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(x, y)
elastic = Elastic(model, optimizer, data, threads=2, batch_size=8, epochs=1000,
                  max_steps=300, on_step=pace)
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
mkdir "$tmp/alone" && touch "$tmp/alone/fast"
sed "s,TMPDIR=\"$tmp\",TMPDIR=\"$tmp/alone\"," "$tmp/train" >"$tmp/alone/train"
sh "$tmp/alone/train" >"$tmp/alone/out" 2>&1 &
alone=$!
# other NAME: a job that ends when it is told to.
other()
{
    printf '#!/bin/sh\nuntil [ -e "%s/%s" ]; do sleep 0.05; done\n' \
        "$tmp" "$1-ends" >"$tmp/$1"
    chmod +x "$tmp/$1"
    submit "$1" 1 "" "$tmp/$1"
}
# resized N: have events told of N resizes?
resized()
{
    [ "$("$FIRN" events --socket "$socket" -j job |
        grep -c "resized without a stop")" -ge "$1" ]
}

up --gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
other first
wait_state first running
submit job 1..2 "elastic: {threads: 2}
checkpoint: {grace: 30, interval: 60}
freeze: {rule: off}" "$tmp/train"
await "it does not say that processes can join" says /jobs/job '"join"'
touch "$tmp/first-ends"
await "no event tells of the growth" resized 1
other second
await "no event tells of the shrinking" resized 2
wait_state second running
[ "$(field job epoch)" = 1 ] || fail "it was restarted: $(api GET /jobs/job)"
"$FIRN" show --socket "$socket" job | grep -q "without a stop" ||
    fail "show has no resize: $("$FIRN" show --socket "$socket" job)"
touch "$tmp/second-ends" "$tmp/fast"
wait_state job succeeded
api GET /jobs/job/logs | grep '^weights ' >"$tmp/live" || fail "no weights"
down
wait "$alone" || fail "the run alone failed: $(cat "$tmp/alone/out")"
grep '^weights ' "$tmp/alone/out" | cmp -s - "$tmp/live" ||
    fail "the weights differ: $(cat "$tmp/live")"
exit 0
