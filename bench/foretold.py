#!/usr/bin/env python3
"""foretold.py - forecasts of firnd held against what happened.

    bench/foretold.py --bin build --jobs 24 --policies fifo,sjf,sjf-ffs,firn
    bench/foretold.py --bin BIN --torch          # on a machine with a GPU

Runs the same queue of real training jobs under each policy, live: C trainers on
virtual GPUs, whose steps take what they take on a GPU whatever the CPUs do
(examples/gpu.c), or PyTorch jobs (--torch) on the GPU of this machine, with
prepared starts. `--gpus 1x4:h200@35` declares it as four slots, so that four jobs
run at a time and none is prepared; all of them slow each other down then, which
firnd cannot know. First, one scheduler runs jobs of each
application alone and, unless --no-pairs is given, each pair of applications on
one GPU; every queue begins with what that one has measured.

While a queue runs the script asks firnd for its forecast of every job (GET
/forecast, which is `firn eta` of all jobs at once) and, before each submit, `firn
plan` for that job. After a queue it asks `firn whatif` what the other policies
would have done. Three tables:

  eta     |foretold end - end| over the time that was left when it was foretold,
          of forecasts behind the last submit; how many ends lie in the range
  plan    the same for the end that `firn plan` foretold before the submit. It
          promises an end if nothing is submitted later; so jobs are left out that
          a later one passed, or joined on their GPUs, and those that were there when
          another job was stopped behind a later submit. `moved` are plans of jobs
          whose end a later submit changed by firnd's own word (GET /forecast right before
          and right behind that submit); they count for themselves
  whatif  mean completion time by `firn whatif` from the history of one policy
          over that of the live run under the other; `net` without what the
          machine was faster or slower in that run

`slower` is the training time of the jobs over that of their virtual GPUs: above
about 1.1 the machine was too busy for the trainers to keep up, and no forecast can
know that.

--keep leaves the folder of a run. --record FOLDER writes what is needed to find out
later where errors came from into FOLDER/POLICY.json.gz: every forecast, the jobs as they
were at the end, plans, the costs that firnd has measured, and the queue as a trace.
--resume FOLDER goes on with a kept run that had no time for all of its policies
(--seconds): with what it measured first, with the same jobs, and with its rows in the
tables.

--bar P ends with status 1 where a mean over all policies is above P percent, or
the ranges hold less than nine of ten ends (--in-range). --slower X ends with status 77
and judges nothing where `slower` is above X. Python's standard library only.
"""
import argparse
import atexit
import gzip
import http.client
import json
import math
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
                   "--socket", self.socket, "--allow-root", "--policy", policy]
        if args.gpus:
            command += ["--gpus", args.gpus]
        for setting in args.set:
            command += ["--set", setting]
        self.log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log)
        atexit.register(self.stop)  # also after an error
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

    def stop(self):
        """Jobs would go on without their scheduler."""
        if self.process.poll() is not None:
            return
        try:
            jobs = self.get("/jobs?limit=1000")["jobs"]
            ids = [str(job["id"]) for job in jobs if job["state"] in ("pending", "running")]
            self.firn("cancel", "--force", *ids)
        finally:  # also one that does not answer
            self.process.terminate()

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Job:
    """One job of a queue: `units` are epochs of a C trainer, steps of PyTorch."""

    def __init__(self, name, app, units, submit_s):
        self.name, self.app, self.units, self.submit_s = name, app, units, submit_s


class Line:
    """What users go by who have seen two jobs of the application: seconds of a start,
    and of a step."""

    def __init__(self, lines):
        self.lines = lines  # by application

    def learn(self, app, units, took_s):
        unit_s = max(took_s[1] - took_s[0], 0) / (units[1] - units[0])
        self.lines[app] = (took_s[0] - unit_s * units[0], unit_s)

    def says_s(self, job):
        start_s, unit_s = self.lines.get(job.app, (0, 0))
        return start_s + job.units * unit_s


class Kept:
    """What a run that goes on later has to know again, in its folder: what users
    learned of jobs alone, and the rows of the policies that were run."""

    def __init__(self, args, root):
        self.path = os.path.join(root, "kept.json")
        self.own = {"lines": {}, "rows": {}, "jobs": [args.torch, args.jobs, args.seed, args.length,
                                                      args.gap, args.clock, args.gpus]}
        if args.resume:
            self.read()

    def read(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                own = json.load(file)
        except OSError as error:
            raise SystemExit(f"--resume: {error.strerror}: {self.path}; it is the folder that "
                             "a run with --keep prints last") from error
        if own["jobs"] != self.own["jobs"]:
            raise SystemExit("--resume: that run had another queue (jobs, seed, length, gap, "
                             "clock, GPUs)")
        self.own = own

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.own, file)


class Trainers:
    """C trainers: by application pace of a step in ms, start-up in ms, GPUs, the
    least and most epochs of 16 steps, and the seconds behind the last step. `busy` are
    about as long as the PyTorch jobs below on an H200."""

    apps = {"small": (20, 400, 1, 6, 12, 0), "medium": (30, 600, 1, 6, 14, 0),
            "large": (40, 800, 1, 6, 16, 0), "wide": (60, 700, 2, 3, 5, 0)}
    busy = {"resnet": (30, 8000, 1, 5, 17, 1.3), "gpt": (30, 8000, 1, 5, 15, 4.4)}
    slow = {"resnet": 2, "gpt": 1}
    variables = ()

    def __init__(self, args, folder, lines):
        self.program = os.path.abspath(os.path.join(args.bin, "examples/cnn"))
        self.ahead = ["--ahead", "1"] if args.ahead else []
        apps = self.busy if args.busy else self.apps
        self.apps = {app: (round(row[0] * args.clock), round(row[1] * args.start * args.clock),
                           *row[2:5], (row[5] + args.end) * args.clock)
                     for app, row in apps.items() if row[2] == 1 or not args.ahead}
        self.beside = ["--beside", str(args.beside)]
        self.line = Line(lines) if args.unsure else None
        self.slow = {app: self.slow.get(app, 0) * args.clock * args.slow for app in self.apps}
        self.seed = args.seed
        self.drift = 1 + args.drift / 100
        self.turns = os.path.join(folder, "turns")
        os.makedirs(self.turns, exist_ok=True)

    def start_ms(self, job):
        """By application; of users who are unsure, up to a fifth more or less."""
        start = self.apps[job.app][1]
        draw = random.Random(f"{self.seed} {job.name}")
        return round(start * draw.uniform(0.8, 1.2)) if self.line else start

    def gpus(self, app):
        return self.apps[app][2]

    def words(self, job):
        pace, _, gpus, _, _, end_s = self.apps[job.app]
        times = 1 if job.name.startswith("warm-") else self.drift
        return [self.program, "--threads", str(gpus), "--batch", "4", "--samples", "64",
                "--epochs", str(job.units), "--judge", "0", "--pace", str(round(pace * times)),
                "--start", str(round(self.start_ms(job) * times)),
                "--end", str(round(end_s * times * 1e3)),
                "--slow", str(round(self.slow[job.app] * times * 1e3)),
                "--turns", self.turns, "--quiet", "1", *self.ahead, *self.beside]

    def awake(self):
        """What the machine does once, before the first job."""

    def lone_units(self, app):
        return self.apps[app][3:5] if self.line else (4,)

    def beside_units(self, app):
        """Of a job that pairs are measured with."""
        del app
        return 6

    def gib(self, app):
        del app
        return 4

    def learn(self, app, took_s):
        """What jobs of lone_units() took, from start to end. Users who are not unsure
        know it."""
        if self.line:
            self.line.learn(app, self.lone_units(app), took_s)

    def training_s(self, job):
        """Seconds of a GPU, from the first step to the end."""
        return job.units * 16 * self.apps[job.app][0] * 1e-3 + self.apps[job.app][5]

    def whole(self, units):
        return max(1, round(units))

    def iterations(self, job):
        return 16 * job.units  # 64 samples in batches of 4

    def alone_s(self, job):
        """What the job's user says: right but for a tenth of a second or two, or by
        two jobs that were seen."""
        if self.line:
            return self.line.says_s(job)
        start = self.apps[job.app][1]
        return start * 1e-3 + self.slow[job.app] + self.training_s(job) + 0.1


class Torch:
    """PyTorch jobs of bench/gpu/mixed_job.py: model, GiB, GPUs, the least and most
    steps, and the batch (0: the model's own). Both models keep the GPU busy: what a
    step of a small one takes is up to the CPUs, and the same job took 4.1 to 5.4 ms
    for one on an H200 that it had alone (--small has those); ResNet50 with a batch of
    32 used the GPU for two thirds of its time. In the queue users go by what the two jobs of the
    application took that ran alone before; of those they said nothing. Before all of
    them a job runs without a scheduler: the first one of a machine reads the libraries
    from disk, and its start is seconds longer than those of the others."""

    apps = {"resnet": ("resnet50", 16, 1, 40, 136, 128),
            "gpt": ("gpt2-small", 10, 1, 50, 150, 0)}
    small = {"cnn": ("cnn", 4, 1, 800, 2400, 0), "resnet": ("resnet18", 4, 1, 250, 700, 0)}
    variables = ("PYTHONPATH", "FIRN_TRAIN_LIB", "CUBLAS_WORKSPACE_CONFIG")

    def __init__(self, args, folder, lines):
        del folder
        self.device = args.device
        is_small = args.small or args.device == "cpu"
        self.tiny = ["--tiny"] if is_small else []
        self.apps = self.small if is_small else self.apps
        self.before = ["env", "CUDA_VISIBLE_DEVICES=0"] if args.is_split else []
        self.line = Line(lines)

    def awake(self):
        job = Job("first", sorted(self.apps)[0], self.whole(10), 0)
        if subprocess.run(self.words(job), stdout=subprocess.DEVNULL, check=False).returncode:
            raise SystemExit("the first PyTorch job failed: " + " ".join(self.words(job)))

    def gpus(self, app):
        return self.apps[app][2]

    def words(self, job):
        program = os.path.join(HERE, "gpu", "mixed_job.py")
        return [*self.before, sys.executable, program, "--device", self.device, *self.tiny,
                "--model", self.apps[job.app][0], "--steps", str(self.iterations(job)),
                "--batch", str(self.apps[job.app][5])]

    def training_s(self, job):
        del job
        return float("nan")  # not known

    def whole(self, units):
        """Steps: mixed_job.py does a multiple of eight."""
        return 8 * max(2, math.ceil(units / 8))

    def iterations(self, job):
        return job.units

    def lone_units(self, app):
        return tuple(self.whole(units) for units in self.apps[app][3:5])

    def beside_units(self, app):
        return self.whole(sum(self.apps[app][3:5]) // 2)

    def gib(self, app):
        return self.apps[app][1]

    def learn(self, app, took_s):
        """What jobs of lone_units() took, from start to end."""
        self.line.learn(app, self.lone_units(app), took_s)

    def alone_s(self, job):
        return self.line.says_s(job)


MOVES, MOVES_LEAST_S = 0.01, 0.05  # share of the time left, seconds
HERE = os.path.dirname(os.path.abspath(__file__))


def make_queue(args, kind):
    """Jobs with random applications, lengths and times of submit."""
    draw = random.Random(args.seed)
    queue, at = [], 0.0
    for i in range(args.jobs):
        app = draw.choice(sorted(kind.apps))
        least, most = kind.apps[app][3:5]
        units = kind.whole(draw.uniform(least, most) * args.length)
        queue.append(Job(f"j{i}", app, units, at))
        at += draw.expovariate(1) * args.gap
    return queue


def yaml_of(kind, job, args):
    run = ", ".join(json.dumps(word) for word in kind.words(job))
    gpus = kind.gpus(job.app)
    more = (f"share: allowed\nmemory: {kind.gib(job.app)}\ncheckpoint: {{grace: 10}}\n"
            if gpus == 1 else "")
    alone_s = kind.alone_s(job)
    said = f"duration: {alone_s:.1f}s\n" if alone_s > 0 else ""
    if args.iterations:
        said += f"target: {{iterations: {kind.iterations(job)}}}\n"
    env = json.dumps({name: os.environ[name] for name in kind.variables})
    return (f"name: {job.name}\nrun: [{run}]\ngpus: {gpus}\napp: {job.app}\n"
            f"env: {env}\n{said}{more}")


def wait_all(firnd, args, what, is_good):
    until = time.time() + args.limit
    while True:
        listed = firnd.get("/jobs?limit=1000")["jobs"]
        bad = [job["name"] for job in listed if job["state"] in ("failed", "cancelled")]
        if bad:
            raise SystemExit(f"{what}: {bad} failed; see {firnd.folder}")
        if all(is_good(job["state"]) for job in listed):
            return
        if time.time() > until:
            raise SystemExit(f"{what}: not done in {args.limit} s; see {firnd.folder}")
        time.sleep(args.every / 2)


def missing_pairs(firnd, kind):
    """Pairs of applications that share GPUs and were not measured both ways."""
    seen = {(row["app"], row["other"]) for row in firnd.get("/costs")["pairs"]}
    apps = sorted(app for app in kind.apps if kind.gpus(app) == 1)
    return [(a, b) for i, a in enumerate(apps) for b in apps[i:]
            if (a, b) not in seen or (b, a) not in seen]


def warm_up(args, kind, folder, ngpus):
    """What the schedulers know of the applications before a queue begins: each
    alone, then, under a policy that shares GPUs, each pair of them."""
    kind.awake()
    firnd = Firnd(args, "sjf-ffs", folder)
    number = 0
    lone = [(app, nth, units) for app in sorted(kind.apps)
            for nth, units in enumerate(kind.lone_units(app))]
    for app, nth, units in lone:
        firnd.call("POST", "/jobs", yaml_of(kind, Job(f"warm-{app}-{nth}", app, units, 0), args))
        if len(lone) > ngpus:  # else they would share
            wait_all(firnd, args, "a job alone", lambda state: state == "succeeded")
    wait_all(firnd, args, "jobs alone", lambda state: state == "succeeded")
    took_s = {job["name"]: job["ended_s"] - job["started_s"]
              for job in firnd.get("/jobs?limit=1000")["jobs"]}
    for app in sorted(kind.apps):
        kind.learn(app, [took_s[f"warm-{app}-{nth}"] for a, nth, _ in lone if a == app])
    for _ in range(args.pair_rounds):
        pairs = missing_pairs(firnd, kind)[:ngpus]
        if not pairs:
            break
        pairs += [pairs[0]] * (ngpus - len(pairs))  # so that no GPU is free
        for side in (0, 1):
            for pair in pairs:
                number += 1
                job = Job(f"warm-{number}-{pair[side]}", pair[side],
                          kind.beside_units(pair[side]), 0)
                firnd.call("POST", "/jobs", yaml_of(kind, job, args))
        wait_all(firnd, args, "pairs", lambda state: state == "succeeded")
    if args.pair_rounds and missing_pairs(firnd, kind):
        print(f"# not measured on one GPU: {missing_pairs(firnd, kind)}")
    if args.show:
        print(firnd.call("GET", "/costs"))
    firnd.close()


def ask_plan(firnd, args, kind, job):
    """When the job ends by `firn plan`, in seconds since 1970; None: not asked."""
    if not args.plan:
        return None
    plan = json.loads(firnd.call("POST", "/plan", yaml_of(kind, job, args)))
    finish_s = plan.get("finish_s")
    now_s = time.time()
    return None if finish_s is None else (now_s, now_s + finish_s)


def ask_ends(firnd, args):
    """When each job that has not ended will, by its number, in seconds since 1970."""
    if not args.plan:
        return {}
    ends = {job["id"]: job.get("finish_at_s") for job in firnd.get("/forecast?fresh=1")["jobs"]}
    return {number: end_s for number, end_s in ends.items() if end_s is not None}


def note_moves(before, after, moved):
    """Into `moved`, by job, seconds by which a submit between the two moved its end."""
    now_s = time.time()
    for number in sorted(before.keys() & after.keys()):
        by_s = after[number] - before[number]
        if abs(by_s) > max(MOVES * (after[number] - now_s), MOVES_LEAST_S):
            moved.setdefault(number, []).append(by_s)


def run_queue(args, policy, kind, queue, folder):
    """Returns the scheduler, still up, the jobs, and what was foretold."""
    firnd = Firnd(args, policy, folder)
    began = time.time()
    waiting, told, plans, moved = list(queue), [], {}, {}
    while True:
        while waiting and waiting[0].submit_s <= time.time() - began:
            job = waiting.pop(0)
            before = ask_ends(firnd, args)
            plans[job.name] = ask_plan(firnd, args, kind, job)
            firnd.call("POST", "/jobs", yaml_of(kind, job, args))
            note_moves(before, ask_ends(firnd, args), moved)
        listed = firnd.get("/jobs?limit=1000")["jobs"]
        if not waiting:
            answer = firnd.get("/forecast")
            if not told or answer["at_s"] != told[-1]["at_s"]:
                told.append(answer)
            if all(job["state"] == "succeeded" for job in listed):
                break
            bad = [job["name"] for job in listed if job["state"] in ("failed", "cancelled")]
            if bad:
                raise SystemExit(f"{policy}: {bad} failed; see {folder}")
        if time.time() - began > args.limit:
            raise SystemExit(f"{policy}: not done in {args.limit} s; see {folder}")
        time.sleep(args.every)
    jobs = {}
    for job in listed:
        if not job["name"].startswith("warm-"):
            jobs[job["id"]] = firnd.get(f"/jobs/{job['id']}")
    return firnd, jobs, told, plans, moved


def judge_eta(jobs, told):
    """Errors, signed ones and hits of all forecasts of an end."""
    errors, signs, hits = [], [], []
    for answer in told:
        at = answer["at_s"]
        for job in answer["jobs"]:
            end = jobs[job["id"]]["ended_s"]
            foretold, left = job.get("finish_at_s"), end - at
            if foretold is None or left < 0.5:
                continue
            errors.append(abs(foretold - end) / left)
            signs.append((foretold - end) / left)
            low, high = job["finish_range_s"]
            hits.append(low - 0.05 <= end <= high + 0.05)
    return errors, signs, hits


def is_disturbed(job, jobs):
    """A job that was submitted later started before this one, or beside it; or
    behind its submit another job was stopped while this one was there."""
    later_s = [o["submitted_s"] for o in jobs.values() if o["submitted_s"] > job["submitted_s"]]
    stops_s = [a["ended_s"] for o in jobs.values() if o is not job for a in o["attempts"][:-1]]
    if any(min(later_s, default=stop_s) < stop_s < job["ended_s"] for stop_s in stops_s):
        return True
    for other in jobs.values():
        if other["submitted_s"] <= job["submitted_s"]:
            continue
        beside = {a["gpus"] for a in other["attempts"]} & {a["gpus"] for a in job["attempts"]}
        if other["started_s"] < job["started_s"] or (
                beside and other["started_s"] < job["ended_s"]):
            return True
        if len(job["attempts"]) > 1 and other["started_s"] < job["ended_s"]:
            return True
    return False


def judge_plans(jobs, plans, moved):
    """Errors of plans that count, and of those that do not because firnd moved them."""
    errors, of_moved = [], []
    for job in jobs.values():
        if plans.get(job["name"]) and not is_disturbed(job, jobs):
            at, finish = plans[job["name"]]
            error = (finish - job["ended_s"]) / (job["ended_s"] - at)
            (of_moved if job["id"] in moved else errors).append(error)
    return errors, of_moved


def work_of(firnd):
    """Seconds that the jobs of the queue trained, without starts and sharing."""
    lines = firnd.call("GET", "/trace?costs=1").splitlines()
    rows = [line.split(",") for line in lines if line and not line.startswith("#")]
    at, name = rows[0].index("duration_s"), rows[0].index("name")
    return sum(float(row[at]) for row in rows[1:] if "-warm-" not in row[name])


def mean(numbers):
    return sum(numbers) / len(numbers) if numbers else float("nan")


def arguments():
    parse = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parse.add_argument("--bin", default="build")
    parse.add_argument("--gpus", default="1x4:v100@16", help="declared; '': those found")
    parse.add_argument("--jobs", type=int, default=24)
    parse.add_argument("--length", type=float, default=1)
    parse.add_argument("--gap", type=float, default=0.4, help="mean seconds between submits")
    parse.add_argument("--every", type=float, default=0.4, help="seconds between questions")
    parse.add_argument("--policies", default="fifo,sjf,sjf-ffs,firn")
    parse.add_argument("--set", action="append", default=[])
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--limit", type=float, default=600, help="seconds of one queue")
    parse.add_argument("--bar", type=float, default=0, help="percent; 0: none")
    parse.add_argument("--slower", type=float, default=0,
                       help="ends with status 77 if jobs take this many times their time")
    parse.add_argument("--in-range", type=float, default=0.9,
                       help="with --bar: ends that the ranges must hold")
    parse.add_argument("--seconds", type=float, default=1e9,
                       help="begin no queue later than this")
    parse.add_argument("--no-plan", dest="plan", action="store_false",
                       help="do not ask firn plan before each submit")
    parse.add_argument("--no-pairs", dest="pair_rounds", action="store_const", const=0,
                       default=3, help="measure no pairs on one GPU beforehand")
    parse.add_argument("--ahead", type=int, default=0,
                       help="N: C trainers of one GPU that wait for it; N of them are "
                       "started before it is free")
    parse.add_argument("--start", type=float, default=1,
                       help="start-up times of C trainers, as a multiple")
    parse.add_argument("--end", type=float, default=0,
                       help="seconds that a C trainer holds its GPUs behind its last step")
    parse.add_argument("--slow-steps", dest="slow", type=float, default=0,
                       help="of --busy: times the 1 to 2 s that the first ten steps take longer")
    parse.add_argument("--drift", type=float, default=0, metavar="PERCENT",
                       help="C trainers of the queue take so much longer than those before it, "
                       "in their starts, steps and ends")
    parse.add_argument("--busy", action="store_true",
                       help="C trainers like PyTorch jobs that keep an H200 busy; 20 of them "
                       "on one GPU, one prepared")
    parse.add_argument("--clock", type=float, default=1,
                       help="steps, starts and ends of C trainers and all gaps, as a multiple")
    parse.add_argument("--beside", type=int, default=50,
                       help="percent of another C trainer's time for a step by which a step "
                       "beside it takes longer")
    parse.add_argument("--unsure", action="store_true",
                       help="starts of C trainers vary by a fifth, and users go by what two "
                       "jobs took, as those of PyTorch jobs do")
    parse.add_argument("--iterations", action="store_true",
                       help="users say how many iterations their jobs make, besides about "
                       "how long they take")
    parse.add_argument("--torch", action="store_true",
                       help="PyTorch jobs on one GPU; 20 jobs under fifo, sjf-ffs and firn "
                       "unless --jobs and --policies say otherwise")
    parse.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                       help="of PyTorch jobs; cpu: to try the script")
    parse.add_argument("--small", action="store_true",
                       help="PyTorch jobs whose steps are up to the CPUs")
    parse.add_argument("--show", action="store_true")
    parse.add_argument("--keep", action="store_true", help="keep the state folders")
    parse.add_argument("--record", default="", metavar="FOLDER",
                       help="write forecasts, jobs and costs of each policy into it")
    parse.add_argument("--resume", default="", metavar="FOLDER",
                       help="go on with a kept run: the policies that it has not run yet")
    args = parse.parse_args()
    if args.drift and args.torch:
        parse.error("--drift is for C trainers, not for --torch")
    if not -90 <= args.drift <= 1000:
        parse.error(f"--drift: {args.drift:g} percent is not between -90 and 1000")
    if args.record:
        try:
            os.makedirs(args.record, exist_ok=True)
        except OSError as error:
            parse.error(f"--record: {error.strerror}: {error.filename}")
    args.bin = os.path.abspath(args.bin)
    given = {word.split("=")[0] for word in sys.argv[1:]}
    args.gap *= args.clock
    if args.busy:
        args.gpus = args.gpus if "--gpus" in given else "1x1:v100@16"
        args.jobs = args.jobs if "--jobs" in given else 20
        args.ahead = args.ahead if "--ahead" in given else 1
    args.set += [f"local.ahead={args.ahead}"] if args.ahead else []
    if args.torch:
        found = "" if args.device == "cuda" else "1x1:h200@140"
        args.gpus = args.gpus if "--gpus" in given else found
        args.is_split = args.gpus not in ("", found)  # all slots are GPU 0
        args.set += ["local.ahead=0"] if args.is_split else []
        args.jobs = args.jobs if "--jobs" in given else 20
        args.policies = args.policies if "--policies" in given else "fifo,sjf-ffs,firn"
        os.environ["PYTHONPATH"] = os.path.abspath(os.path.join(HERE, "../python"))
        os.environ["FIRN_TRAIN_LIB"] = os.path.join(args.bin, "libfirn_train.so")
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return args


def since_warm_up(firnd):
    """Seconds since the middle of the time between the last submit of the warm-up and
    the first of the queue: firn whatif counts in seconds and may be asked late, but
    still has all jobs of the queue and none of the warm-up."""
    listed = firnd.get("/jobs?limit=1000")["jobs"]
    last_s = max(job["submitted_s"] for job in listed if job["name"].startswith("warm-"))
    first_s = min(job["submitted_s"] for job in listed if job["submitted_s"] > last_s)
    return time.time() - (last_s + first_s) / 2


def one_policy(args, policy, kind, root):
    """Runs the queue under one policy; a row of results."""
    folder = os.path.join(root, policy)
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was broken off
    os.makedirs(folder, mode=0o700)
    shutil.copytree(os.path.join(root, "warm", "state"), os.path.join(folder, "state"))
    queue = make_queue(args, kind)
    firnd, jobs, told, plans, moved = run_queue(args, policy, kind, queue, folder)
    errors, signs, hits = judge_eta(jobs, told)
    by_plan, of_moved = judge_plans(jobs, plans, moved)
    jct_s = mean([job["ended_s"] - job["submitted_s"] for job in jobs.values()])
    work_s = work_of(firnd)
    slower = work_s / sum(kind.training_s(job) for job in queue)
    print(f"{policy},{len(errors)},{mean(errors):.4f},{mean(signs):+.4f},{mean(hits):.3f},"
          f"{len(by_plan)},{mean([abs(e) for e in by_plan]):.4f},{mean(by_plan):+.4f},"
          f"{len(of_moved)},{mean([abs(e) for e in of_moved]):.4f},{jct_s:.3f},{slower:.3f}",
          flush=True)
    answer = firnd.firn("whatif", "--policy", args.policies, "-o", "json",
                        "--trace", f"last-{since_warm_up(firnd):.1f}s")
    if answer.returncode != 0:
        raise SystemExit("firn whatif: " + answer.stderr)
    whatif = {row["policy"]: row["jct_mean_s"] for row in json.loads(answer.stdout)["results"]}
    trace, costs = firnd.call("GET", "/trace?costs=1"), firnd.call("GET", "/costs")
    if args.show:
        print(trace, costs)
    if args.record:
        with gzip.open(os.path.join(args.record, policy + ".json.gz"), "wt") as file:
            json.dump({"jobs": jobs, "told": told, "plans": plans, "moved": moved,
                       "costs": json.loads(costs), "trace": trace}, file)
    firnd.close()
    return {"jct_s": jct_s, "work_s": work_s, "slower": slower, "whatif": whatif, "eta": mean(errors),
            "hits": mean(hits), "plan": mean([abs(e) for e in by_plan])}


def judge_whatif(rows):
    """Prints the table and returns the mean error. The machine may be faster in
    one run than in another, which no forecast knows: `drift` is the training time
    of the same jobs in the live run over that in the history, and `net` the error
    of a forecast that had known it."""
    print("history,policy,whatif_s,live_s,error,drift,net")
    misses = []
    for history, row in rows.items():
        for policy, jct_s in row["whatif"].items():
            if policy not in rows:
                continue
            live = rows[policy]
            drift = live["work_s"] / row["work_s"]
            misses.append(abs(jct_s / live["jct_s"] - 1))
            print(f"{history},{policy},{jct_s:.3f},{live['jct_s']:.3f},"
                  f"{jct_s / live['jct_s'] - 1:+.4f},{drift:.3f},"
                  f"{jct_s * drift / live['jct_s'] - 1:+.4f}")
    return mean(misses)


def main():
    args = arguments()
    begin = time.time()
    root = args.resume or tempfile.mkdtemp(prefix="firn-foretold.")
    kept = Kept(args, root)
    kind = (Torch if args.torch else Trainers)(args, root, kept.own["lines"])
    if not args.resume:
        warm = os.path.join(root, "warm")
        os.makedirs(warm, mode=0o700)
        warm_up(args, kind, warm, int(args.gpus.split("x")[1].split(":")[0]) if args.gpus else 1)
        kept.write()
    rows = kept.own["rows"]
    print("policy,forecasts,eta_error,eta_bias,in_range,plans,plan_error,plan_bias,"
          "moved,moved_error,jct_mean_s,slower", flush=True)
    for policy in args.policies.split(","):
        if policy in rows:
            print(f"# {policy} was run before")
        elif time.time() - begin > args.seconds:
            print(f"# no time for {policy}")
        else:
            rows[policy] = one_policy(args, policy, kind, root)
            kept.write()
    whatif = judge_whatif(rows)
    eta, plan, hits = (mean([row[key] for row in rows.values() if row[key] == row[key]])
                       for key in ("eta", "plan", "hits"))
    print(f"# {time.time() - begin:.0f} s; mean over policies: eta {eta:.4f}, "
          f"plan {plan:.4f}, whatif {whatif:.4f}, ends in the range {hits:.3f}")
    misses = [miss for miss in (eta, plan, whatif) if miss == miss]
    slower = max((row["slower"] for row in rows.values()), default=0)
    if args.slower and slower > args.slower:
        print(f"# the machine is too busy to tell: jobs trained {slower:.1f} times as long "
              "as their virtual GPUs take")
        shutil.rmtree(root)
        sys.exit(77)
    failed = args.bar and (max(misses) > args.bar / 100 or hits < args.in_range)
    if args.keep or failed:
        print("# state: " + root)
    else:
        shutil.rmtree(root)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
