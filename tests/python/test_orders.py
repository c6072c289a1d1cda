"""A scheduler of a few lines: it hears reports and its orders are obeyed."""

from __future__ import annotations

import http.server
import json
import threading
import unittest
from typing import Callable

import farm
import scene
from torch.nn.functional import cross_entropy

from firn.report import can_send
from firn.torch import Elastic


class Scheduler(http.server.BaseHTTPRequestHandler):
    """Takes every report; orders two frozen layers and two passes."""

    heard: list[tuple[str, dict]] = []

    def do_POST(self) -> None:
        """A report."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Scheduler.heard.append((self.path, json.loads(body)))
        answer = b'{"nfrozen": 2, "passes": 2}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def job(last: int = 1) -> dict:
    """Trains until it is told to freeze up to this layer, and a little on."""
    model = scene.network()
    told: dict = {}
    elastic = Elastic(
        model,
        scene.optimizer_of(model),
        scene.Noisy(),
        threads=4,
        batch_size=scene.BATCH,
        epochs=4000,
        report_every=1,
    )
    for x, y in elastic:
        passes = 0
        for part, labels, weight in elastic.passes(x, y):
            elastic.backward(cross_entropy(model(part), labels) * weight)
            passes += 1
        frozen = [layer.params[0].grad is None for layer in elastic.layers]
        if frozen[last] and passes == 2 and elastic.epoch >= 2:
            rank = elastic.place.rank
            told = {f"frozen {rank}": frozen, f"at {rank}": elastic.step}
            break
    told[f"log {rank}"] = [vars(d) for d in elastic.freezer.log()]
    elastic.reporter.close()
    return told


class Orders(unittest.TestCase):
    """Over HTTP."""

    def ordered(self, nprocs: int, work: Callable[[], dict], **env: str) -> dict:
        """What the processes say that were given orders."""
        if not can_send():
            self.skipTest("built without libcurl")
        Scheduler.heard = []
        server = http.server.HTTPServer(("127.0.0.1", 0), Scheduler)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        children = farm.start(nprocs, work, FIRN_URL=url, FIRN_JOB="ordered", **env)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        found = farm.finish(children)
        server.shutdown()
        server.server_close()
        return found

    def test_an_order_beyond_the_limit_is_cut_off_there(self) -> None:
        found = self.ordered(1, lambda: job(0), FIRN_FREEZE_MAX="0.25")
        self.assertEqual(found["frozen 0"], [True, False, False, False])
        kinds = {d["kind"]: d["value"] for d in found["log 0"]}
        self.assertEqual(kinds, {"frozen": 1, "passes": 2})

    def test_two_processes_freeze_at_the_same_step_when_ordered(self) -> None:
        found = self.ordered(2, job)
        self.assertEqual(found["frozen 0"], [True, True, False, False])
        self.assertEqual(found["at 0"], found["at 1"])
        self.assertEqual(found["log 0"], found["log 1"])
        kinds = {d["kind"]: d["value"] for d in found["log 0"]}
        self.assertEqual(kinds, {"frozen": 2, "passes": 2})
        path, report = Scheduler.heard[0]
        self.assertEqual(path, "/jobs/ordered/reports")
        self.assertEqual(report["nthreads"], 4)
        self.assertGreater(report["loss"], 0)
        variances = [r["variance"] for _, r in Scheduler.heard if "variance" in r]
        self.assertTrue(variances)
        self.assertTrue(all(len(v) == 4 and min(v) >= 0 for v in variances))


if __name__ == "__main__":
    unittest.main()
