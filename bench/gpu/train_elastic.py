"""train_elastic.py - are elastic runs the same bits, and what do they cost?

Writes two tables:

elastic_equal.csv     for each model, V = 4 threads on this device: the same run
                      twice (D0); stopped, resumed by another process (D1); on
                      two processes that share the device (D1); gradients
                      folded on the host; and twins that must differ: threads'
                      random states or buffers not swapped, sums by process.
elastic_overhead.csv  milliseconds per step of a plain loop that accumulates V
                      micro-batches, and of the elastic loop with the same
                      micro-batches, in turns; and the time of the switch itself.

    python3 train_elastic.py --out DIR            # GPU, about 8 minutes
    python3 train_elastic.py --device cpu --tiny --out DIR --seconds 60
"""
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import trainkit
import torch
from models import MODELS, RandomData, build, loss_of

from firn.torch import Elastic

V, STEPS = 4, 6


def digest(tensors):
    hashed = hashlib.sha256()
    for t in tensors:
        hashed.update(t.detach().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9,
                           weight_decay=1e-4)


def run_once(name, args, stop_at=0, folder=None, **options):
    """Hashes of weights, buffers of all threads here, and the optimiser."""
    model, batch = build(name, args.tiny, args.device)
    batch = min(batch, 8)
    data = RandomData(name, V * batch * STEPS, args.device, args.tiny)
    optimizer = optimizer_of(model)
    elastic = Elastic(model, optimizer, data, threads=V, batch_size=batch,
                      epochs=1, seed=3, collate=trainkit.whole, folder=folder,
                      on_stop="return", **options)
    for x, y in elastic:
        if stop_at and elastic.step == stop_at:
            os.kill(os.getpid(), signal.SIGUSR1)
        elastic.backward(loss_of(model(x), y))
    found = {"weights": digest(model.parameters()),
             "optimizer": digest(s["momentum_buffer"] for s in
                                 optimizer.state.values()),
             "steps": elastic.step}
    for v in elastic.mine:
        found[f"buffers {v}"] = digest(elastic.buffers.of(v).values())
    elastic.close()
    return found


def worker(spec):
    """One process of the equality runs: all models, printed as JSON lines."""
    args = trainkit.argparse.Namespace(**spec["args"])
    trainkit.deterministic()
    for name in spec["models"]:
        os.environ["FIRN_JOB"] = f"{name}-{spec['tag']}"
        for label, stop_at, folder, options in spec["runs"]:
            at = os.path.join(folder, name) if folder else None
            if at:
                os.environ["FIRN_JOB"] = name
            found = run_once(name, args, stop_at, at, **options)
            print(json.dumps([name, label, found]), flush=True)


def start(spec, **env):
    command = [sys.executable, os.path.abspath(__file__), "--worker",
               json.dumps(spec)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, **env))


def collect(processes, seen):
    """Adds what the processes print; buffers of several are put together."""
    for process in processes:
        out, _ = process.communicate()
        if process.returncode != 0:
            print("a worker failed with", process.returncode, flush=True)
        for line in out.splitlines():
            if line.startswith("["):
                name, label, found = json.loads(line)
                seen.setdefault((name, label), {}).update(found)


def chosen(args):
    """The models asked for: all, or those of --models a,b."""
    return [m for m in MODELS if not args.models or m in args.models.split(",")]


def equality(args):
    models = chosen(args)
    plain = {"args": {"tiny": args.tiny, "device": args.device},
             "models": models}
    folder = tempfile.mkdtemp(prefix="elastic")
    seen = {}
    first = [("one process", 0, None, {}), ("again", 0, None, {}),
             ("stopped", STEPS // 2, folder, {}),
             ("offload", 0, None, {"offload": True}),
             ("no random states", 0, None, {"ablate": ["rng"]}),
             ("no buffers swapped", 0, None, {"ablate": ["buffers"]})]
    collect([start(dict(plain, tag="one", runs=first))], seen)
    second = [("resumed", 0, folder, {})]
    collect([start(dict(plain, tag="two", runs=second))], seen)
    pair = [("two processes", 0, None, {}),
            ("scrambled", 0, None, {"layout": [1, 0, 0, 1]}),
            ("sums by process", 0, None,
             {"layout": [1, 0, 0, 1], "ablate": ["sum"]})]
    collect([start(dict(plain, tag="pair", runs=pair), RANK=str(r),
                   WORLD_SIZE="2") for r in range(2)], seen)
    shutil.rmtree(folder, ignore_errors=True)
    table = trainkit.Table(
        os.path.join(args.out, "elastic_equal.csv"),
        ["model", "run", "weights", "optimizer", "buffers", "expected"], args,
        f"each run against 'one process', V = {V}, {STEPS} steps")
    for name in models:
        base = seen.get((name, "one process"), {})
        for label, expected in [("again", "equal"), ("resumed", "equal"),
                                ("two processes", "equal"),
                                ("scrambled", "equal"), ("offload", "equal"),
                                twin(name),
                                ("sums by process", "differs")]:
            table.row(name, label, *compare(base, seen.get((name, label))),
                      expected)
    table.close()


def twin(name):
    """Words have dropout and no buffers, pictures the reverse."""
    text = name in ("bert-base", "gpt2-small")
    return "no random states" if text else "no buffers swapped", "differs"


def compare(base, other):
    if not base or not other:
        return ["missing"] * 3
    kinds = {"weights": ["weights"], "optimizer": ["optimizer"],
             "buffers": [k for k in base if k.startswith("buffers")]}
    return ["equal" if all(base[k] == other.get(k) for k in keys) else
            "differs" for keys in kinds.values()]


class Plain:
    """The loop without threads: V micro-batches, their gradients added."""

    def __init__(self, name, args, nthreads, batch):
        self.model, _ = build(name, args.tiny, args.device)
        self.optimizer = optimizer_of(self.model)
        self.data = RandomData(name, nthreads * batch, args.device, args.tiny)
        self.nthreads, self.batch, self.at = nthreads, batch, 0

    def steps(self, n):
        for _ in range(n):
            self.optimizer.zero_grad(set_to_none=True)
            for _ in range(self.nthreads):
                end = self.at + self.batch
                x, y = self.data.__getitems__(list(range(self.at, end)))
                self.at = end % len(self.data)
                loss = loss_of(self.model(x), y) / self.nthreads
                loss.backward()
            self.optimizer.step()


class Threaded:
    """The elastic loop, to be driven some steps at a time."""

    def __init__(self, name, args, nthreads, batch):
        model, _ = build(name, args.tiny, args.device)
        data = RandomData(name, nthreads * batch, args.device, args.tiny, 64)
        self.model, self.nthreads = model, nthreads
        self.elastic = Elastic(model, optimizer_of(model), data,
                               threads=nthreads, batch_size=batch,
                               epochs=1000000, shuffle=False,
                               collate=trainkit.whole, report_every=1000000)
        self.turns = iter(self.elastic)
        self.batch = next(self.turns)

    def steps(self, n):
        """From the start of a step to the start of another."""
        for _ in range(n * self.nthreads):
            x, y = self.batch
            self.elastic.backward(loss_of(self.model(x), y))
            self.batch = next(self.turns)


def timed(loop, n, device):
    trainkit.wait(device)
    since = time.perf_counter()
    loop.steps(n)
    trainkit.wait(device)
    return (time.perf_counter() - since) / n * 1e3


def overhead(args):
    table = trainkit.Table(
        os.path.join(args.out, "elastic_overhead.csv"),
        ["model", "threads", "batch", "plain_ms", "elastic_ms", "overhead_pct",
         "switch_us", "switch_pct", "plain_peak_mib", "elastic_peak_mib"], args,
        "medians of rounds in which both loops take turns; switch: host time "
        "of putting a thread in place")
    for name in chosen(args):
        for nthreads in (1, 4, 8):
            if time.time() > args.deadline:
                print("out of time before", name, nthreads, flush=True)
                table.close()
                return
            table.row(name, nthreads, *measure(name, nthreads, args))
    table.close()


def measure(name, nthreads, args):
    batch = 4 if args.tiny else MODELS[name][2]
    peaks, loops = [], []
    for kind in (Plain, Threaded):
        before = memory(args.device, reset=True)
        loop = kind(name, args, nthreads, batch)
        loop.steps(3)
        trainkit.wait(args.device)
        peaks.append(memory(args.device) - before)
        loops.append(loop)
    n = max(2, int(400 / max(1.0, timed(loops[0], 2, args.device))))
    if args.tiny:
        n = 2
    elastic = loops[1].elastic
    elastic._reset_times()
    switches = elastic.nswitches
    times = [[], []]
    for i in range(3 if args.tiny else args.rounds):
        for which in ((0, 1), (1, 0))[i % 2]:
            times[which].append(timed(loops[which], n, args.device))
    plain, threaded = (statistics.median(t) for t in times)
    count = max(1, elastic.nswitches - switches)
    switch_us = elastic.seconds["switch"] / count * 1e6
    elastic.close()
    return [batch, plain, threaded, 100 * (threaded / plain - 1), switch_us,
            switch_us * nthreads / 10 / plain, *peaks]


def memory(device, reset=False):
    """Peak MiB allocated on the device, or now when it is reset."""
    if not device.startswith("cuda"):
        return 0.0
    if reset:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    return torch.cuda.max_memory_allocated() / 2**20


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        worker(json.loads(sys.argv[2]))
        return
    args = trainkit.arguments(__doc__.split("\n")[0], 480, only="both",
                              models="", rounds=9)
    if args.device == "cpu":
        torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    if args.only in ("both", "equal"):
        equality(args)
    if args.only in ("both", "overhead"):
        overhead(args)


if __name__ == "__main__":
    main()
