"""mixed_job.py - one job of the mixed queue (mixed.sh): a model of models.py or
the small CNN, elastic, a fixed number of steps, and a hash of its weights.

    python3 mixed_job.py --model resnet18 --steps 400
    python3 mixed_job.py --model cnn --steps 30 --device cpu --tiny
    python3 mixed_job.py --model resnet50 --steps 100 --batch 128

The job takes orders like every job that trains with firn.torch: checkpoints on
request, sub-batches, frozen layers where its user allows them. Its model is built
on the host, so that firn can start its processes before the GPU is free. Its data
are random and lie on the device. The last line printed is a hash of the weights.
"""
import hashlib
import os
import time

import trainkit
import torch
from models import MODELS, RandomData, build, cnn, loss_of

import firn.ahead
from firn.torch import Elastic


class Digits:
    """Random pictures of 28 x 28 in ten classes, handed out a batch at a time."""

    def __init__(self, n, device):
        g = torch.Generator().manual_seed(7)
        self.x = torch.rand(min(n, 4096), 1, 28, 28, generator=g).to(device)
        self.y = torch.randint(0, 10, (len(self.x),), generator=g).to(device)
        self.n = n

    def __len__(self):
        return self.n

    def __getitems__(self, indices):
        at = torch.as_tensor(indices, device=self.x.device) % len(self.x)
        return self.x[at], self.y[at]


def make(args):
    """Model, data and batch size of the job."""
    if args.model == "cnn":
        torch.manual_seed(1)
        batch = 4 if args.tiny else 32
        model = cnn()
        firn.ahead.wait()
        return model.to(args.device), Digits(args.steps * batch, args.device), batch
    model, batch = build(args.model, args.tiny, "cpu")
    batch = args.batch or batch
    firn.ahead.wait()
    model.to(args.device)
    kept = 8 * batch
    data = RandomData(args.model, kept, args.device, args.tiny,
                      times=-(-args.steps // 8))
    return model, data, batch


def main():
    args = trainkit.arguments(__doc__.split("\n")[0], 600, model="cnn", steps=100,
                              batch=0)
    if args.model != "cnn" and args.model not in MODELS:
        raise SystemExit(f"unknown model '{args.model}': cnn, {', '.join(MODELS)}")
    trainkit.deterministic()
    torch.set_num_threads(1)
    begin = time.time()
    model, data, batch = make(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    job = Elastic(model, optimizer, data, threads=1, batch_size=batch, epochs=1,
                  seed=3, collate=trainkit.whole)
    for x, y in job:
        job.backward(loss_of(model(x), y))
    job.close()
    hashed = hashlib.sha256()
    for p in model.parameters():
        hashed.update(p.detach().cpu().contiguous().numpy().tobytes())
    print(f"trained {job.step} steps in {time.time() - begin:.1f} s")
    print(f"weights {hashed.hexdigest()[:16]}")


os.environ.setdefault("OMP_NUM_THREADS", "1")
main()
