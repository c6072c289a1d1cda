#!/bin/sh
# On Slurm an elastic PyTorch job grows onto a second node, whose process joins over
# TCP while the job trains, and shrinks when another job comes, in one attempt. Its
# gradients go through gloo; in soak a second job's go through firn's own group. The
# weights equal those of a run that was never resized. Skipped where PyTorch is not
# there.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=$(cd "${FIRN%/firn}" && pwd)/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import torch, numpy, torch.distributed' 2>/dev/null ||
    skip "python3-torch is not installed"

# 600 small steps, slow ones until a file is there.
cat >"$tmp/train.py" <<'END'
import hashlib, os, sys, time
import torch
from torch import nn
from firn.torch import Elastic

fast = os.path.join(os.environ["TMPDIR"], "fast")


def pace(elastic):
    if not os.path.exists(fast):
        time.sleep(0.3)


torch.manual_seed(1)
g = torch.Generator().manual_seed(2)
x, y = torch.randn(64, 20, generator=g), torch.randint(0, 4, (64,), generator=g)
model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(x, y)
elastic = Elastic(model, optimizer, data, threads=2, batch_size=8, epochs=1000,
                  max_steps=600, on_step=pace, through=sys.argv[1])
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
export GLOO_SOCKET_IFNAME=$([ -z "${FIRND_HOSTS:-}" ] && echo lo || echo eth0)
exec "$python" "$tmp/train.py" "\$@"
END
# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/gone" ]; do sleep 0.05; done
END
chmod +x "$tmp/train" "$tmp/other"
mkdir "$tmp/alone" && touch "$tmp/alone/fast"
sed "s,TMPDIR=\"$tmp\",TMPDIR=\"$tmp/alone\"," "$tmp/train" >"$tmp/alone/train"
sh "$tmp/alone/train" memory >"$tmp/alone/out" 2>&1 &
alone=$!

# resized JOB N: do its events tell of N resizes?
resized()
{
    [ "$("$FIRN" events --socket "$socket" -j "$1" |
        grep -c "resized without a stop")" -ge "$2" ]
}

# nodes N JOB-ID: does Slurm run N jobs for its attempt 1?
nodes()
{
    [ "$(timeout 240 squeue -h -t R -o '%N %j' |
        grep -c " firn:[0-9]*:$2:1")" = "$1" ]
}

# cycle JOB THROUGH: it grows, shrinks, and ends with the right weights.
cycle()
{
    rm -f "$tmp/fast" "$tmp/gone"
    api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
    submit "$1" 1..2 "elastic: {threads: 2}
checkpoint: {grace: 30, interval: 60}
freeze: {rule: off}" "$tmp/train" "$2"
    await "$2: it does not say that processes can join" says "/jobs/$1" '"join"'
    api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
    await "$2: no event tells of the growth" resized "$1" 1
    nodes 2 "$(field "$1" id)" || fail "$2: it is not on two nodes: $(squeue)"
    submit "other-$2" 1 "" "$tmp/other"
    await "$2: no event tells of the shrinking" resized "$1" 2
    wait_state "other-$2" running
    [ "$(field "$1" epoch)" = 1 ] ||
        fail "$2: it was restarted: $(api GET "/jobs/$1")"
    touch "$tmp/fast" "$tmp/gone"
    wait_state "$1" succeeded
    api GET "/jobs/$1/logs" | grep '^weights ' >"$tmp/live" || fail "no weights"
    [ -z "$alone" ] || wait "$alone" ||
        fail "the run alone failed: $(cat "$tmp/alone/out")"
    alone=
    grep '^weights ' "$tmp/alone/out" | cmp -s - "$tmp/live" ||
        fail "$2: the weights differ: $(cat "$tmp/live" "$tmp/alone/out")"
}

up --gpus 2x1:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0 --set slurm.poll=0.1
cycle gloo distributed
[ -z "${FIRN_SOAK:-}" ] || cycle own memory
down
exit 0
