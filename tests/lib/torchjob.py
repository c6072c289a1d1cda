"""torchjob.py - a small elastic PyTorch training for tests/lib/torchjob.sh.

Prints its place as each process begins and, from process 0, the SHA-256 of the
weights that it ends with: runs of the same options print the same, however they
were resized. Steps are slow until the file "fast" is in $TMPDIR.
"""
import argparse
import hashlib
import os
import time

import torch
from torch import nn

import firn.ahead
from firn.torch import Elastic

parse = argparse.ArgumentParser()
parse.add_argument("--threads", type=int, default=2)
parse.add_argument("--samples", type=int, default=64)
parse.add_argument("--batch", type=int, default=8, help="samples of a thread and step")
parse.add_argument("--steps", type=int, default=300)
parse.add_argument("--pace", type=float, default=0, help="seconds of a slow step, 0: none")
parse.add_argument("--through", help="where gradients go: see firn.torch.Elastic")
parse.add_argument("--ahead", action="store_true", help="may be started in advance")
args = parse.parse_args()
fast = os.path.join(os.environ["TMPDIR"], "fast")


def pace(elastic):
    del elastic
    if args.pace > 0 and not os.path.exists(fast):
        time.sleep(args.pace)


torch.manual_seed(1)
draws = torch.Generator().manual_seed(2)
x = torch.randn(args.samples, 20, generator=draws)
y = torch.randint(0, 4, (args.samples,), generator=draws)
model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.1), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
if args.ahead:
    firn.ahead.wait()
more = {"through": args.through} if args.through else {}
elastic = Elastic(model, optimizer, torch.utils.data.TensorDataset(x, y),
                  threads=args.threads, batch_size=args.batch, epochs=1000,
                  max_steps=args.steps, on_step=pace, **more)
print("process", elastic.place.rank, "of", os.environ.get("WORLD_SIZE", "1"),
      "on GPU", os.environ.get("CUDA_VISIBLE_DEVICES", "-"), flush=True)
for x, y in elastic:
    elastic.backward(nn.functional.cross_entropy(model(x), y))
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
if elastic.place.rank == 0:
    print("weights", hashlib.sha256(weights).hexdigest(), flush=True)
elastic.close()
