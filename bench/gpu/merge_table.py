"""merge_table.py - the tables and the summary of merge.sh; needs Python alone.

    merge_table.py add OUT RUN WAY SEED TARGET TARGET   # rows of a run
    merge_table.py targets OUT SHARE                    # of the first run
    merge_table.py summary OUT

RUN is the folder with TASK.json (`firn show`) and TASK.log (`firn logs`) of both
jobs and block.json. A job that is merged writes into the log of its lead.
"""
import csv
import json
import os
import re
import statistics
import sys

TASKS = ("a", "b")
COLUMNS = ("way", "seed", "task", "state", "starts", "merged", "seconds", "train_s",
           "steps", "device_steps", "epochs", "metric", "target", "met")
CURVE = ("way", "seed", "task", "epoch", "metric", "steps", "device_steps",
         "seconds")
LINE = re.compile(r"^job (\d+) epoch (\d+) metric ([\d.]+) steps (\d+) "
                  r"device_steps (\d+) seconds ([\d.]+)$", re.M)


def append(path, columns, rows):
    """Rows at the end of a table, which begins with its columns, behind lines
    that say where it is from."""
    is_new = not os.path.exists(path) or not read(path)
    with open(path, "a", newline="", encoding="ascii") as f:
        writer = csv.writer(f, lineterminator="\n")
        if is_new:
            writer.writerow(columns)
        writer.writerows(rows)


def read(path):
    """The rows of a table."""
    with open(path, newline="", encoding="ascii") as f:
        return list(csv.DictReader(line for line in f if line[0] != "#"))


def lines_of(folder):
    """The epochs in both logs, by the id of the job: (epoch, metric, steps,
    device steps, seconds)."""
    found = {}
    for task in TASKS:
        with open(f"{folder}/{task}.log", encoding="utf-8", errors="replace") as f:
            for line in LINE.findall(f.read()):
                row = (int(line[1]), float(line[2]), int(line[3]), int(line[4]),
                       float(line[5]))
                found.setdefault(line[0], {}).setdefault(row[0], row)
    return {job: [rows[e] for e in sorted(rows)] for job, rows in found.items()}


def add(out, folder, way, seed, *targets):
    """The rows of a run. Times count from the end of the job that held the
    GPU."""
    def record(name):
        with open(f"{folder}/{name}.json", encoding="utf-8") as f:
            return json.load(f)

    begin_s = record("block")["ended_s"]
    lines = lines_of(folder)
    for task, target in zip(TASKS, map(float, targets)):
        job = record(task)
        mine = lines.get(str(job["id"]), [])
        if job["state"] != "succeeded" or not mine:
            with open(f"{folder}/{task}.log", encoding="utf-8") as f:
                print(f"{way}, seed {seed}, {task} is {job['state']}:\n"
                      f"{f.read()[-2000:]}")
        last = mine[-1] if mine else (0, 0.0, 0, 0, 0.0)
        with open(f"{folder}/{task}.log", encoding="utf-8", errors="replace") as f:
            is_lead = "trains job" in f.read()
        append(f"{out}/merge.csv", COLUMNS, [(
            way, seed, task, job["state"], job["epoch"], int(is_lead),
            round(job["ended_s"] - begin_s, 2), round(last[4], 2), last[2], last[3],
            last[0], last[1], target, int(last[1] >= target))])
        append(f"{out}/merge_curves.csv", CURVE,
               [(way, seed, task, *row) for row in mine])


def targets(out, share):
    """Prints a share of each task's best metric in the first run."""
    best = {task: 0.0 for task in TASKS}
    for row in read(f"{out}/merge_curves.csv"):
        if row["way"] == "first":
            best[row["task"]] = max(best[row["task"]], float(row["metric"]))
    if not all(best.values()):
        sys.exit("the first run has no metric of both jobs")
    print(*(f"{float(share) * best[task]:.4f}" for task in TASKS))


def summary(out):
    """What the rows say, by seed and over the seeds that have both ways."""
    by = {}
    for row in read(f"{out}/merge.csv"):
        by.setdefault((row["way"], row["seed"]), {})[row["task"]] = row
    ratios = {"mean completion": [], "GPU time": [], "device steps": []}
    for seed in sorted({seed for way, seed in by if way == "alone"}):
        if ("merged", seed) not in by:
            continue
        values = {}
        for way in ("alone", "merged"):
            rows = by[way, seed].values()
            ends = [float(row["seconds"]) for row in rows]
            steps = [int(row["device_steps"]) for row in rows]
            done = sum(steps) if way == "alone" else max(steps)
            mean_s = statistics.fmean(ends)
            if way == "alone":  # the shorter job first
                took = sorted((min(ends), max(ends) - min(ends)))
                mean_s = (2 * took[0] + took[1]) / 2
            values[way] = (mean_s, max(ends), done)
            print(f"seed {seed}, {way:6}: mean completion {values[way][0]:.1f} s, "
                  f"both done after {values[way][1]:.1f} s, {done} steps of the "
                  f"device, targets met {sum(int(row['met']) for row in rows)} of 2, "
                  f"starts {'+'.join(row['starts'] for row in rows)}, "
                  f"{'trained together' if any(int(r['merged']) for r in rows) else 'apart'}")
        for i, name in enumerate(ratios):
            ratios[name].append(values["alone"][i] / values["merged"][i])
    for name, found in ratios.items():
        if found:
            print(f"{name}: alone takes {statistics.geometric_mean(found):.2f} times "
                  f"as long as merged (geometric mean of {len(found)} seeds; "
                  f"{min(found):.2f} to {max(found):.2f})")


if __name__ == "__main__":
    {"add": add, "targets": targets, "summary": summary}[sys.argv[1]](*sys.argv[2:])
