#!/usr/bin/env python3
"""foretold.py - forecasts of firnd held against what happened.

    bench/foretold.py --bin build --jobs 24 --policies fifo,sjf,sjf-ffs

Runs the same queue of real training jobs under each policy, live, on declared
GPUs (C trainers) or on the GPUs of this machine (--torch: PyTorch jobs). While
a queue runs it asks firnd for its forecast of every job (GET /forecast, which is
`firn eta` of all jobs at once) and, before each submit, `firn plan` for that
job. After a queue it asks `firn whatif` what the other policies would have done.
Three tables:

  eta     |foretold end - end| over the time that was left when it was foretold,
          of forecasts behind the last submit; how many ends lie in the range
  plan    the same for the end that `firn plan` foretold before the submit, of
          jobs behind which nothing was submitted that could pass them
  whatif  mean completion time by `firn whatif` from the history of one policy
          over that of the live run under the other; `net` without what the
          machine was faster or slower in that run

--bar P ends with status 1 where a mean is above P percent, or the ranges hold
less than nine of ten ends. Python's standard library only.
"""
import argparse
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time


class Firnd:
    """A scheduler of its own, with its state in a new folder."""

    def __init__(self, args, policy, folder):
        self.args = args
        self.folder = folder
        self.socket = os.path.join(folder, "sock")
        command = [os.path.join(args.bin, "firnd"), "--state", os.path.join(folder, "state"),
                   "--socket", self.socket, "--allow-root", "--policy", policy,
                   "--set", "local.pass-env=PYTHONPATH,FIRN_TRAIN_LIB,CUBLAS_WORKSPACE_CONFIG"]
        if not args.torch:
            command += ["--gpus", args.gpus]
        for setting in args.set:
            command += ["--set", setting]
        self.log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log)
        for _ in range(600):
            try:
                self.get("/health")
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("firnd does not answer: see " + self.log.name)

    def call(self, method, path, body=None):
        link = http.client.HTTPConnection("firn", timeout=60)
        link.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.sock.settimeout(60)
        link.sock.connect(self.socket)
        link.request(method, "/v1" + path, body, {"Content-Type": "application/yaml"})
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text}")
        return text

    def get(self, path):
        return json.loads(self.call("GET", path))

    def firn(self, *words):
        return subprocess.run([os.path.join(self.args.bin, "firn"), *words],
                              env=dict(os.environ, FIRN_SOCKET=self.socket), text=True,
                              capture_output=True, check=False)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def c_jobs(args, folder):
    """Jobs of four applications of example trainers: (name, yaml, submit_s)."""
    draw = random.Random(args.seed)
    cnn = os.path.abspath(os.path.join(args.bin, "examples/cnn"))
    turns = os.path.join(folder, "turns")
    os.makedirs(turns, exist_ok=True)
    # Pace of a step in ms, start-up in s, epochs of 16 steps (least and most), and
    # about how many times its pace a step takes, which the job's user knows.
    apps = {"small": (20, 0.1, 3, 6, 1.2), "medium": (30, 0.3, 4, 8, 1.1),
            "large": (40, 0.5, 4, 10, 1.05), "wide": (30, 0.4, 3, 6, 1.9)}
    out, at = [], 0.0
    for i in range(args.jobs):
        app = draw.choice(sorted(apps))
        pace, start, least, most, times = apps[app]
        epochs = max(1, round(draw.randint(least, most) * args.length))
        gpus = 2 if app == "wide" else 1
        words = ["sh", "-c", f"sleep {start}; exec {cnn} --threads {gpus} --batch 4 "
                 f"--samples 64 --epochs {epochs} --judge 0 --pace {pace} --turns {turns} "
                 "--quiet 1"]
        alone_s = start + epochs * 16 * pace * times * 1e-3
        out.append((f"j{i}", app, gpus, words, alone_s, at))
        at += draw.expovariate(1) * args.gap
    return out


def torch_jobs(args, folder):
    """The same with PyTorch on one GPU: two networks, two lengths each."""
    del folder
    draw = random.Random(args.seed)
    program = os.path.abspath("examples/python/cnn.py")
    apps = {"cnn-short": 6, "cnn-long": 14}
    out, at = [], 0.0
    for i in range(args.jobs):
        app = draw.choice(sorted(apps))
        epochs = max(1, round(apps[app] * args.length))
        words = [sys.executable, program, "--device", "cuda", "--samples", "12000",
                 "--epochs", str(epochs)]
        out.append((f"j{i}", app, 1, words, 8 + 2.0 * epochs, at))
        at += draw.expovariate(1) * args.gap
    return out


def yaml_of(job):
    name, app, gpus, words, alone_s, _ = job
    run = ", ".join(json.dumps(word) for word in words)
    more = "share: allowed\nmemory: 4\ncheckpoint: {grace: 10}\n" if gpus == 1 else ""
    return (f"name: {name}\nrun: [{run}]\ngpus: {gpus}\napp: {app}\n"
            f"duration: {alone_s:.1f}s\n{more}")


def warm_up(firnd, args, jobs):
    """One short job of each application: what the scheduler learns from."""
    first = {}
    for job in jobs:
        if job[1] not in first or job[4] < first[job[1]][4]:
            first[job[1]] = job
    for app, job in sorted(first.items()):
        firnd.call("POST", "/jobs", yaml_of(("warm-" + app,) + job[1:]))
    until = time.time() + args.limit
    while any(job["state"] != "succeeded" for job in firnd.get("/jobs?limit=1000")["jobs"]):
        if time.time() > until:
            raise SystemExit(f"the first jobs take longer than {args.limit} s")
        time.sleep(args.every)


def run_queue(args, policy, jobs, folder):
    """Returns the scheduler, still up, jobs' ends, and what was foretold."""
    firnd = Firnd(args, policy, folder)
    warm_up(firnd, args, jobs)
    began = time.time()
    waiting, told, plans = list(jobs), [], {}
    while True:
        now = time.time() - began
        while waiting and waiting[0][5] <= now:
            text = yaml_of(waiting[0])
            if args.plan:
                plan = json.loads(firnd.call("POST", "/plan", text))
                plans[waiting[0][0]] = (time.time(), plan)
            firnd.call("POST", "/jobs", text)
            waiting.pop(0)
        listed = firnd.get("/jobs?limit=1000")["jobs"]
        if not waiting:
            told.append((time.time(), firnd.get("/forecast")))
            if all(job["state"] == "succeeded" for job in listed):
                break
            bad = [job["name"] for job in listed if job["state"] in ("failed", "cancelled")]
            if bad:
                raise SystemExit(f"{policy}: {bad} failed; see {folder}")
        if time.time() - began > args.limit:
            raise SystemExit(f"{policy}: not done in {args.limit} s; see {folder}")
        time.sleep(args.every)
    ends = {}
    for job in firnd.get("/jobs?limit=1000")["jobs"]:
        full = firnd.get(f"/jobs/{job['id']}")
        if not full["name"].startswith("warm-"):
            ends[full["id"]] = (full["name"], full["submitted_s"], full["ended_s"])
    return firnd, ends, told, plans, began


def judge_eta(ends, told):
    """Errors, signed ones and hits of all forecasts of an end."""
    errors, signs, hits = [], [], []
    for _, answer in told:
        at = answer["at_s"]
        for job in answer["jobs"]:
            end = ends[job["id"]][2]
            foretold, left = job.get("finish_at_s"), end - at
            if foretold is None or left < 0.5:
                continue
            errors.append(abs(foretold - end) / left)
            signs.append((foretold - end) / left)
            low, high = job["finish_range_s"]
            hits.append(low - 0.05 <= end <= high + 0.05)
    return errors, signs, hits


def judge_plans(ends, plans):
    errors = []
    by_name = {name: end for name, _, end in ends.values()}
    for name, (at, plan) in plans.items():
        finish = plan.get("finish_s")
        if finish is None:
            continue
        left = by_name[name] - at
        errors.append((finish - left) / left)
    return errors


def work_of(firnd):
    """Seconds that the jobs of the queue trained, without starts and sharing."""
    lines = firnd.call("GET", "/trace?costs=1").splitlines()
    rows = [line.split(",") for line in lines if line and not line.startswith("#")]
    at, name = rows[0].index("duration_s"), rows[0].index("name")
    return sum(float(row[at]) for row in rows[1:] if "-warm-" not in row[name])


def mean(numbers):
    return sum(numbers) / len(numbers) if numbers else float("nan")


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parse.add_argument("--bin", default="build")
    parse.add_argument("--gpus", default="1x4:v100@16")
    parse.add_argument("--jobs", type=int, default=24)
    parse.add_argument("--length", type=float, default=1)
    parse.add_argument("--gap", type=float, default=0.4, help="mean seconds between submits")
    parse.add_argument("--every", type=float, default=0.4, help="seconds between questions")
    parse.add_argument("--policies", default="fifo,sjf,sjf-ffs")
    parse.add_argument("--set", action="append", default=[])
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--limit", type=float, default=600)
    parse.add_argument("--bar", type=float, default=0, help="percent; 0: none")
    parse.add_argument("--plan", action="store_true", help="ask firn plan before each submit")
    parse.add_argument("--torch", action="store_true")
    parse.add_argument("--show", action="store_true")
    parse.add_argument("--keep", action="store_true", help="keep the state folders")
    args = parse.parse_args()
    args.bin = os.path.abspath(args.bin)
    if args.torch:
        os.environ["PYTHONPATH"] = os.path.abspath("python")
        os.environ["FIRN_TRAIN_LIB"] = os.path.join(args.bin, "libfirn_train.so")
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    root = tempfile.mkdtemp(prefix="firn-foretold.")
    policies = args.policies.split(",")
    live, work, whatifs, failed = {}, {}, {}, False
    print("policy,forecasts,eta_error,eta_bias,in_range,plans,plan_error,jct_mean_s")
    for policy in policies:
        folder = os.path.join(root, policy)
        os.makedirs(folder, mode=0o700)
        jobs = (torch_jobs if args.torch else c_jobs)(args, folder)
        firnd, ends, told, plans, began = run_queue(args, policy, jobs, folder)
        work[policy] = work_of(firnd)
        live[policy] = mean([end - submit for _, submit, end in ends.values()])
        errors, signs, hits = judge_eta(ends, told)
        by_plan = judge_plans(ends, plans)
        print(f"{policy},{len(errors)},{mean(errors):.4f},{mean(signs):+.4f},{mean(hits):.3f},"
              f"{len(by_plan)},{mean([abs(e) for e in by_plan]):.4f},{live[policy]:.3f}",
              flush=True)
        answer = firnd.firn("whatif", "--policy", args.policies, "-o", "json",
                            "--trace", f"last-{time.time() - began + 0.3:.1f}s")
        if answer.returncode != 0:
            raise SystemExit("firn whatif: " + answer.stderr)
        for result in json.loads(answer.stdout)["results"]:
            whatifs[policy, result["policy"]] = result["jct_mean_s"]
        if args.show:
            print(firnd.call("GET", "/trace?costs=1"), firnd.call("GET", "/costs"))
        firnd.close()
        if args.bar and (mean(errors) > args.bar / 100 or mean(hits) < 0.9):
            failed = True
    # The machine may be faster in one run than in another, which no forecast knows:
    # `drift` is the training time of the same jobs in the live run over that in the
    # history, and `net` the error of a forecast that had known it.
    print("history,policy,whatif_s,live_s,error,drift,net")
    misses = []
    for (history, policy), jct_s in whatifs.items():
        miss = jct_s / live[policy] - 1
        drift = work[policy] / work[history]
        net = jct_s * drift / live[policy] - 1
        misses.append(abs(net))
        print(f"{history},{policy},{jct_s:.3f},{live[policy]:.3f},{miss:+.4f},{drift:.3f},"
              f"{net:+.4f}")
    print(f"# whatif: mean error {mean(misses):.4f}, without the machine's drift")
    if args.bar and mean(misses) > args.bar / 100:
        failed = True
    if args.keep or failed:
        print("# state: " + root)
    else:
        shutil.rmtree(root)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
