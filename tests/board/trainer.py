"""trainer.py SECONDS EVERY_S - a training that only prints lines and reports.

Reports go to firnd by FIRN_URL, as a real trainer's do: a falling loss, progress,
time of a step and memory. Takes one to seven times SECONDS, by its number. Ends
at SIGTERM.
"""
import http.client
import json
import math
import os
import random
import signal
import socket
import sys
import time


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def report(body):
    url = os.environ.get("FIRN_URL", "")
    if not url.startswith("unix:") or os.environ.get("RANK", "0") != "0":
        return
    try:
        connection = UnixConnection(url[5:])
        connection.request("POST", f"/v1/jobs/{os.environ['FIRN_JOB']}/reports", json.dumps(body),
                           {"Authorization": "Bearer " + os.environ["FIRN_TOKEN"], "Firn-Attempt": os.environ["FIRN_ATTEMPT"]})
        connection.getresponse().read()
        connection.close()
    except OSError:
        pass


signal.signal(signal.SIGTERM, lambda *_: sys.exit(83))
job = int(os.environ.get("FIRN_JOB", "1"))
seconds, every_s = float(sys.argv[1]) * (1 + job % 7), float(sys.argv[2])
began_s, rng, step = time.time(), random.Random(job), 0
while True:
    share = min(1.0, (time.time() - began_s) / seconds)
    step += 10
    loss = 0.35 + 2.1 * math.exp(-6 * share) + 0.05 * rng.random()
    print(f"epoch {step // 600}  step {step}  loss {loss:.4f}  lr {3e-4 * (1 - share):.2e}", flush=True)
    report({"step": step, "progress": share, "loss": loss, "step_s": 0.3 + 0.02 * rng.random(), "memory_mib": 9000 + 400 * rng.random(),
            "batch": 128, "nfrozen": int(share * 12)})
    if share >= 1:
        break
    time.sleep(every_s)
