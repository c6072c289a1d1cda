#!/usr/bin/env python3
"""partners.py - what co-training two fine-tuning jobs is worth, against separate
runs.

    python3 bench/gpu/partners.py --seeds 12 --out partners.csv

The jobs are those of examples/python/tune.py: LoRA adapters in one backbone,
a head of its own for each task, accuracy on pictures that were not trained on
as the metric, and a target metric that ends a job. Task a has many pictures;
task b is related (nearly the same direction) and has few, so that alone it
needs many epochs. Measured for each seed and each way, from weights to target:

    alone      a and b, each in a run of its own
    together   both at once (firn.torch.partners: Ymir's spatial transfer)
    after      b begins with the adapters of the ended a (temporal transfer)

Rows: seed, way, task, steps of the task to its target, epochs, steps of the
device and seconds of the run until then (together: with the partner's steps in
between), the metric reached, and whether it met the target (if not: all epochs
count). The summary has means and 95 % intervals over seeds, and the mean time to
the target of both jobs on one device, in steps, which are equally long for both
tasks, and in seconds: one after the other, the shorter first, against merged.

The device is the GPU if there is one, else one core of the CPU; the first line
of the table says which.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples" / "python")]

import tune  # noqa: E402
from firn.torch import Elastic  # noqa: E402
from firn.torch.partners import Partners, Work, of_backbone  # noqa: E402

COLUMNS = "seed way task steps epochs device_steps seconds metric met".split()


class Clock:
    """Steps of the device and seconds from the first step of a run to the
    target of each task."""

    def __init__(self) -> None:
        self.since, self.steps = time.perf_counter(), 0
        self.at: dict[str, tuple[int, float]] = {}


def words_of(args: argparse.Namespace, task: str, seed: int) -> list[str]:
    """The command of a task."""
    angle = args.angle if task == "a" else args.angle + args.turn
    samples = args.many if task == "a" else args.few
    return (
        f"--angle {angle} --samples {samples} --noise {args.noise} --epochs "
        f"{args.epochs} --batch {args.batch} --seed {seed} --rank {args.rank} "
        f"--base-steps {args.base_steps} --lr {args.lr}"
    ).split()


def open_job(work: Work, name: str, target: float, folder: str, clock: Clock) -> Elastic:
    """A session of the task that ends at its target."""
    os.environ["FIRN_JOB"] = name
    os.environ["FIRN_TARGET_METRIC"] = str(target)

    def on_epoch(job: Elastic) -> None:
        with job.evaluating():
            value = work.metric(work.model)
        job.measured(value)
        if job.finished or job.done:
            clock.at[name] = (clock.steps, time.perf_counter() - clock.since)

    return Elastic(
        work.model,
        work.optimizer,
        work.dataset(),
        on_epoch=on_epoch,
        folder=folder,
        resume=False,
        begins_with=of_backbone,
        **work.options,
    )


def trained(
    args: argparse.Namespace, tasks: str, seed: int, way: str, folder: str
) -> list[list]:
    """A run of one task or two; its rows."""
    works = {t: tune.make(words_of(args, t, seed)) for t in tasks}
    clock = Clock()
    targets = {"a": args.target_a, "b": args.target_b}
    jobs = [open_job(works[t], t, targets[t], folder, clock) for t in tasks]
    clock.since = time.perf_counter()
    for job, (x, y) in Partners(*jobs, seed=seed):
        x, y = x.to(job.device), y.to(job.device)
        clock.steps += 1  # one thread: a turn is a step
        job.backward(torch.nn.functional.cross_entropy(job.model(x), y))
    rows = [
        [
            seed,
            way,
            job.name,
            job.step,
            round(job.step / job.steps_per_epoch, 2),
            clock.at[job.name][0],
            round(clock.at[job.name][1], 4),
            round(job.metric, 4),
            int(job.finished),
        ]
        for job in jobs
    ]
    for job in reversed(jobs):
        job.close()
    return rows


def one_seed(args: argparse.Namespace, seed: int) -> list[list]:
    """All ways."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for task in "ab":
            rows += trained(args, task, seed, "alone", f"{folder}/alone-{task}")
        os.environ.update(FIRN_AFTER=f"{folder}/alone-a", FIRN_AFTER_JOB="a")
        rows += trained(args, "b", seed, "after", f"{folder}/after")
        del os.environ["FIRN_AFTER"], os.environ["FIRN_AFTER_JOB"]
        rows += trained(args, "ab", seed, "together", f"{folder}/together")
    return rows


# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom.
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18)


def interval(values: list[float]) -> str:
    """The mean and its 95 % interval."""
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return f"{mean:.3g}"
    t = T95[n - 2] if n - 2 < len(T95) else 1.96 + 2.4 / (n - 1)
    return f"{mean:.3g} +- {t * statistics.stdev(values) / math.sqrt(n):.2g}"


def summary(rows: list[list]) -> None:
    """What the rows say."""
    by: dict[tuple, dict[int, list]] = {}
    for row in rows:
        by.setdefault((row[1], row[2]), {})[row[0]] = row
    for (way, task), found in by.items():
        cells = list(found.values())
        print(
            f"{way:9} {task}: epochs {interval([r[4] for r in cells])}, seconds "
            f"{interval([r[6] for r in cells])}, target met in "
            f"{sum(r[8] for r in cells)} of {len(cells)}"
        )
    for unit, column in (("steps", 5), ("seconds", 6)):
        gains: dict[str, list] = {"apart": [], "after": [], "together": []}
        for seed, row in by[("alone", "a")].items():
            a, b = row[column], by[("alone", "b")][seed][column]
            late = by[("after", "b")][seed][column]
            merged = [by[("together", t)][seed][column] for t in "ab"]
            gains["apart"].append((2 * min(a, b) + max(a, b)) / 2)
            gains["after"].append((2 * a + late) / 2)
            gains["together"].append(sum(merged) / 2)
        print(f"mean {unit} to the target of both jobs on one device:")
        for way, values in gains.items():
            mean = statistics.fmean(gains["apart"]) / statistics.fmean(values)
            ratios = [math.log(x / y) for x, y in zip(gains["apart"], values)]
            print(
                f"  {way:9} {interval(values)}; {mean:.2f} times fewer; by seed "
                f"ln {interval(ratios)}"
            )


def main() -> None:
    """The table and its summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--angle", type=float, default=0.2)
    parser.add_argument("--turn", type=float, default=0.1, help="from a to b, rad")
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--many", type=int, default=600, help="pictures of a")
    parser.add_argument("--few", type=int, default=300, help="pictures of b")
    parser.add_argument("--noise", type=float, default=1.5)
    parser.add_argument("--target-a", type=float, default=0.75)
    parser.add_argument("--target-b", type=float, default=0.68)
    parser.add_argument("--epochs", type=int, default=60, help="at most")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--base-steps", type=int, default=20)
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    device = (
        torch.cuda.get_device_name() if torch.cuda.is_available() else
        f"one core of {platform.machine()}"
    )
    rows = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        rows += one_seed(args, seed)
        print(f"seed {seed}", file=sys.stderr)
    if args.out:
        with open(args.out, "w", newline="", encoding="ascii") as file:
            given = [f"{k}={v}" for k, v in vars(args).items() if k != "out"]
            file.write(f"# bench/gpu/partners.py {' '.join(given)}\n")
            file.write(
                f"# {device}, PyTorch {torch.__version__}, {time.strftime('%F')}\n"
            )
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(rows)
    print(f"device: {device}, PyTorch {torch.__version__}")
    summary(rows)


if __name__ == "__main__":
    main()
