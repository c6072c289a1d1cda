"""freeze.py - step time, memory and utilisation by batch and frozen layers.

Writes $OUT/freeze.csv (or the folder given). Times are CUDA-event timings
after warm-up, fp32 with PyTorch's defaults, SGD with momentum. The shares of
one batch are visited in turn, up to ROUNDS times or for SECONDS_EACH seconds;
a row has the median of its visits, $OUT/visits.csv has each of them (a visit
is the median of STEPS steps). Utilisation is the mean of NVML's figure over
1.5 s of steps, on some rows; UTIL=0 leaves it out.
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
STEPS, ROUNDS = 11, 9  # timed in one visit; visits of a share


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


def measure(job, k, first):
    """One visit: (fwd, bwd, opt, iter) in ms, and MiB on the first one."""
    job.freeze(k)
    for _ in range(4 if first else 2):
        job.step()
    torch.cuda.synchronize()
    if not first:
        return timed(job, STEPS), None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    times = timed(job, STEPS)
    return times, (round(torch.cuda.max_memory_allocated() / 2**20),
                   round(torch.cuda.max_memory_reserved() / 2**20))


def visit(job, counts, seconds):
    """All shares in turn, again and again: times by count, memory by count.

    What drifts on the host or the card then falls on all shares alike, and
    their ratios stay.
    """
    times, memory = {k: [] for k in counts}, {}
    end = time.time() + seconds
    for turn in range(ROUNDS):
        for k in counts:
            t, mib = measure(job, k, turn == 0)
            times[k].append(t)
            memory[k] = mib or memory[k]
        if time.time() > end:
            break
    return times, memory


def write_job(table, visits, job, seconds, with_util):
    flops, params = job.flops_by_layer(), job.params_by_layer()
    n = len(job.layers)
    counts = [round(share * n) for share in SHARES]
    times, memory = visit(job, counts, seconds)
    for share, k in zip(SHARES, counts):
        for turn, t in enumerate(times[k]):
            visits.writerow([job.name, job.batch, n, k, turn] +
                            [round(x, 4) for x in t])
        util = ""
        if with_util and share in UTIL_SHARES:
            job.freeze(k)
            util = utilisation(job, 1.5)
        table.writerow([job.name, job.batch, n, k,
                        round(sum(flops[k:]) / sum(flops), 6),
                        round(sum(params[k:]) / sum(params), 6),
                        sum(params)] +
                       [round(statistics.median(c), 4)
                        for c in zip(*times[k])] + [*memory[k], util])


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.environ["OUT"]
    deadline = time.time() + float(os.environ.get("SECONDS_MAX", "500"))
    seconds = float(os.environ.get("SECONDS_EACH", "20"))
    with_util = os.environ.get("UTIL", "1") == "1"
    with open(os.path.join(out, "freeze.csv"), "w", newline="") as f, \
            open(os.path.join(out, "visits.csv"), "w", newline="") as g:
        table = csv.writer(f, lineterminator="\n")
        visits = csv.writer(g, lineterminator="\n")
        table.writerow("model,batch,layers,frozen,flops_unfrozen_ratio,"
                       "params_unfrozen_ratio,params,fwd_ms,bwd_ms,opt_ms,"
                       "iter_ms,peak_alloc_mib,peak_reserved_mib,"
                       "gpu_util_pct".split(","))
        visits.writerow("model,batch,layers,frozen,visit,fwd_ms,bwd_ms,"
                        "opt_ms,iter_ms".split(","))
        for name, batches in MODELS:
            for batch in batches:
                if time.time() > deadline:
                    print("out of time before", name, batch, flush=True)
                    return
                job = Job(name, batch)
                write_job(table, visits, job, seconds, with_util)
                f.flush()
                g.flush()
                print(name, batch, "done", flush=True)
                del job
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
