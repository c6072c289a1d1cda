"""train_fold.py - do sums by the tree run at the speed of the device's memory,
and do gradients stay on the device?

Writes two tables:

fold.csv      for V = 2, 4, 8 gradients, as one flat vector and as the tensors of
              ResNet50: gigabytes a second of the additions (two operands read,
              one written), beside a copy of the same bytes on the device, in
              turns; and their ratio.
profile.csv   for a few steps of an elastic ResNet50 with V = 4 threads: copies
              between device and host that the profiler saw, by kind and step.

    python3 train_fold.py --out DIR                    # GPU, about 2 minutes
    python3 train_fold.py --device cpu --tiny --out DIR --seconds 60
"""
import os
import statistics
import time

import trainkit
import torch
from models import RandomData, build, loss_of

from firn.torch import Elastic, reduce

ROUNDS = 15


def seconds(work, device):
    """The time of one call, by the device's clock where it has one."""
    if not device.startswith("cuda"):
        since = time.perf_counter()
        work()
        return time.perf_counter() - since
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def sum_of(params, grads):
    """A sum of V gradients by the tree, as one process makes it."""
    flat = reduce.Flat([params])

    def work():
        way = reduce.Running(flat, len(grads))
        for v, some in enumerate(grads):
            for p, g in zip(params, some):
                p.grad = g
            way.put(v)
        way._add_up(len(way._held) - 1)

    return work


def fold_rows(table, name, shapes, args):
    """One line for each V."""
    params = [torch.nn.Parameter(torch.zeros(s, device=args.device)) for s in shapes]
    nbytes = sum(4 * p.numel() for p in params)
    a = torch.zeros(nbytes // 4, device=args.device)
    b = torch.zeros_like(a)
    for nthreads in (2, 4, 8):
        grads = [[torch.randn_like(p) * 1e-3 for p in params] for _ in range(nthreads)]
        work = sum_of(params, grads)
        pairs = []
        for turn in range(ROUNDS + 2):
            copy_s = seconds(lambda: a.copy_(b), args.device)
            fold_s = seconds(work, args.device)
            if turn >= 2:
                pairs.append((copy_s, fold_s))
            if time.time() > args.deadline:
                break
        if not pairs:
            return
        copy = 2 * nbytes / statistics.median(c for c, _ in pairs) / 1e9
        fold = 3 * nbytes * (nthreads - 1) / statistics.median(f for _, f in pairs)
        fold /= 1e9
        table.row(name, nthreads, nbytes, copy, fold, fold / copy)


def profile(table, args):
    """Copies between host and device in three steps."""
    from torch.profiler import ProfilerActivity, profile as watch
    model, _ = build("resnet50", args.tiny, args.device)
    data = RandomData("resnet50", 4 * 4 * 6, args.device, args.tiny)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    kinds = [ProfilerActivity.CPU]
    if args.device.startswith("cuda"):
        kinds.append(ProfilerActivity.CUDA)
    job = Elastic(model, optimizer, data, threads=4, batch_size=4, epochs=1,
                  collate=trainkit.whole, one_backward=True, report_every=1000)
    turns = iter(job)

    def steps(n):
        for _ in range(4 * n):
            x, y = next(turns)
            job.backward(loss_of(model(x), y))

    steps(2)
    with watch(activities=kinds) as seen:
        steps(3)
    copies = {"HtoD": 0, "DtoH": 0, "DtoD": 0}
    for event in seen.events():
        for kind in copies:
            if "memcpy" in event.name.lower() and kind.lower() in event.name.lower():
                copies[kind] += 1
    for kind, n in copies.items():
        table.row("resnet50", 4, kind, n / 3)
    job.close()


def main():
    args = trainkit.arguments(__doc__.splitlines()[0], 120)
    trainkit.deterministic()
    table = trainkit.Table(
        os.path.join(args.out, "fold.csv"),
        ["gradient", "threads", "bytes", "copy_gb_s", "fold_gb_s", "ratio"], args,
        "sums by the tree, beside copies on the device, medians in turns")
    model, _ = build("resnet50", args.tiny, args.device)
    shapes = [tuple(p.shape) for p in model.parameters()]
    n = sum(p.numel() for p in model.parameters())
    del model
    fold_rows(table, "flat", [(n,)], args)
    fold_rows(table, "resnet50", shapes, args)
    table = trainkit.Table(
        os.path.join(args.out, "profile.csv"),
        ["model", "threads", "copy", "a_step"], args,
        "copies that the profiler saw in three steps of one process")
    profile(table, args)


if __name__ == "__main__":
    main()
