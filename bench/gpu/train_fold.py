"""train_fold.py - do sums by the tree run at the speed of the device's memory,
and do gradients stay on the device?

Writes two tables:

fold.csv      for V = 2, 4, 8 gradients, as one flat vector and as the tensors of
              ResNet50, by our kernel and by torch._foreach_add_: gigabytes a
              second that the sum and its division move, beside a copy of a
              gradient on the device, in turns.

              moved_bytes  what the kernels read and write: by our kernel n + 2
                           gradients where a thread is merged with n sums, by
                           foreach 3 for each addition and 2 for the division
              fold_gb_s    moved_bytes over the device's time
              ratio        fold_gb_s over copy_gb_s (a copy reads one gradient
                           and writes one)
              saved        device time of foreach over that of the way of this
                           row, in the same table
              host_us      host time of a thread's call (all V, in the mean)

              The host's time is not in the device's: a kernel that waits keeps
              the device busy until all calls of a round are in the queue.
copies.csv    for a few steps of an elastic ResNet50 with V = 4 threads: copies
              between device and host that the profiler saw, by kind and step;
              first those of the loop's own batch and loss (row "plain").

    python3 train_fold.py --out DIR                    # GPU, about a minute
    python3 train_fold.py --device cpu --tiny --out DIR --seconds 60
"""
import os
import statistics
import time

import trainkit
import torch
from models import RandomData, build, loss_of

from firn import tree
from firn.torch import Elastic, folding, reduce

ROUNDS, REPEATS = 9, 5
CLOCK_HZ = 2e9  # of the kernel that waits, about


def busy(device, host_s):
    """Keeps the device busy for longer than the host needs."""
    torch.cuda._sleep(int(1.5 * host_s * CLOCK_HZ) + 1000000)


def seconds(work, device):
    """Of one call: the device's time, and the host's, which is not in it."""
    since = time.perf_counter()
    work()
    trainkit.wait(device)
    host_s = time.perf_counter() - since
    if not device.startswith("cuda"):
        return host_s, host_s
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    busy(device, host_s * REPEATS)
    begin.record()
    since = time.perf_counter()
    for _ in range(REPEATS):
        work()
    host_s = time.perf_counter() - since
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / REPEATS, host_s / REPEATS


def sum_of(params, grads):
    """The mean of V gradients by the tree, as one process makes it."""
    way = reduce.Running(reduce.Flat([params]), len(grads))

    def work():
        for v, some in enumerate(grads):
            for p, g in zip(params, some):
                p.grad = g
            way.put(v)
        way.mean()

    return work


def moved(nthreads, way):
    """Gradients that are read and written for the mean of V."""
    if way == "foreach":
        return 3 * (nthreads - 1) + 2
    total, held = 0, 0
    for v in range(nthreads):
        n = held if v == nthreads - 1 else tree.merges(v)
        total += n + 2 if n else 0
        held += 1 - n
    return total


def ways(device):
    """Our kernel where it works, and PyTorch's."""
    found = folding.way(torch.device(device))
    if found == "foreach" and device.startswith("cuda"):
        print("# no kernel:", folding.why_foreach(), flush=True)
    return [found] if found == "foreach" else ["foreach", found]


def fold_rows(table, name, shapes, args):
    """Lines for each V and way; the ways and a copy take turns."""
    params = [torch.nn.Parameter(torch.zeros(s, device=args.device)) for s in shapes]
    nbytes = sum(4 * p.numel() for p in params)
    a, b = (torch.randn(nbytes // 4, device=args.device) for _ in range(2))
    asked = os.environ.get("FIRN_FOLD")
    names = ways(args.device)
    for nthreads in (2, 4, 8):
        grads = [[torch.randn_like(p) * 1e-3 for p in params] for _ in range(nthreads)]
        work = sum_of(params, grads)
        times = {way: [] for way in ["copy", *names]}
        for turn in range(ROUNDS + 1):
            for way, found in times.items():
                os.environ["FIRN_FOLD"] = way
                each = seconds((lambda: a.copy_(b)) if way == "copy" else work,
                               args.device)
                if turn:
                    found.append(each)
            if time.time() > args.deadline:
                break
        os.environ.pop("FIRN_FOLD")
        if asked:
            os.environ["FIRN_FOLD"] = asked
        if not times["copy"]:
            return
        middle = {way: statistics.median(s for s, _ in found)
                  for way, found in times.items()}
        copy = 2 * nbytes / middle["copy"] / 1e9
        for way in names:
            fold = nbytes * moved(nthreads, way) / middle[way] / 1e9
            host = statistics.median(h for _, h in times[way]) / nthreads * 1e6
            table.row(name, nthreads, way, nbytes, nbytes * moved(nthreads, way),
                      copy, fold, fold / copy, middle["foreach"] / middle[way], host)


def copies_of(steps, args):
    """Copies in three steps, by kind and step."""
    from torch.profiler import ProfilerActivity, profile as watch
    kinds = [ProfilerActivity.CPU]
    if args.device.startswith("cuda"):
        kinds.append(ProfilerActivity.CUDA)
    steps(3)
    with watch(activities=kinds) as seen:
        steps(3)
        trainkit.wait(args.device)
    copies = {"HtoD": 0, "DtoH": 0, "DtoD": 0}
    for event in seen.events():
        for kind in copies:
            if "memcpy" in event.name.lower() and kind.lower() in event.name.lower():
                copies[kind] += 1
    return {kind: n / 3 for kind, n in copies.items()}


def profile(table, args):
    """Of a plain loop, then of the elastic one."""
    model, _ = build("resnet50", args.tiny, args.device)
    data = RandomData("resnet50", 4 * 4 * 9, args.device, args.tiny)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def plain(n):
        for step in range(n):
            optimizer.zero_grad(set_to_none=True)
            for v in range(4):
                x, y = data.__getitems__(list(range(4 * v, 4 * v + 4)))
                (loss_of(model(x), y) / 4).backward()
            optimizer.step()

    for kind, n in copies_of(plain, args).items():
        table.row("resnet50", "plain", 4, kind, n)
    for one_backward in (False, True):
        job = Elastic(model, optimizer, data, threads=4, batch_size=4, epochs=1,
                      collate=trainkit.whole, one_backward=one_backward,
                      report_every=1000)
        turns = iter(job)

        def steps(n):
            for _ in range(4 * n):
                x, y = next(turns)
                job.backward(loss_of(model(x), y))

        name = "elastic one_backward" if one_backward else "elastic"
        for kind, n in copies_of(steps, args).items():
            table.row("resnet50", name, 4, kind, n)
        job.close()


def main():
    args = trainkit.arguments(__doc__.splitlines()[0], 120)
    trainkit.deterministic()
    table = trainkit.Table(
        os.path.join(args.out, "fold.csv"),
        ["gradient", "threads", "way", "bytes", "moved_bytes", "copy_gb_s",
         "fold_gb_s", "ratio", "saved", "host_us"], args,
        "means by the tree, beside copies on the device, medians in turns")
    model, _ = build("resnet50", args.tiny, args.device)
    shapes = [tuple(p.shape) for p in model.parameters()]
    n = sum(p.numel() for p in model.parameters())
    del model
    fold_rows(table, "flat", [(n,)], args)
    fold_rows(table, "resnet50", shapes, args)
    table = trainkit.Table(
        os.path.join(args.out, "copies.csv"),
        ["model", "loop", "threads", "copy", "a_step"], args,
        "copies that the profiler saw in three steps of one process")
    profile(table, args)


if __name__ == "__main__":
    main()
