"""freeze_worth.py - tables of freeze_variance.py, put together and judged.

    python3 freeze_worth.py --runs RUN1 RUN2 ... \\
        --tables docs/measurements/h200 --profiles profiles/h200

joins the curves.csv and variance.csv of several runs of freeze_variance.py
(`session` counts them) and times.csv into two folders: to `profiles` goes

  freeze_variance.csv  gradient variance of each layer in `base`, at micro-
                       batches of an eighth of the batch; no lines on top

and to `tables`, with the provenance on top,

  freeze_curves.csv    quality during each training
  freeze_frozen.csv    in the others: summed over the layers that are frozen
                       there (`front`) and over the rest
  freeze_times.csv     step time and memory by frozen share
  freeze_anneal.csv    the end of each `anneal`
  freeze_worth.csv     for each frozen training, what an iteration was worth:

worth = (t_e - t_0) / (T - t_0): after T - t_0 iterations with frozen layers the
training is as good as `base` was after iteration t_e, so an iteration had that
share of progress. This is what psi claims to be, measured; it is defined where
the target is never reached, and is counted from 0 to 1. Rows of mode `control`
show how far it is from 1 by chance. Quality is the mean of three tests. psi is (3) at the start, from the three probes before it; psi_along
the mean of (3) over the training with V0 kept and V as it was then. reached:
iterations until the quality of `base` at T, over T - t_0 (empty: not within the
run). gain_host and gain_gpu: worth x step time unfrozen / frozen, when the host
launches kernels and as a CUDA graph. Above 1 freezing ends training earlier.
"""
import argparse
import collections
import csv
import os
import statistics


def read(path):
    """Rows of a table, and the lines on top of it."""
    with open(path) as f:
        lines = f.readlines()
    head = [x for x in lines if x.startswith("#")]
    return list(csv.DictReader(x for x in lines if x[0] != "#")), head


class Out:
    def __init__(self, folder, name, head, columns):
        self.f = open(os.path.join(folder, name), "w", newline="")
        self.f.writelines(head)
        self.w = csv.writer(self.f, lineterminator="\n")
        self.w.writerow(columns)

    def row(self, *values):
        self.w.writerow([f"{v:.4g}" if isinstance(v, float) else v
                         for v in values])


def quality(row):
    return -float(row["test_loss"]) if row["task"] == "gpt" \
        else float(row["accuracy"])


def smooth(rows):
    """(step, mean quality of three tests) of a training."""
    q = [quality(r) for r in rows]
    return [(int(r["step"]), statistics.mean(q[max(0, i - 2):i + 1]))
            for i, r in enumerate(rows)]


def when(curve, q):
    """The step at which a curve first had quality q; linear between tests."""
    before = curve[0]
    for at in curve:
        if at[1] >= q:
            if at[1] <= before[1]:
                return at[0]
            share = (q - before[1]) / (at[1] - before[1])
            return before[0] + max(0, share) * (at[0] - before[0])
        before = at if at[1] > before[1] else before
    return curve[-1][0]


def parts(layers, frozen):
    v = [max(0.0, float(x)) for x in layers.split()]
    return sum(v[:frozen]), sum(v[frozen:])


def judge(key, runs, probes):
    """One row of freeze_worth.csv without its gains."""
    session, task, seed, mode, start, share = key
    base = smooth(runs[(session, task, seed, "base", "0", "0")])
    rows = runs[key]
    length, frozen = base[-1][0], int(rows[0]["frozen"])
    first = round(float(start) * length)
    curve = smooth(rows)
    before = [parts(p["by_layer"], frozen)
              for p in probes[(session, task, seed, "base", "0", "0")]
              if int(p["step"]) <= first][-3:]
    front = statistics.mean(x[0] for x in before)
    psi = statistics.mean(x[1] for x in before)
    psi /= front + psi
    along = [parts(p["by_layer"], frozen)[1] for p in probes.get(key, ())
             if int(p["step"]) <= length]
    psi_along = statistics.mean(v / (v + front) for v in along) if along else ""
    at_end = [q for step, q in curve if step <= length]
    if not at_end or curve[-1][0] < length - length // 50:
        return None  # cut short
    target, q = base[-1][1], at_end[-1]
    worth = (when(base, q) - first) / (length - first)
    reached = next((s for s, x in curve[2:] if x >= target), None)
    reached = (reached - first) / (length - first) if reached else ""
    return [task, int(seed), float(start), float(share), frozen,
            int(rows[0]["layers"]), psi, psi_along, max(0.0, worth), reached,
            f"{q:.5g}", f"{target:.5g}"]


def ends(out, runs):
    """Quality after a rate on a cosine to zero, of the weights themselves."""
    for key, rows in runs.items():
        if key[3].startswith("anneal") and rows[-1]["weights"] == "own":
            r = rows[-1]
            out.row(r["task"], r["seed"], r["mode"], r["start"], r["share"],
                    r["step"], f"{float(r['accuracy']):.5g}",
                    f"{float(r['test_loss']):.5g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", nargs="+", required=True)
    parser.add_argument("--tables", required=True)
    parser.add_argument("--profiles", required=True)
    args = parser.parse_args()
    runs = collections.OrderedDict()
    probes = collections.OrderedDict()
    heads, times = [], {}
    for session, folder in enumerate(args.runs, 1):
        for name, into in (("curves.csv", runs), ("variance.csv", probes)):
            rows, head = read(os.path.join(folder, name))
            if name == "curves.csv":
                heads += [f"# session {session}, {x[2:]}" for x in head]
            for r in rows:
                key = (session, *(r[k] for k in
                                  ("task", "seed", "mode", "start", "share")))
                into.setdefault(key, []).append(r)
        path = os.path.join(folder, "times.csv")
        if os.path.exists(path):
            times = {(r["task"], float(r["share"])): r for r in read(path)[0]}

    def table(name, columns):
        return Out(args.tables, name, heads, columns.split(","))

    out = table("freeze_curves.csv", "session,task,seed,mode,start,share,"
                "frozen,layers,step,rate,train_loss,test_loss,accuracy,weights")
    for key, rows in runs.items():
        for r in rows:
            out.row(key[0], *r.values())
    out = Out(args.profiles, "freeze_variance.csv", [],
              "task,session,seed,step,length,batch,micro,layers,grad_sq,"
              "variance,by_layer".split(","))
    lengths = {k[1]: int(r[-1]["step"]) for k, r in runs.items()
               if k[3] == "base"}
    frozen = table("freeze_frozen.csv", "session,task,seed,mode,start,share,"
                   "frozen,step,front,rest")
    for key, rows in probes.items():
        for r in rows:
            if key[3] == "base":
                batch = int(times[(key[1], 0.0)]["batch"])
                out.row(key[1], key[0], key[2], r["step"], lengths[key[1]],
                        batch, batch // 8, r["layers"], r["grad_sq"],
                        r["variance"], r["by_layer"])
            else:
                frozen.row(*key, r["frozen"], r["step"],
                           *parts(r["by_layer"], int(r["frozen"])))
    out = table("freeze_times.csv", "task,batch,share,frozen,layers,host_ms,"
                "graph_ms,peak_alloc_mib")
    for r in times.values():
        out.row(*r.values())
    out = table("freeze_worth.csv", "task,seed,start,share,frozen,layers,psi,"
                "psi_along,worth,reached,quality,target,gain_host,gain_gpu,mode")
    judged = [(k, judge(k, runs, probes)) for k in runs
              if k[3] in ("frozen", "control")]
    for key, row in sorted((x for x in judged if x[1]),
                           key=lambda x: (x[0][3], *x[1][:4])):
        gains = [row[8] * float(times[(row[0], 0.0)][c]) /
                 float(times[(row[0], row[3])][c])
                 for c in ("host_ms", "graph_ms")]
        out.row(*row, *gains, key[3])
    out = table("freeze_anneal.csv",
                "task,seed,mode,start,share,step,accuracy,test_loss")
    ends(out, runs)


if __name__ == "__main__":
    main()
