"""scene.py - a firnd with a past: a day of finished jobs, a queue, jobs that run
and report.

A job is submitted once, held; then firnd is stopped, its row in the state file
is copied as often as jobs are wanted, and firnd is started again. So no test
waits for a day, nor for thousands of submits. Jobs that run are real processes:
trainer.py, which prints lines and reports a falling loss.
"""
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from webdriver import free_port, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
TOKEN = "a-token-of-the-operator-for-tests"
OVER = {"succeeded": ("exit", "ended with status 0"), "failed": ("exit", "ended with status 1"),
        "cancelled": ("user", "cancelled by ann"), "lost": ("vanished", "its host is gone")}


class Scene:
    """One firnd in a folder of its own. `programs` is the folder of the build."""

    def __init__(self, gpus, policy="fifo", settings=()):
        self.programs = os.path.abspath(os.environ.get("FIRN_BUILD", "build"))
        self.folder = tempfile.mkdtemp(prefix="firn-scene-")
        os.chmod(self.folder, 0o700)
        self.socket = os.path.join(self.folder, "s")
        self.state = os.path.join(self.folder, "state")
        self.token_file = os.path.join(self.folder, "token")
        with open(os.open(self.token_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(TOKEN + "\n")
        self.arguments = ["--gpus", gpus, "--policy", policy, *[w for s in settings for w in ("--set", s)]]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        self.log = open(os.path.join(self.folder, "log"), "ab")
        root = ["--allow-root"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [os.path.join(self.programs, "firnd"), "--state", self.state, "--socket", self.socket, "--listen", f"127.0.0.1:{self.port}",
             "--token-file", self.token_file, *root, *self.arguments], stdout=self.log, stderr=self.log)
        wait_for("firnd answers", lambda: self.is_up() or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(open(os.path.join(self.folder, "log")).read())

    def is_up(self):
        try:
            return self.get("/health")["status"] == "ok"
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()
        self.process = None
        self.log.close()

    def close(self):
        """Ends all jobs, then firnd."""
        if self.process is not None and self.process.poll() is None:
            for node in self.get("/nodes")["nodes"][:20]:  # so that no waiting job takes the place of one that ends
                self.call("POST", f"/nodes/{node['name']}/drain")
            for job in self.get("/jobs?limit=100000&state=starting,running,resizing,preempting,completing")["jobs"]:
                try:
                    self.call("POST", f"/jobs/{job['id']}/cancel")
                except urllib.error.HTTPError:
                    pass
            try:
                wait_for("all jobs have ended", lambda: not self.get("/jobs?state=starting,running,resizing,preempting,completing")["jobs"], 30)
            except AssertionError:
                pass
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, path, body=None, headers=None):
        request = urllib.request.Request(f"{self.url}/v1{path}", data=body.encode() if body else (b"" if method == "POST" else None), method=method,
                                         headers={"Authorization": f"Bearer {TOKEN}", **(headers or {})})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def get(self, path):
        return self.call("GET", path)

    def submit(self, name, gpus=1, command="sleep 600", more="", query=""):
        return self.call("POST", f"/jobs{query}", f"name: {name}\nrun: {json.dumps(command)}\nworkdir: {self.folder}\ngpus: {gpus}\n{more}")["id"]

    def trainer(self, seconds=600, every_s=1.0):
        return f"{sys.executable} {HERE}/trainer.py {seconds} {every_s}"

    def board_link(self):
        """What `firn board` prints."""
        return subprocess.run([os.path.join(self.programs, "firn"), "board", "--socket", self.socket], capture_output=True, text=True, check=True, timeout=120).stdout.strip()

    # --- a past -----------------------------------------------------------------

    def forge(self, change):
        """Runs change(db, template) on the state file, with firnd stopped. The
        template is the row of a held job with trainer.py as its command."""
        if self.process is None:
            self.start()
        template = self.submit("template", command=self.trainer(), more="duration: 1h\ncheckpoint: {grace: 5}\n", query="?hold=1")
        self.stop()
        db = sqlite3.connect(os.path.join(self.state, "firn.db"))
        db.row_factory = sqlite3.Row
        row = dict(db.execute("SELECT * FROM jobs WHERE id = ?", (template,)).fetchone())
        with db:
            change(db, row)
            db.execute("DELETE FROM jobs WHERE id = ?", (template,))
            db.execute("DELETE FROM events WHERE job = ?", (template,))
        db.close()
        self.start()


def add_row(db, table, row):
    names = ", ".join(row)
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))


class Forger:
    """Writes jobs with ids from `first` on."""

    def __init__(self, db, template, first=100, seed=1):
        self.db, self.template, self.next, self.random = db, template, first, random.Random(seed)

    def job(self, **fields):
        row = dict(self.template, id=self.next, request="", token="%064x" % self.random.getrandbits(256), text="run: sleep 600\n")
        row.update(fields)
        self.next += 1
        add_row(self.db, "jobs", row)
        return row["id"]

    def event(self, at_s, job, kind, text, caller=""):
        self.db.execute("INSERT INTO events (at_s, job, kind, text, caller) VALUES (?, ?, ?, ?, ?)", (at_s, job, kind, text, caller))

    def waits(self, name, user, gpus, submitted_s, duration_s=3600, **more):
        return self.job(name=name, user=user, gpus_min=gpus, gpus_max=gpus, submitted_s=submitted_s, duration_s=duration_s, is_held=0,
                        reason="new", why="", **more)

    def ended(self, name, user, gpus, submitted_s, started_s, ended_s, held, state="succeeded", **more):
        reason, why = OVER[state]
        return self.job(name=name, user=user, gpus_min=gpus, gpus_max=gpus, submitted_s=submitted_s, started_s=started_s, ended_s=ended_s,
                        state=state, reason=reason, why=why, over=1, is_held=0, epoch=1, held="-", exit_status=0 if state == "succeeded" else 1, **more)

    def past(self, jobs):
        """Events and attempts of finished jobs, in the order of time."""
        lines = []
        for job, name, user, submitted_s, started_s, ended_s, held, state in jobs:
            lines += [(submitted_s, job, "submitted", f"{name} was submitted by {user}", user), (started_s, job, "gpus", held, ""),
                      (started_s + 0.1, job, "running", f"runs on {held}", ""), (ended_s - 0.1, job, "gpus", "-", ""), (ended_s, job, state, OVER[state][1], "")]
            add_row(self.db, "epochs", {"job": job, "epoch": 1, "started_s": started_s, "ended_s": ended_s, "how": 0, "exit_status": 0, "held": held})
        for line in sorted(lines):
            self.event(*line)


def a_day(db, template, nodes, ngpus, users=("ann", "bob", "chen", "dora", "emil", "fay"), nwaiting=14):
    """A day of jobs on `nodes` nodes of `ngpus` GPUs, and a queue."""
    now_s = time.time()
    forger = Forger(db, template)
    names = ["resnet50", "bert-large", "gpt-1b3", "vit-b16", "whisper-ft", "llama-lora", "unet-seg", "diffusion"]
    free_s = [[now_s - 86400 * (0.97 + 0.03 * forger.random.random())] * 2 for _ in range(nodes)]
    jobs = []
    for i in range(nodes):
        for half in range(2):
            n = ngpus // 2
            while free_s[i][half] < now_s - 1500:
                start_s = free_s[i][half] + forger.random.expovariate(1 / 600)
                end_s = min(start_s + forger.random.uniform(1200, 14000), now_s - 120)
                if end_s <= start_s + 60:
                    break
                k = len(jobs)
                name, user = f"{names[forger.random.randrange(len(names))]}-{k:02d}", users[min(int(forger.random.expovariate(0.6)), len(users) - 1)]
                state = "failed" if forger.random.random() < 0.06 else "succeeded"
                held = f"n{i}[{half * n}-{half * n + n - 1}]" if n > 1 else f"n{i}[{half * n}]"
                jobs.append((name, user, n, start_s - forger.random.expovariate(1 / 900), start_s, end_s, held, state))
                free_s[i][half] = end_s
    written = []
    for name, user, n, submitted_s, start_s, end_s, held, state in sorted(jobs, key=lambda j: j[3]):
        job = forger.ended(name, user, n, submitted_s, start_s, end_s, held, state)
        written.append((job, name, user, submitted_s, start_s, end_s, held, state))
    forger.past(written)
    sizes = [ngpus, ngpus // 2 or 1, 1, 2, ngpus, 1]
    for k in range(nwaiting + nodes * 2):
        name, user = f"{names[k % len(names)]}-{100 + k}", users[k * 7 % len(users)]
        job = forger.waits(name, user, min(ngpus, sizes[k % len(sizes)]), now_s - 60 * (nwaiting + nodes * 2 - k), duration_s=1200 + 700 * (k % 9))
        forger.event(now_s - 60 * (nwaiting + nodes * 2 - k), job, "submitted", f"{name} was submitted by {user}", user)
