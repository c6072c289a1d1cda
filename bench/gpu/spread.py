"""spread.py - how much the same step differs between runs, and what a process
takes on the GPU besides its tensors.

Writes $OUT/spread.csv (or the folder given): each row measured in several
fresh processes, one after the other. Two runs of one row differ by what no
model of it can know, so this is the floor under every fit of freeze.csv.
$OUT/context.csv has, per process, the memory in use on the GPU minus what
PyTorch's allocator holds: the CUDA context, loaded kernels and library
workspaces. The GPU must be otherwise idle.
"""
import csv
import os
import subprocess
import sys

import torch
from freeze import timed
from jobs import Job

ROWS = [("resnet18-c", 64), ("mobilenetv2-c", 64), ("resnet50-c", 64),
        ("googlenet-c", 64), ("densenet121-i", 16), ("bert-base", 8),
        ("gpt-small", 4), ("resnet50-i", 64), ("gpt-small", 32)]
SHARES = (0.0, 0.3, 0.6, 0.9)
RUNS = 4


def context_mib():
    free, total = torch.cuda.mem_get_info()
    return (total - free - torch.cuda.memory_reserved()) / 2**20


def one(run, name, batch):
    job = Job(name, batch)
    job.step()
    torch.cuda.synchronize()
    layers = len(job.layers)
    for share in SHARES:
        k = round(share * layers)
        job.freeze(k)
        for _ in range(4):
            job.step()
        t = timed(job, 15)
        print("row", run, name, batch, layers, k, *[round(x, 4) for x in t],
              flush=True)
    print("context", run, name, batch, round(context_mib(), 1), flush=True)


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "one":
        one(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
        return
    out = sys.argv[1] if len(sys.argv) > 1 else os.environ["OUT"]
    with open(os.path.join(out, "spread.csv"), "w", newline="") as f, \
            open(os.path.join(out, "context.csv"), "w", newline="") as g:
        rows = csv.writer(f, lineterminator="\n")
        contexts = csv.writer(g, lineterminator="\n")
        rows.writerow("run,model,batch,layers,frozen,fwd_ms,bwd_ms,opt_ms,"
                      "iter_ms".split(","))
        contexts.writerow("run,model,batch,context_mib".split(","))
        for run in range(RUNS):
            for name, batch in ROWS:
                text = subprocess.run(
                    [sys.executable, __file__, "one", str(run), name,
                     str(batch)], capture_output=True, text=True, check=True)
                for line in text.stdout.splitlines():
                    kind, *rest = line.split()
                    if kind in ("row", "context"):
                        (rows if kind == "row" else contexts).writerow(rest)
            print("run", run, "done", flush=True)


if __name__ == "__main__":
    main()
