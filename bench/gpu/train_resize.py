"""train_resize.py - the pause of a resize without a stop, beside that of a restart.

For each model, one process grows to two on the same device and shrinks back to
one, in turns: by processes that join and leave while it trains (docs/resize.md),
and by a checkpoint, an exit and a start. The pause is the longest time between
the ends of two steps around the change, less that of a usual step after it; so a
slow first step counts. Writes resize.csv: a line for each change.

    python3 train_resize.py --out DIR                   # GPU, about 10 minutes
    python3 train_resize.py --out DIR --rounds 3 --restarts 0       # joins only
    python3 train_resize.py --out DIR --rounds 2 --restarts 0 --send
    python3 train_resize.py --device cpu --out DIR --models resnet18-32,gpt-small
"""
import csv
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import trainkit
import torch
from models import MODELS, RandomData, Basic, build, loss_of, resnet, transformer

from firn.join import Board
from firn.torch import Elastic, peers, preparing

V = 2
# For a CPU: pictures of 32 x 32, and a small decoder.
SMALL = {
    "resnet18-32": (lambda: resnet(Basic, (2, 2, 2, 2), 10, small=True), 4,
                    lambda g: (torch.randn(64, 3, 32, 32, generator=g),
                               torch.randint(0, 10, (64,), generator=g))),
    "gpt-small": (lambda: transformer(1000, 64, 256, 6, True), 2,
                  lambda g: (torch.randint(0, 1000, (64, 64), generator=g),) * 2),
}


class Held:
    """A few samples, taken over and over."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return 1 << 20

    def __getitems__(self, indices):
        at = torch.as_tensor(indices, device=self.x.device) % len(self.x)
        return self.x[at], self.y[at]


def make(name, device):
    """Model, data and batch."""
    if name in SMALL:
        torch.manual_seed(1)
        maker, batch, draw = SMALL[name]
        x, y = draw(torch.Generator().manual_seed(7))
        return maker().train(), Held(x, y), batch
    model, batch = build(name, False, device)
    batch = max(1, batch // 4)
    data = RandomData(name, 64, device, False)
    return model, Held(data.x, data.y), batch


def refuse(*_):
    """As where processes may not read each other's memory."""
    raise peers.OfferError("--send")


def worker(name, device, log, sends):
    """A process of the job: trains until it is told to stop, a line a step."""
    if sends:
        preparing.Offer = refuse
    if device == "cuda":
        torch.cuda.set_device(0)
    torch.set_num_threads(1 if device == "cpu" else torch.get_num_threads())
    model, data, batch = make(name, device)
    if name.startswith("resnet"):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    out = open(log, "a", buffering=1)

    def note(elastic):
        if device == "cuda":
            torch.cuda.synchronize()
        if elastic.place.rank == 0:
            print(elastic.step, time.monotonic(), elastic.place.nprocs, file=out)
            if elastic.switch_parts:
                parts, elastic.switch_parts = elastic.switch_parts, {}
                print("  switch:", *(f"{part} {s:.3f}" for part, s in parts.items()),
                      flush=True)

    def warm_up(_):
        loss_of(model(data.x[:batch]), data.y[:batch]).backward()
        if device == "cuda":
            torch.cuda.synchronize()

    elastic = Elastic(model, optimizer, data, threads=V, batch_size=batch,
                      epochs=1 << 20, collate=trainkit.whole, on_step=note,
                      through="memory", compare_every=0, warm_up=warm_up)
    for x, y in elastic:
        elastic.backward(loss_of(model(x), y))
    elastic.close()


class Job:
    """The job's processes and their supervisor."""

    def __init__(self, name, device, folder, sends):
        self.name, self.device, self.folder = name, device, folder
        self.sends = sends
        self.log = os.path.join(folder, "steps")
        self.board, self.attempt, self.children = None, 0, []

    def spawn(self, rank, nprocs, order=0):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(nprocs),
                   FIRN_JOB=f"resize-{os.getpid()}", FIRN_DIR=self.folder,
                   FIRN_ATTEMPT=str(self.attempt), **self.board.environment)
        env.pop("FIRN_URL", None)
        if order:
            env["FIRN_JOIN_ORDER"] = str(order)
        return subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker",
             json.dumps([self.name, self.device, self.log, self.sends])],
            env=env, pass_fds=[self.board.fd])

    def start(self, nprocs):
        """An attempt."""
        if self.board is not None:
            self.board.close()
        self.board, self.attempt = Board(), self.attempt + 1
        self.children = [self.spawn(r, nprocs) for r in range(nprocs)]

    def steps(self):
        """(step, when, processes) of all steps so far."""
        try:
            with open(self.log) as lines:
                return [(int(a), float(b), int(c)) for a, b, c in
                        (line.split() for line in lines if line.endswith("\n"))]
        except FileNotFoundError:
            return []

    def check(self):
        for child in self.children:
            if child.poll() not in (None, 0):
                raise SystemExit(f"a process ended with {child.poll()}")

    def train(self, more):
        """Until this number of further steps is made."""
        until = len(self.steps()) + more
        while len(self.steps()) < until:
            self.check()
            time.sleep(0.02)

    def resize(self, come_from):
        """Without a stop; seconds until the joiners were ready."""
        order = self.board.order(len(self.children), come_from, limit_s=120)
        since = time.monotonic()
        came = {r: self.spawn(r, len(come_from), order)
                for r, old in enumerate(come_from) if old < 0}
        while self.board.state not in ("done", "failed"):
            if any(c.poll() is not None for c in came.values()):
                self.board.give_up(order)
            self.check()
            time.sleep(0.005)
        told, old = self.board.told(), self.children
        if self.board.state == "failed":
            raise SystemExit(f"not resized: {told.why.decode()}")
        took = time.monotonic() - since
        self.children = [came[r] if f < 0 else old[f]
                         for r, f in enumerate(come_from)]
        for i, child in enumerate(old):
            if i not in come_from and child.wait(60) != 0:
                raise SystemExit("a process that left did not end with 0")
        self.board.clear(order)
        return took, told.pause_s

    def restart(self, nprocs):
        """By a checkpoint and a start."""
        since = time.monotonic()
        for child in self.children:
            child.send_signal(signal.SIGUSR1)
        for child in self.children:
            if child.wait(300) != 83:
                raise SystemExit("a process did not stop as asked")
        self.start(nprocs)
        return time.monotonic() - since, 0.0

    def end(self):
        for child in self.children:
            child.kill()
            child.wait()


def measure(job, how, nprocs, settle):
    """One change: (pause, usual step, ready or stopped after, said by the job)."""
    job.train(settle)
    before = len(job.steps())
    if how == "join":
        took, said = job.resize([0, -1] if nprocs == 2 else [0])
    else:
        took, said = job.restart(nprocs)
    while not any(n == nprocs for _, _, n in job.steps()[before:]):
        job.check()
        time.sleep(0.02)
    job.train(settle)
    steps = job.steps()
    first = next(i for i in range(before, len(steps)) if steps[i][2] == nprocs)
    gaps = [b[1] - a[1] for a, b in zip(steps, steps[1:])]
    usual = statistics.median(gaps[first + 1:])
    around = gaps[max(0, first - 2):first + 2]
    return max(0.0, max(around) - usual), usual, took, said


def main():
    parser = trainkit.argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", default="resnet50,bert-base,gpt2-small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--settle", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--send", action="store_true",
                        help="send state through host memory, not read it")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    ends = time.monotonic() + args.seconds
    rows = []
    for name in args.models.split(","):
        if name not in MODELS and name not in SMALL:
            raise SystemExit(f"no model '{name}'")
        with tempfile.TemporaryDirectory() as folder:
            job = Job(name, args.device, folder, args.send)
            job.start(1)
            try:
                for turn in range(args.rounds):
                    for how in ("join", "restart"):
                        if how == "restart" and turn >= args.restarts:
                            continue
                        for nprocs in (2, 1):
                            if time.monotonic() > ends:
                                continue
                            found = measure(job, how, nprocs, args.settle)
                            rows.append([name, how, 3 - nprocs, nprocs,
                                         *(f"{x:.4f}" for x in found)])
                            print(*rows[-1], flush=True)
            finally:
                job.end()
    with open(os.path.join(args.out, "resize.csv"), "w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["model", "how", "from", "to", "pause_s", "step_s",
                        "ready_s", "said_pause_s"])
        table.writerows(rows)
    for name in args.models.split(","):
        for how in ("join", "restart"):
            pauses = [float(r[4]) for r in rows if r[0] == name and r[1] == how]
            if pauses:
                print(f"{name:12} {how:8} pause: median "
                      f"{statistics.median(pauses):.3f} s, longest "
                      f"{max(pauses):.3f} s of {len(pauses)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*json.loads(sys.argv[2]))
    else:
        main()
