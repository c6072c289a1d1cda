#!/usr/bin/env python3
"""one_policy.py - the policy firn against the best of all others, by workload.

Runs every workload of the table below under firn and under the candidates for
the best other policy (with --all: all of them) with their useful options, in honest simulation (`firn repro`), and prints one
row a workload: the best other policy by mean JCT, firn's mean JCT over it, the
same ratio of the 99th percentile against the least of any policy within 5 % of
the best mean, both policies' mean finish-time fairness (rho), and firn's share
of GPU time lost to restarts. "untold": firn is told no run times, but what trainers
report once they train (knows=progress); "unreported": what jobs had that have ended
(knows=history). The other policies are told run times. With --noise a column has firn's ratio when
forecasts of throughput are wrong by 20 % and of iterations by 40 %, for all
policies, in the mean of at least five draws of these errors. With --resize two
columns have firn's ratio and its share of lost GPU time when running jobs are resized without a stop, for all policies: at the cost
measured for their profile, others at the largest cost measured (docs/resize.md).
With --spares two more columns have the same where the processes that join were
started in advance (`local.spares`): the largest pause measured, behind SPARE_S
of preparing.

Options of firn were chosen on the traces of --tune, which the table without
--tune does not use. Results of other policies are kept in --cache, by the text
of their scenario, and not computed again.

    bench/one_policy.py --only pollux --set alpha=0.5
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

ICE = "between=yes, idle=wait, efficiency=0.5, charge=yes, gather=yes"
OTHERS = [  # (label, policy, options)
    ("icefrog-batch+", "icefrog-batch", ICE),
    ("icefrog+", "icefrog", ICE),
    ("sia", "sia", ""),
    ("pollux", "pollux", ""),
    ("ymir+", "ymir", "between=yes, charge=yes"),
    ("ymir", "ymir", ""),
    ("optimus", "optimus", ""),
    ("easyscale+", "easyscale",
     "skip=1, types=mixed, several=1, again=1, worth=1, release=1"),
    ("srtf", "srtf", ""),
    ("sjf", "sjf", ""),
    ("sjf-bsbf+", "sjf-bsbf", "wait=first, order=saving, gang=whole"),
    ("sjf-bsbf", "sjf-bsbf", ""),
    ("sjf-ffs", "sjf-ffs", ""),
    ("lucid", "lucid", ""),
    ("tiresias", "tiresias", ""),
    ("themis", "themis", ""),
    ("frenzy+", "frenzy", "memory=ours, serve=speed, mix=0"),
    ("rubick", "rubick", ""),
    ("fifo", "fifo", ""),
]
# Candidates for the best; --all runs the rest too.
CONTENDERS = {"sjf-ffs", "lucid", "icefrog-batch+", "icefrog+", "sia", "pollux", "ymir+", "ymir",
              "easyscale+", "srtf", "sjf-bsbf+", "frenzy+", "rubick"}

TASKS = ("1:resnet18-c*24@1-8/256,vgg19-c*24@1-8/256,mobilenetv2-c*6@1-8/256,"
         "bert-base*24@1-8/128 10:googlenet-c*4@1-32/512,resnet50-c*4@1-32/512 "
         "100:resnet18-i*2@4-32/512,mobilenetv2-i*2@4-32/512,"
         "resnet50-i*1@4-32/512")
SAMPLE = "sample:philly/philly_jobs.csv jobs=%s seed={%s} hours=3-7 cap=100 %s"
V100 = "10:bert-wikitext2*1@1-8/256 100:yolov3-voc*1@4-32/64"
FRENZY = "1x2:a100@40,1x1:a100@40,1x4:a800@80,2x2:a100-80"
GPTS = ("gen:--jobs 160 --models bert-base,bert-large,gpt2-124m,gpt2-350m,"
        "gpt2-774m --load 0.8 --duration-max 1d --seed {%s}")


MIXED = os.path.join(tempfile.gettempdir(), "firn-easyscale-mixed")
SHUFFLED = MIXED + "/{%s}.csv"


def write_mixed(seeds):
    """EasyScale's workload with its jobs in other orders: the moments of
    submission stay. One trace alone moves by several percent by chance."""
    source = os.path.join(os.environ.get("FIRN_DATA", ""),
                          "easyscale/workload.csv")
    if not os.path.exists(source):
        return
    with open(source) as file:
        head, *lines = file.read().split()
    rows = [line.split(",") for line in lines]
    os.makedirs(MIXED, exist_ok=True)
    for seed in seeds:
        jobs = random.Random(seed).sample(rows, len(rows))
        with open("%s/%d.csv" % (MIXED, seed), "w") as out:
            print(head, file=out)
            for job, at in zip(jobs, rows):
                print(",".join([job[0], at[1]] + job[2:]), file=out)


def pollux(folder, cluster="pollux", options="profiles: data"):
    traces = "pollux/%s/workload-{%%s}.csv" % folder
    return (cluster, options, [traces % "1,2"], [traces % "4,6,7"], 1)


WORKLOADS = {  # name: cluster, options, traces to tune on, to report, seeds
    "pollux 0.5": pollux("workloads-0.5"),
    "pollux 1": pollux("workloads"),
    "pollux 1.5": pollux("workloads-1.5"),
    "pollux 2": pollux("workloads-2.0"),
    "pollux realistic": pollux("workloads-realistic"),
    "sia philly": ("sia", "profiles: data",
                   ["sia/workloads/philly/workload-{1,2,3}.csv"],
                   ["sia/workloads/philly/workload-{4,5,6}.csv"], 1),
    "sia saturn": ("sia", "profiles: data",
                   ["sia/workloads/saturn/workload-{1,2,3}.csv"],
                   ["sia/workloads/saturn/workload-{4,5,9,10}.csv"], 1),
    "bsbf": pollux("workloads-1.5", "bsbf", 'profiles: data, share: "yes"'),
    "bsbf testbed": ("4x4:2080ti", 'profiles: builtin, share: "yes"',
                     ["gen:--six-apps 0.33 --testbed --jobs 30 --seed "
                      "{401..406}"],
                     ["gen:--six-apps 0.33 --testbed --jobs 30 --seed {1..12}"],
                     1),
    "ymir 1": ("ymir", "profiles: builtin, restart-cost: 30, ahead: 30",
               ["ymir/workloads/FM-1-vit-large.csv",
                "ymir/workloads/FM-1-roberta-large.csv"],
               ["ymir/workloads/FM-1-vit.csv",
                "ymir/workloads/FM-1-roberta-base.csv"], 4),
    "ymir 2": ("ymir", "profiles: builtin, restart-cost: 30, ahead: 30",
               ["ymir/workloads/FM-2-vit-large.csv",
                "ymir/workloads/FM-2-roberta-large.csv"],
               ["ymir/workloads/FM-2-vit.csv",
                "ymir/workloads/FM-2-roberta-base.csv"], 4),
    "easyscale": ("easyscale", "profiles: builtin, restart-cost: 20",
                  ["gen:--jobs 200 --elastic 1 --load 0.8 --seed {1..3}"],
                  ["easyscale/workload.csv"], 1),
    "easyscale ahead": ("easyscale",
                        "profiles: builtin, restart-cost: 20, ahead: 20",
                        ["gen:--jobs 200 --elastic 1 --load 0.8 --seed "
                         "{1..3}"],
                        ["easyscale/workload.csv"], 1),
    "easyscale mixed": ("easyscale", "profiles: builtin, restart-cost: 20",
                        [SHUFFLED % "1..12"], [SHUFFLED % "101..112"], 1),
    "easyscale mixed ahead": ("easyscale",
                              "profiles: builtin, restart-cost: 20, ahead: 20",
                              [SHUFFLED % "1..12"],
                              [SHUFFLED % "101..112"], 1),
    "frenzy open": (FRENZY, "profiles: builtin",
                    ["gen:--jobs 60 --models new --load 4 --duration-max 4h "
                     "--seed {101..106}"],
                    ["gen:--jobs 60 --models new --load 4 --duration-max 4h "
                     "--seed {1..12}"], 1),
    "frenzy asked": (FRENZY, "profiles: builtin, ask: yes",
                     ["gen:--jobs 60 --models new --load 4 --duration-max 4h "
                      "--seed {101..106}"],
                     ["gen:--jobs 60 --models new --load 4 --duration-max 4h "
                      "--seed {1..12}"], 1),
    "frenzy on sia": ("sia", "profiles: data", [GPTS % "101..104"],
                      [GPTS % "1..6"], 1),
    "icefrog 120": ("12x4:v100",
                    'profiles: builtin, share: "yes", restart-cost: 60',
                    [SAMPLE % (120, "101..104", V100)],
                    [SAMPLE % (120, "1..8", V100)], 1),
    "icefrog 240": ("12x4:v100",
                    'profiles: builtin, share: "yes", restart-cost: 60',
                    [SAMPLE % (240, "101..103", V100)],
                    [SAMPLE % (240, "1..6", V100)], 1),
    "icefrog h200": ("12x4:h200",
                     'profiles: builtin, share: "yes", restart-cost: 60',
                     [SAMPLE % (120, "101..104", TASKS)],
                     [SAMPLE % (120, "1..8", TASKS)], 1),
    "one gpu": ("1x4:h200",
                'profiles: builtin, share: "yes", restart-cost: 30',
                ["gen:--jobs 120 --load 1.3 --gpus-max 1 --duration-max 4h "
                 "--apps resnet18-c,resnet50-c,bert-base,mobilenetv2-c,gpt-small"
                 " --seed {1..8}"],
                ["gen:--jobs 120 --load 1.3 --gpus-max 1 --duration-max 4h "
                 "--apps resnet18-c,resnet50-c,bert-base,mobilenetv2-c,gpt-small"
                 " --seed {201..212}"], 1),
    "philly gangs": ("8x8:v100", "restart-cost: 30",
                     ["gen:--jobs 300 --load 1 --duration-max 1d --seed "
                      "{101..103}"],
                     ["gen:--jobs 300 --load 1 --duration-max 1d --seed "
                      "{1..6}"], 1),
    "rubick": ("8x8:a800", 'profiles: data, restart-cost: 260, interval: 60, '
               'charge-first-start: "yes"',
               ["draw:300,{21..23},0.515,num_gpus "
                "rubick/workloads/workload-base.csv"],
               ["draw:300,{1..5},0.515,num_gpus "
                "rubick/workloads/workload-base.csv"], 1),
}
# The same without told run times: what firn knows instead.
KNOWS = {"untold": "progress", "unreported": "history"}
for how in KNOWS:
    for known in ("pollux 1", "pollux 2", "sia philly", "sia saturn"):
        WORKLOADS[known + ", " + how] = WORKLOADS[known]
METRICS = ["jct_mean_s", "jct_p99_s", "rho_mean", "restarts",
           "gpu_s_overhead", "gpu_s_given"]
# Further columns: options of the simulation. One draw of the noise moves a row by up to
# 6 % (pollux 0.5: 0.828 by one, 0.876 by five; icefrog h200: 1.002 and 0.969).
NOISE_DRAWS = 5
NOISE = ', noise: "throughput=0.2,iterations=0.4"'
RESIZE = ', resize-cost: "measured,0.53s/17s"'
# A third of the largest time measured without spare processes: an assumption. On a CPU
# PyTorch needs a sixth of the time with them; a GPU was not measured yet.
SPARE_S = 6
SPARES = ', resize-cost: "all=0.53s/%ds"' % SPARE_S


def scenario(name, workload, policies, tune, more):
    cluster, options, tuned, reported, seeds = workload
    seeds = max(seeds, NOISE_DRAWS) if more == NOISE else seeds
    options += more
    lines = ["name: w", "paper: one-policy", 'shows: "%s"' % name,
             "cluster: " + cluster, "metrics: [%s]" % ", ".join(METRICS),
             "options: {%s}" % options, "traces:"]
    lines += ['  - "%s"' % t for t in (tuned if tune else reported)]
    if seeds > 1:
        lines.append("seeds: %d" % seeds)
    lines.append("policies:")
    for label, policy, values in policies:
        if policy in ("sia", "rubick") and "restart-cost: 260" in options:
            values = "restart=260" + (", " + values if values else "")
        lines.append('  - {label: "%s", policy: %s, set: [%s]}' %
                     (label, policy, values))
    return "\n".join(lines) + "\n"


def run(text, args):
    """The metrics of each policy of a scenario, by label."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "w.yaml"), "w") as out:
            out.write(text)
        done = subprocess.run([args.firn, "repro", "--papers", folder, "-q",
                               "-o", "json", "-j", str(args.jobs)],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("firn repro failed: %s\n%s" % (done.stderr.strip(), text))
    found = json.loads(done.stdout)["scenarios"][0]
    if found["skipped"]:
        return None
    results = {}
    for value in found["values"]:
        results.setdefault(value["policy"], {})[value["metric"]] = value["ours"]
    return results


def results_of(name, args, more, cache):
    workload = WORKLOADS[name]
    others = [o for o in OTHERS if args.all or o[0] in CONTENDERS]
    missing = {}
    found = {}
    for other in others:
        key = scenario(name, workload, [other], args.tune, more)
        if key in cache:
            found[other[0]] = cache[key]
        else:
            missing[other] = key
    if missing:
        results = run(scenario(name, workload, list(missing), args.tune, more),
                      args)
        if results is None:
            return None, None
        for other, key in missing.items():
            found[other[0]] = cache[key] = results[other[0]]
        if args.cache:
            with open(args.cache, "w") as out:
                json.dump(cache, out)
    options = [o for o in args.set.split(",") if o]
    how = name.partition(", ")[2]
    options += ["knows=" + KNOWS[how]] if how else []
    ours = run(scenario(name, workload, [("firn", "firn", ", ".join(options))],
                        args.tune, more), args)
    return found, ours["firn"] if ours else None


def row(name, args, cache):
    others, ours = results_of(name, args, "", cache)
    if ours is None:
        return "| %s | skipped: its data are not here |" % name
    # A policy that left jobs unfinished has no mean.
    others = {o: m for o, m in others.items() if m["jct_mean_s"]}
    best = min(others, key=lambda o: others[o]["jct_mean_s"])
    mean = others[best]["jct_mean_s"]
    near = [o for o in others.values() if o["jct_mean_s"] <= 1.05 * mean]
    p99 = min(o["jct_p99_s"] for o in near)
    cells = [name, "%s %.0f" % (best, mean), "%.0f" % ours["jct_mean_s"],
             "%.3f" % (ours["jct_mean_s"] / mean),
             "%.2f" % (ours["jct_p99_s"] / p99),
             "%.2f / %.2f" % (ours["rho_mean"], others[best]["rho_mean"]),
             "%.1f" % (100 * ours["gpu_s_overhead"] / ours["gpu_s_given"]),
             "%.1f" % (100 * others[best]["gpu_s_overhead"] /
                       others[best]["gpu_s_given"])]
    for is_asked, more in ((args.noise, NOISE), (args.resize, RESIZE),
                           (args.spares, SPARES)):
        if not is_asked:
            continue
        others, ours = results_of(name, args, more, cache)
        mean = min(o["jct_mean_s"] for o in others.values()
                   if o["jct_mean_s"])
        cells.append("%.3f" % (ours["jct_mean_s"] / mean))
        if more in (RESIZE, SPARES):
            cells.append("%.1f" % (100 * ours["gpu_s_overhead"] /
                                   ours["gpu_s_given"]))
    return "| " + " | ".join(cells) + " |"


def draw(rows, path):
    """Bars of firn's mean JCT over the best other's; dots with noise."""
    left, wide, high = 150, 420, 20
    tall = high * len(rows) + 50
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="12">' % (left + wide + 70, tall),
           '<rect width="100%" height="100%" fill="white"/>']

    def x(ratio):
        return left + wide * ratio / 1.1

    for tick in (0, 0.25, 0.5, 0.75, 1):
        out.append('<line x1="%.1f" x2="%.1f" y1="25" y2="%d" stroke="%s"/>' %
                   (x(tick), x(tick), tall - 20,
                    "black" if tick == 1 else "#ddd"))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%g</text>' %
                   (x(tick), tall - 5, tick))
    out.append('<text x="%d" y="15">mean JCT of firn over that of the best '
               'other policy; dots: with noise</text>' % left)
    for i, (name, ratio, noisy) in enumerate(rows):
        y = 30 + high * i
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' %
                   (left - 8, y + 12, name))
        out.append('<rect x="%d" y="%d" width="%.1f" height="14" '
                   'fill="%s"/>' % (left, y, x(ratio) - left,
                                    "#4a90b8" if ratio <= 1 else "#c66"))
        out.append('<text x="%.1f" y="%d" fill="white" text-anchor="end">%.2f'
                   '</text>' % (x(ratio) - 4, y + 12, ratio))
        if noisy is not None:
            out.append('<circle cx="%.1f" cy="%d" r="3.5" fill="#222"/>' %
                       (x(noisy), y + 7))
    with open(path, "w") as file:
        file.write("\n".join(out + ["</svg>"]) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="workloads with this text")
    parser.add_argument("--set", default="", help="options of firn: a=1,b=2")
    parser.add_argument("--tune", action="store_true", help="the tuning set")
    parser.add_argument("--noise", action="store_true", help="a noisy column")
    parser.add_argument("--resize", action="store_true",
                        help="columns with resizes without a stop")
    parser.add_argument("--spares", action="store_true",
                        help="the same with processes started in advance")
    parser.add_argument("--all", action="store_true", help="all policies")
    parser.add_argument("--cache", help="file for results of other policies")
    parser.add_argument("--svg", help="also draw the ratios into this file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--firn", default="build/firn")
    args = parser.parse_args()
    write_mixed([*range(1, 13), *range(101, 113)])
    cache = {}
    if args.cache and os.path.exists(args.cache):
        with open(args.cache) as f:
            cache = json.load(f)
    head = ["workload", "best other, mean JCT s", "firn s", "ratio",
            "p99 ratio", "rho, firn / best", "lost %", "lost %, best"]
    head += ["ratio with noise"] if args.noise else []
    head += ["ratio with resizes", "lost % with resizes"] if args.resize else []
    head += ["ratio with spares", "lost % with spares"] if args.spares else []
    print("| " + " | ".join(head) + " |")
    print("| --- | --- " + "| ---: " * (len(head) - 2) + "|")
    drawn = []
    for name in WORKLOADS:
        if not re.search(args.only, name):
            continue
        line = row(name, args, cache)
        print(line, flush=True)
        cells = [c.strip() for c in line.split("|")]
        if len(cells) > 9:
            drawn.append((name, float(cells[4]),
                          float(cells[9]) if args.noise else None))
    if args.svg:
        draw(drawn, args.svg)


if __name__ == "__main__":
    main()
