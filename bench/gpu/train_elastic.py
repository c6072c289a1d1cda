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
import concurrent.futures
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
    """One worker; its errors go to a file, so that no pipe can fill up."""
    command = [sys.executable, os.path.abspath(__file__), "--worker",
               json.dumps(spec)]
    errors = tempfile.TemporaryFile(mode="w+")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors,
                               text=True, env=dict(os.environ, **env,
                                                   PYTHONFAULTHANDLER="1"))
    process.errors = errors
    return process


def end_with_traceback(process):
    """Ends a worker that takes too long; Python then says where it was."""
    process.send_signal(signal.SIGABRT)
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def collect(processes, seen, limit_s):
    """Adds what the processes print; buffers of several are put together.
    Returns what a failed worker wrote, one text for each of them."""
    until, failures = time.time() + limit_s, []
    for process in processes:
        try:
            out, _ = process.communicate(timeout=max(1.0, until - time.time()))
        except subprocess.TimeoutExpired:
            out = end_with_traceback(process)
        for line in out.splitlines():
            if line.startswith("["):
                name, label, found = json.loads(line)
                seen.setdefault((name, label), {}).update(found)
        if process.returncode != 0:
            process.errors.seek(0)
            failures.append(f"a worker ended with {process.returncode}:\n"
                            + process.errors.read()[-4000:])
        process.errors.close()
    return failures


def chosen(args):
    """The models asked for: all, or those of --models a,b."""
    return [m for m in MODELS if not args.models or m in args.models.split(",")]


def runs_of(folder):
    """The runs of the first process, of the one that resumes, of a pair."""
    first = [("one process", 0, None, {}), ("again", 0, None, {}),
             ("stopped", STEPS // 2, folder, {}),
             ("offload", 0, None, {"offload": True}),
             ("no random states", 0, None, {"ablate": ["rng"]}),
             ("no buffers swapped", 0, None, {"ablate": ["buffers"]})]
    second = [("resumed", 0, folder, {})]
    pair = [("two processes", 0, None, {}),
            ("scrambled", 0, None, {"layout": [1, 0, 0, 1]}),
            ("sums by process", 0, None,
             {"layout": [1, 0, 0, 1], "ablate": ["sum"]})]
    return first, second, pair


def runs_of_model(name, args, seen):
    """All runs of one model; what failed workers wrote."""
    plain = {"args": {"tiny": args.tiny, "device": args.device},
             "models": [name]}
    folder = tempfile.mkdtemp(prefix="elastic")
    first, second, pair = runs_of(folder)
    limit, tag = args.limit, f"-{name}-{os.getpid()}"
    pair_env = {"WORLD_SIZE": "2", "FIRN_PEER_TIMEOUT_S": "60"}
    failed = collect([start(dict(plain, tag="one" + tag, runs=first))], seen, limit)
    failed += collect([start(dict(plain, tag="two" + tag, runs=second))], seen, limit)
    failed += collect([start(dict(plain, tag="pair" + tag, runs=pair),
                             RANK=str(r), **pair_env) for r in range(2)],
                      seen, limit)
    shutil.rmtree(folder, ignore_errors=True)
    return failed


def equality(args):
    """The table, and the reasons why it is not as expected."""
    models, seen = chosen(args), {}
    at_once = len(models) if args.device.startswith("cuda") else 1
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(runs_of_model, m, args, seen) for m in models]
        failures = [text for each in waiting for text in each.result()]
    table = trainkit.Table(
        os.path.join(args.out, "elastic_equal.csv"),
        ["model", "run", "weights", "optimizer", "buffers", "expected"], args,
        f"each run against 'one process', V = {V}, {STEPS} steps")
    for name in models:
        base = seen.get((name, "one process"))
        for label, expected in [("again", "equal"), ("resumed", "equal"),
                                ("two processes", "equal"),
                                ("scrambled", "equal"), ("offload", "equal"),
                                twin(name),
                                ("sums by process", "differs")]:
            found = compare(base, seen.get((name, label)))
            table.row(name, label, *found, expected)
            if not is_as_expected(found, expected):
                failures.append(f"{name}, {label}: {', '.join(found)}; "
                                f"expected: {expected}")
    table.close()
    return failures


def twin(name):
    """Words have dropout and no buffers, pictures the reverse."""
    text = name in ("bert-base", "gpt2-small")
    return "no random states" if text else "no buffers swapped", "differs"


def compare(base, other):
    """By kind of state: equal, differs, or failed where a run has no result."""
    kinds = {"weights": ["weights"], "optimizer": ["optimizer"],
             "buffers": [f"buffers {v}" for v in range(V)]}
    found = []
    for keys in kinds.values():
        pairs = [((base or {}).get(k), (other or {}).get(k)) for k in keys]
        if any(a is None or b is None for a, b in pairs):
            found.append("failed")
        else:
            found.append("equal" if all(a == b for a, b in pairs) else "differs")
    return found


def is_as_expected(found, expected):
    """All kinds equal; or one of them differs and no run failed."""
    if expected == "equal":
        return found == ["equal"] * 3
    return "failed" not in found and "differs" in found


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
    for nthreads in (4, 8, 1):
        for name in chosen(args):
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
                              models="", rounds=9, limit=120.0)
    if args.device == "cpu":
        torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    failures = []
    if args.only in ("both", "equal"):
        failures = equality(args)
    if args.only in ("both", "overhead"):
        overhead(args)
    if failures:
        raise SystemExit("\n".join(["train_elastic.py failed"] + failures))


if __name__ == "__main__":
    main()
