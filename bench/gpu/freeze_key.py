"""freeze_key.py - profiles whose psi is the measured worth: an answer key.

Copies profiles/ to a folder and gives resnet18-fashion, resnet50-fashion and
bert-debian variances by which equation (3) yields the mean worth of
freeze_worth.csv at 25, 50 and 75 % of the layers (linear between), in four
stages of training: nothing can be frozen in the first quarter, the others have
the worth measured from their beginning on. Where a training was not measured,
the one from 50 % stands for it. A simulation with this folder shows what
freezing would be worth if psi were right. No scheduler could know it; nothing
shipped reads it.

    python3 freeze_key.py ../.. FOLDER        # the first: firn's sources
    sed 's|profiles: builtin|profiles: FOLDER|' \\
        ../../papers/icefrog-table7-h200.yaml >PAPERS/icefrog-table7-h200.yaml
    firn repro --papers PAPERS icefrog-table7-h200
"""
import csv
import os
import shutil
import statistics
import sys

APPS = {"resnet18": "resnet18-fashion", "resnet50": "resnet50-fashion",
        "bert": "bert-debian"}
SHARES = ("0.25", "0.5", "0.75")


def rows(path):
    with open(path) as f:
        return list(csv.DictReader(x for x in f if x[0] != "#"))


def worths(root):
    found = {}
    for r in rows(os.path.join(root, "docs/measurements/h200/freeze_worth.csv")):
        if r["mode"] == "frozen":
            key = (r["task"], r["start"], r["share"])
            found.setdefault(key, []).append(float(r["worth"]))
    return {k: statistics.mean(v) for k, v in found.items()}


def variances(worth, task, start, nlayers):
    """By layer, so that psi falls along the measured worths and sums to 1."""
    psi = [1.0]
    for share in SHARES:
        at = worth.get((task, start, share))
        if at is None:
            at = worth[(task, "0.5", share)]
        psi.append(0.0 if start == "0" else min(at, psi[-1]))
    psi.append(0.0)
    quarter = [min(3, 4 * i // nlayers) for i in range(nlayers)]
    return [(psi[q] - psi[q + 1]) / quarter.count(q) for q in quarter]


def main():
    root, out = sys.argv[1:3]
    shutil.copytree(os.path.join(root, "profiles"), out)
    worth = worths(root)
    table = rows(os.path.join(root, "profiles/h200/freeze_variance.csv"))
    for task, app in APPS.items():
        row = next(r for r in table if r["task"] == task)
        path = os.path.join(out, "h200", app + ".txt")
        with open(path) as f:
            text = [x for x in f if x.split()[0] not in ("#", "stage", "layers")]
        for k, start in enumerate(("0", "0.25", "0.5", "0.75")):
            v = variances(worth, task, start, int(row["layers"]))
            end = int(row["length"]) * (k + 1) / 4
            text.append(f"stage {end:g} 1 {sum(v):.6g}\nlayers " +
                        " ".join(f"{x:.5g}" for x in v) + "\n")
        with open(path, "w") as f:
            f.writelines(text)


if __name__ == "__main__":
    main()
