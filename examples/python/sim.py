"""A study in a page: a policy of our own against firn's, and a sweep of load.

    PYTHONPATH=python python3 examples/python/sim.py [FOLDER FOR PLOTS]

Prints two tables. With matplotlib installed and a folder given it draws them
(docs/python-sim.md shows the plots). Takes some seconds on two cores.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from firn import sim

ROOT = Path(__file__).resolve().parent.parent.parent
MIXED = {
    "trace": str(ROOT / "traces/mixed.csv"),
    "cluster": str(ROOT / "clusters/mixed.yaml"),
    "profiles": "builtin",
}


class Doubling(sim.Policy):
    """Everyone gets the fewest GPUs; what is left doubles the shortest jobs."""

    name = "doubling"
    does = ("preempt", "move", "resize")
    needs = ("durations", "forecast")

    def decide(self, view: sim.View, plan: sim.Plan) -> None:
        queue = sorted(view.jobs, key=lambda job: (view.left_s(job, job.gpus), job.id))
        given = []
        for job in queue:
            if plan.give(job, job.gpus_min, fastest=True):
                given.append(job)
            else:
                plan.note(job, f"needs {job.gpus_min} GPUs, {plan.free} are free")
        for job in given:
            mark, gpus = plan.mark(), job.gpus_min
            while 2 * gpus <= min(view.gpus_max(job), job.gpus_max):
                if view.rate(job, 2 * gpus) < 1.5 * view.rate(job, gpus):
                    break
                gpus *= 2
            plan.drop(job)
            if not plan.give(job, gpus, fastest=True):
                plan.undo(mark)


def made_up(load: float, seed: int = 1, jobs: int = 300) -> sim.Trace:
    """Jobs that ask for the share `load` of 64 GPUs."""
    draw = random.Random(seed)
    rows, at, mean_gpu_s = [], 0.0, 3.4 * 3600
    for _ in range(jobs):
        gpus = draw.choice((1, 1, 2, 4, 8))
        rows.append({"submit_s": round(at, 3), "gpus": gpus,
                     "duration_s": round(draw.expovariate(1 / 3600) + 60, 3)})
        at += draw.expovariate(64 * load / mean_gpu_s)
    return sim.Trace(rows, name=f"load {load}")


def compare() -> list[sim.Result]:
    """One workload under several policies."""
    tasks = [{**MIXED, "policy": policy}
             for policy in ("fifo", "srtf", "icefrog", "sia", Doubling())]
    return sim.run_many(tasks)


def sweep(loads: tuple[float, ...], names: tuple[str, ...]) -> list[sim.Result]:
    """Many workloads under several policies, on all cores."""
    traces = {load: made_up(load) for load in loads}
    return sim.run_many([{"trace": traces[load], "cluster": "16x4:v100",
                          "policy": name} for load in loads for name in names])


def draw(folder: Path, results: list[sim.Result], loads: tuple[float, ...],
         names: tuple[str, ...], swept: list[sim.Result]) -> None:
    """Two plots."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    marks = ("-", "--", ":", "-.", (0, (5, 1, 1, 1)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for result, mark in zip(results, marks):
        times = sorted(job["jct_s"] / 3600 for job in result.jobs)
        shares = [(i + 1) / len(times) for i in range(len(times))]
        left.plot(times, shares, linestyle=mark, label=result["policy"])
    left.set_xscale("log")
    left.set(xlabel="completion time in hours", ylabel="share of jobs",
             title="240 mixed jobs on 32 GPUs")
    for name, mark in zip(names, marks):
        means = [r["jct_mean_s"] / 3600 for r in swept if r["policy"] == name]
        right.plot(loads, means, linestyle=mark, marker="o", label=name)
    right.set(xlabel="load", ylabel="mean completion time in hours",
              title="300 made-up jobs on 64 GPUs")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(folder / "python-sim.png", dpi=80)


def main() -> None:
    results = compare()
    print(f"{'policy':10} {'mean JCT':>10} {'p99':>10} {'GPUs used':>10} {'rounds':>7}")
    for one in results:
        print(f"{one['policy']:10} {one['jct_mean_s']:8.0f} s {one['jct_p99_s']:8.0f} s "
              f"{100 * one['gpu_util_ratio']:8.0f} % {one['rounds']:7}")
    loads, names = (0.5, 0.7, 0.9, 1.1), ("fifo", "sjf", "srtf", "tiresias")
    swept = sweep(loads, names)
    print("\nmean JCT in s by load\n" + " " * 10 + "".join(f"{x:>8}" for x in loads))
    for name in names:
        means = [one["jct_mean_s"] for one in swept if one["policy"] == name]
        print(f"{name:10}" + "".join(f"{mean:8.0f}" for mean in means))
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]), results, loads, names, swept)


if __name__ == "__main__":
    main()
