"""pairs.py - two training processes on one GPU: how much does each slow down?

Writes $OUT/pairs.csv with a `mode` column: `timeslice` (the default) or `mps`
(NVIDIA's Multi-Process Service, started here and stopped at the end). Each
process first runs alone, then both run for the same seconds, and iterations
are counted in the middle of this time. xi = alone / together, >= 1 but for
noise. With nothing frozen, and
with the first half of the layers of both.
"""
import csv
import itertools
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = [("resnet18-c", 128), ("vgg19-c", 128), ("mobilenetv2-c", 128),
        ("resnet50-i", 32), ("bert-base", 16), ("gpt-small", 8)]
FROZEN = [(0.0, 0.0), (0.5, 0.5)]


def worker():
    """Reads JSON commands, one a line: build a job, run it for a while."""
    import torch
    from jobs import Job
    job = None
    for line in sys.stdin:
        c = json.loads(line)
        if c["do"] == "build":
            job = None
            torch.cuda.empty_cache()
            job = Job(c["model"], c["batch"], c["frozen"])
            for _ in range(5):
                job.step()
            torch.cuda.synchronize()
            print("{}", flush=True)
        else:
            time.sleep(max(0.0, c["begin"] - time.time()))
            n, first, last = 0, None, None
            while time.time() < c["end"]:
                job.step()
                torch.cuda.synchronize()
                now = time.time()
                if now > c["begin"] + 0.4 and now < c["end"] - 0.2:
                    first = first or now
                    last, n = now, n + 1
            rate = (n - 1) / (last - first) if n > 2 else 0.0
            print(json.dumps({"rate": rate}), flush=True)


class Worker:
    def __init__(self):
        self.p = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "pairs.py"), "worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=HERE)

    def send(self, **c):
        self.p.stdin.write(json.dumps(c) + "\n")
        self.p.stdin.flush()

    def get(self):
        return json.loads(self.p.stdout.readline())


def run(workers, seconds):
    begin = time.time() + 0.05
    for w in workers:
        w.send(do="run", begin=begin, end=begin + seconds)
    return [w.get()["rate"] for w in workers]


def campaign(mode, out, deadline):
    ws = [Worker(), Worker()]
    for (a, b), frozen in itertools.product(
            itertools.combinations_with_replacement(JOBS, 2), FROZEN):
        if time.time() > deadline:
            print("out of time in", mode, flush=True)
            break
        for w, (name, batch), share in zip(ws, (a, b), frozen):
            w.send(do="build", model=name, batch=batch, frozen=share)
        for w in ws:
            w.get()
        alone = [run([w], 1.2)[0] for w in ws]
        both = run(ws, 2.0)
        xi = [x / y if y else float("nan") for x, y in zip(alone, both)]
        out.writerow([mode, a[0], a[1], frozen[0], b[0], b[1], frozen[1]] +
                     [round(x, 3) for x in alone + both] +
                     [round(x, 4) for x in xi])
    for w in ws:
        w.p.stdin.close()
        w.p.wait(timeout=30)


def mps(start):
    if start:
        return subprocess.run(["nvidia-cuda-mps-control", "-d"]).returncode == 0
    subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True)
    return True


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.environ["OUT"]
    seconds = float(os.environ.get("SECONDS_MAX", "500"))
    begin = time.time()
    with open(os.path.join(out, "pairs.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow("mode,a,batch_a,frozen_a,b,batch_b,frozen_b,a_alone_it_s,"
                   "b_alone_it_s,a_shared_it_s,b_shared_it_s,xi_a,xi_b"
                   .split(","))
        campaign("timeslice", w, begin + seconds / 2)
        f.flush()
        if mps(True):
            try:
                campaign("mps", w, begin + seconds)
            finally:
                mps(False)
        else:
            print("MPS could not be started: no mps rows", flush=True)


if len(sys.argv) > 1 and sys.argv[1] == "worker":
    worker()
else:
    main()
