#!/usr/bin/env python3
"""starts.py - jobs whose starts are longer than their training, simulated.

    bench/starts.py --firn build/firn --seeds 101-130
    bench/starts.py --prepare 0 --start 20 --policies firn,sjf-bsbf,sjf-ffs

Draws queues of jobs like those that keep an H200 busy (`bench/foretold.py --torch`):
a start of --start seconds, about 5 s of training, 1.3 or 4.4 s behind the last step,
and two jobs on a GPU that do as much as one (--beside 1; 0.5: less of each other's
steps are added). Prints for each policy the mean completion time, when the last job
ends, and the mean and the largest ratio of the completion time to that of the last
policy named, over the queues. The essay of src/policy/firn_pair.c has these ratios.
Python's standard library only.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

APPS = {  # step in ms, least and most epochs of 16 steps, seconds behind the last
    "gpt": (50, 3, 9, 4.4),
    "resnet": (20, 8, 25, 1.3),
}


def write_queue(args, seed, path):
    draw = random.Random(seed)
    at_s = 0
    with open(path, "w", encoding="utf-8") as out:
        out.write("#firn-trace 1\nname,submit_s,gpus,duration_s,app,mem_gib,may_share,"
                  "restart_s\n")
        for i in range(args.jobs):
            app = draw.choice(sorted(APPS))
            step_ms, least, most, end_s = APPS[app]
            epochs = max(1, round(draw.uniform(least, most)))
            work_s = epochs * 16 * step_ms * 1e-3 + end_s
            out.write(f"j{i},{at_s},1,{work_s},{app},4,1,{args.start}\n")
            at_s += draw.expovariate(1) * args.gap


def simulate(args, path):
    pairs = ",".join(f"{a}+{b}={args.slices or 1 + args.beside * APPS[b][0] / APPS[a][0]}"
                     for a in APPS for b in APPS)
    command = [args.firn, "sim", "--trace", path, "--cluster", f"1x{args.gpus}:v100@16",
               "--policy", args.policies, "-o", "json", "--charge-first-start",
               "--quiet-starts", "--pair-slowdown", pairs,
               "--quiet-ends", ",".join(f"{app}={row[3]}" for app, row in APPS.items())]
    if args.prepare > 0:
        command += ["--prepare", ",".join(f"{app}=0.05" for app in APPS) + f",{args.prepare}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("firn sim failed: " + done.stderr.strip())
    return {row["policy"]: row for row in json.loads(done.stdout)["results"]}


def arguments():
    parse = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parse.add_argument("--firn", default="build/firn")
    parse.add_argument("--seeds", default="101-130", help="FIRST-LAST")
    parse.add_argument("--policies", default="firn,sjf-ffs")
    parse.add_argument("--jobs", type=int, default=20)
    parse.add_argument("--gpus", type=int, default=1)
    parse.add_argument("--gap", type=float, default=0.4, help="mean seconds between submits")
    parse.add_argument("--start", type=float, default=8, help="seconds")
    parse.add_argument("--prepare", type=int, default=1, help="jobs prepared at a time")
    parse.add_argument("--beside", type=float, default=1,
                       help="share of the other's steps that is added to a job's own")
    parse.add_argument("--slices", type=float, default=0,
                       help="each job of a pair is this many times slower, as on a GPU that "
                       "gives them slices of time; 0: by --beside")
    args = parse.parse_args()
    first, _, last = args.seeds.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        parse.error(f"--seeds {args.seeds}: not FIRST-LAST, such as 101-130")
    args.seeds = range(int(first), int(last or first) + 1)
    if not args.seeds:
        parse.error("--seeds: the last seed is before the first")
    return args


def main():
    args = arguments()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in args.seeds:
            path = os.path.join(folder, "queue.csv")
            write_queue(args, seed, path)
            runs.append(simulate(args, path))
    print("policy,jct_mean_s,makespan_s,ratio,ratio_max")
    names = list(runs[0])
    for name in names:
        ratios = [run[name]["jct_mean_s"] / run[names[-1]]["jct_mean_s"] for run in runs]
        jct_s = sum(run[name]["jct_mean_s"] for run in runs) / len(runs)
        span_s = sum(run[name]["makespan_s"] for run in runs) / len(runs)
        print(f"{name},{jct_s:.2f},{span_s:.2f},{sum(ratios) / len(ratios):.3f},"
              f"{max(ratios):.3f}")


if __name__ == "__main__":
    main()
