"""freeze.py - step time, memory and utilisation by batch and frozen layers.

Writes $OUT/freeze.csv (or the folder given). Times are medians of CUDA-event
timings after warm-up, fp32 with PyTorch's defaults, SGD with momentum.
Utilisation is the mean of NVML's figure over 1.5 s of steps, on some rows.
"""
import csv
import os
import statistics
import sys
import time

import torch
from jobs import Job

MODELS = [
    ("resnet18-c", (64, 128, 256, 512)), ("resnet50-c", (64, 128, 256)),
    ("vgg19-c", (64, 128, 256, 512)), ("mobilenetv2-c", (64, 128, 256, 512)),
    ("googlenet-c", (64, 128, 256)),
    ("resnet18-i", (32, 64, 128)), ("resnet50-i", (16, 32, 64, 128)),
    ("mobilenetv2-i", (32, 64, 128)), ("densenet121-i", (16, 32, 64)),
    ("bert-base", (8, 16, 32, 64)), ("gpt-small", (4, 8, 16, 32)),
]
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
UTIL_SHARES = (0.0, 0.3, 0.6, 0.9)


def timed(job, n):
    """Medians of (fwd, bwd, opt, iter) in ms."""
    rows = []
    for _ in range(n):
        e = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        job.optimizer.zero_grad(set_to_none=True)
        e[0].record()
        loss = job.loss()
        e[1].record()
        loss.backward()
        e[2].record()
        job.optimizer.step()
        e[3].record()
        torch.cuda.synchronize()
        rows.append([e[0].elapsed_time(e[1]), e[1].elapsed_time(e[2]),
                     e[2].elapsed_time(e[3]), e[0].elapsed_time(e[3])])
    return [statistics.median(c) for c in zip(*rows)]


def utilisation(job, seconds):
    seen, end, sample = [], time.time() + seconds, time.time() + 0.7
    while time.time() < end:
        job.step()
        torch.cuda.synchronize()
        if time.time() > sample:
            seen.append(torch.cuda.utilization())
            sample += 0.1
    return statistics.mean(seen) if seen else ""


def measure(job, k, with_util):
    job.freeze(k)
    for _ in range(4):
        job.step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    times = timed(job, 15)
    alloc = torch.cuda.max_memory_allocated() / 2**20
    reserved = torch.cuda.max_memory_reserved() / 2**20
    util = utilisation(job, 1.5) if with_util else ""
    return times, alloc, reserved, util


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.environ["OUT"]
    deadline = time.time() + float(os.environ.get("SECONDS_MAX", "500"))
    with open(os.path.join(out, "freeze.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow("model,batch,layers,frozen,flops_unfrozen_ratio,"
                   "params_unfrozen_ratio,params,fwd_ms,bwd_ms,opt_ms,"
                   "iter_ms,peak_alloc_mib,peak_reserved_mib,"
                   "gpu_util_pct".split(","))
        for name, batches in MODELS:
            for batch in batches:
                if time.time() > deadline:
                    print("out of time before", name, batch, flush=True)
                    return
                job = Job(name, batch)
                flops, params = job.flops_by_layer(), job.params_by_layer()
                n = len(job.layers)
                for share in SHARES:
                    k = round(share * n)
                    t, alloc, res, util = measure(
                        job, k, share in UTIL_SHARES)
                    w.writerow([name, batch, n, k,
                                round(sum(flops[k:]) / sum(flops), 6),
                                round(sum(params[k:]) / sum(params), 6),
                                sum(params)] + [round(x, 4) for x in t] +
                               [round(alloc), round(res), util])
                f.flush()
                print(name, batch, "done", flush=True)
                del job
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
