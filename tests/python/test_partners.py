"""Two fine-tuning jobs in one set of processes: turns, checkpoints, reports."""

from __future__ import annotations

import contextlib
import glob
import http.server
import io
import json
import os
import shutil
import signal
import tempfile
import threading
import unittest
from typing import Any
from unittest import mock

import farm
import torch
from torch import nn
from torch.utils.data import TensorDataset

from firn import FirnError
from firn.report import can_send
from firn.torch import Elastic, finetune
from firn.torch.partners import Partners, Tuned, Work, run, words_of

LEAD, MATE = "11", "12"


def data(column: int, n: int) -> TensorDataset:
    """Is this column positive?"""
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(column))
    return TensorDataset(x, (x[:, column] > 0).long())


def make(words: list[str], **options: Any) -> Work:
    """A job from its command: task, samples, epochs, classes."""
    task, n, epochs, *rest = (int(word) for word in words)
    torch.manual_seed(2)
    body = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1))
    finetune.adapt(body, "lora", 2)
    torch.manual_seed(20 + task)
    model = Tuned(body, nn.Linear(12, rest[0] if rest else 2))
    live = [p for p in model.parameters() if p.requires_grad]
    kind = torch.optim.Adam if task == 0 else torch.optim.SGD
    given = {"batch_size": 4, "epochs": epochs, "threads": 2, **options}
    return Work(model, kind(live, lr=0.05), data(task, n), options=given)


def variables(folder: str, *words: int) -> dict[str, str]:
    """The environment of a lead with a partner of that command."""
    return {
        "FIRN_JOB": LEAD,
        "FIRN_DIR": f"{folder}/{LEAD}",
        "FIRN_MATE_JOB": MATE,
        "FIRN_MATE_ATTEMPT": "3",
        "FIRN_MATE_TOKEN": "secret",
        "FIRN_MATE_DIR": f"{folder}/{MATE}",
        "FIRN_MATE_ARGV": "\x1f".join(["python3", "tune.py", *map(str, words)]),
    }


def train(*words: int, stop_at: int = 0, **options: Any) -> dict:
    """One process of a lead with this command, and of its partner; ordered to
    stop at a step of the lead, if given."""

    def one(argv: list[str]) -> Work:
        work = make(argv, **options)
        if stop_at and argv[0] == str(words[0]):
            plain = work.loss

            def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                seen["turns"] = seen.get("turns", 0) + 1
                if seen["turns"] == stop_at:
                    os.kill(os.getpid(), signal.SIGUSR1)
                return plain(out, y)

            work.loss = loss
        return work

    seen: dict[str, int] = {}
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        jobs = run(one, ["./tune.py", *map(str, words)])
    for job in jobs:
        live = [p for p in job.model.parameters() if p.requires_grad]
        found[f"weights {job.name}"] = farm.digest(*live)
        found[f"steps {job.name}"] = job.step
        found[f"began {job.name}"] = job.began_with
    return found


class Scene(unittest.TestCase):
    """A folder for the checkpoints of both."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def pair(self, nprocs: int = 1, *, folder: str = "", **options: Any) -> dict:
        """A merged run to its end."""
        env = variables(folder or self.folder, 1, 16, 3)
        return farm.run(nprocs, lambda: train(0, 32, 3, **options), **env)

    def stopped(self, stop_at: int) -> None:
        """A merged run that is ordered to stop."""
        env = variables(self.folder, 1, 16, 3)
        children = farm.start(1, lambda: train(0, 32, 3, stop_at=stop_at), **env)
        farm.finish(children, 83)

    def newest(self, job: str) -> str:
        """The newest checkpoint of a job."""
        return sorted(glob.glob(f"{self.folder}/{job}/{job}-*.ckpt"))[-1]


class Merged(Scene):
    """Both jobs are trained."""

    def test_each_job_makes_all_its_steps_and_has_its_own_checkpoint(self) -> None:
        found = self.pair()
        self.assertEqual(found[f"steps {LEAD}"], 3 * 4)
        self.assertEqual(found[f"steps {MATE}"], 3 * 2)
        for job, step in ((LEAD, 12), (MATE, 6)):
            self.assertTrue(self.newest(job).endswith(f"{job}-{step:012d}.ckpt"))

    def test_the_bits_are_the_same_on_one_and_two_processes(self) -> None:
        other = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, other)
        self.assertEqual(
            farm.differing(self.pair(1), self.pair(2, folder=other)), []
        )

    def test_a_stopped_run_goes_on_with_the_same_bits(self) -> None:
        whole = self.pair()
        shutil.rmtree(self.folder)
        self.stopped(9)
        self.assertEqual(farm.differing(self.pair(), whole), [])

    def test_a_job_that_is_ahead_goes_back_to_the_partners_checkpoint(self) -> None:
        whole = self.pair(every_steps=2)
        shutil.rmtree(self.folder)
        env = variables(self.folder, 1, 16, 3)
        children = farm.start(
            1, lambda: train(0, 32, 3, stop_at=9, every_steps=2), **env
        )
        farm.finish(children, 83)
        os.remove(self.newest(MATE))  # as if killed between the two files
        self.assertEqual(farm.differing(self.pair(every_steps=2), whole), [])

    def test_a_parted_partner_goes_on_alone_from_its_checkpoint(self) -> None:
        self.stopped(15)
        step = int(self.newest(MATE)[-17:-5])
        env = {"FIRN_JOB": MATE, "FIRN_DIR": f"{self.folder}/{MATE}"}
        found = farm.run(1, lambda: train(1, 16, 3), **env)
        self.assertEqual(found[f"steps {MATE}"], 6)
        self.assertGreater(step, 0)
        self.assertLess(step, 6)

    def test_the_partners_data_are_loaded_while_the_lead_opens(self) -> None:
        whole = self.pair()
        shutil.rmtree(self.folder)

        def work() -> dict:
            threads = []

            def one(argv: list[str]) -> Work:
                made = make(argv)
                ready = made.dataset

                def load() -> TensorDataset:
                    threads.append(threading.current_thread())
                    return ready

                made.dataset = load
                return made

            with contextlib.redirect_stdout(io.StringIO()):
                jobs = run(one, ["./tune.py", "0", "32", "3"])
            found = {"apart": threads[0] is not threads[1]}
            for job in jobs:
                live = [p for p in job.model.parameters() if p.requires_grad]
                found[f"weights {job.name}"] = farm.digest(*live)
            return found

        found = farm.run(1, work, **variables(self.folder, 1, 16, 3))
        self.assertTrue(found.pop("apart"))
        self.assertEqual(found, {k: v for k, v in whole.items() if k in found})

    def test_the_lead_is_trained_alone_if_the_partners_command_is_foreign(
        self,
    ) -> None:
        env = {**variables(self.folder), "FIRN_MATE_ARGV": "tune.py\x1f--what"}
        found = farm.run(1, lambda: train(0, 32, 1), **env)
        self.assertEqual(found[f"steps {LEAD}"], 4)
        self.assertNotIn(f"steps {MATE}", found)


class After(Scene):
    """A job that begins with another's weights."""

    def test_a_job_takes_the_adapters_of_the_ended_job_but_not_its_head(self) -> None:
        env = {"FIRN_JOB": LEAD, "FIRN_DIR": f"{self.folder}/{LEAD}"}
        farm.run(1, lambda: train(0, 32, 1), **env)

        def begin() -> dict:
            work = make(["1", "16", "1", "3"])  # a head of three classes
            fresh = work.model.head.weight.clone()
            job = Elastic(work.model, work.optimizer, work.dataset, **work.options)
            up = work.model.backbone[0].up
            return {
                f"moved {job.place.rank}": bool(up.detach().abs().sum() > 0),
                f"digest {job.place.rank}": farm.digest(up),
                "head": bool(torch.equal(fresh, work.model.head.weight)),
                "began": job.began_with,
            }

        found = farm.run(
            2, begin, FIRN_AFTER=f"{self.folder}/{LEAD}", FIRN_AFTER_JOB=LEAD
        )
        self.assertTrue(found["moved 0"] and found["head"])
        self.assertEqual(found["digest 0"], found["digest 1"])
        self.assertEqual(found["began"], LEAD)

    def test_a_resumed_job_does_not_begin_with_another_again(self) -> None:
        mine = {"FIRN_JOB": MATE, "FIRN_DIR": f"{self.folder}/{MATE}"}
        farm.run(1, lambda: train(1, 16, 1), **mine)
        after = {"FIRN_AFTER": f"{self.folder}/{MATE}", "FIRN_AFTER_JOB": MATE}
        found = farm.run(1, lambda: train(1, 16, 2), **mine, **after)
        self.assertEqual(found[f"began {MATE}"], "")

    def test_a_job_that_begins_anew_forgets_its_checkpoints_once(self) -> None:
        mine = {"FIRN_JOB": LEAD, "FIRN_DIR": f"{self.folder}/{LEAD}"}
        fresh = farm.run(1, lambda: train(0, 32, 1), FIRN_JOB=LEAD)
        farm.run(1, lambda: train(0, 32, 2), **mine)
        again = farm.run(1, lambda: train(0, 32, 1), **mine, FIRN_ANEW="2")
        self.assertEqual(farm.differing(again, fresh), [])
        done = farm.run(1, lambda: train(0, 32, 1), **mine, FIRN_ANEW="2")
        self.assertEqual(done[f"steps {LEAD}"], 4)  # resumed at its end
        self.assertTrue(self.newest(LEAD).endswith("04.ckpt"))

    def test_an_ended_job_without_checkpoints_changes_nothing(self) -> None:
        after = {"FIRN_AFTER": self.folder, "FIRN_AFTER_JOB": "9"}
        found = farm.run(1, lambda: train(1, 16, 1), FIRN_JOB="1", **after)
        self.assertEqual(found["began 1"], "")


class Turns(unittest.TestCase):
    """In this process."""

    def open(self, words: list[str], **options: Any) -> Elastic:
        """A session without a folder."""
        work = make(words, resume=False, **options)
        job = Elastic(work.model, work.optimizer, work.dataset, **work.options)
        self.addCleanup(job.close)
        return job

    def test_the_adapters_are_one_and_the_heads_are_two(self) -> None:
        with mock.patch.dict(os.environ, {"FIRN_DIR": ""}):
            lead, mate = self.open(["0", "32", "2"]), self.open(["1", "16", "2"])
        pair, turns = Partners(lead, mate), []
        for job, (x, y) in pair:
            turns.append(job is mate)
            ups = [j.model.backbone[0].up for j in (lead, mate)]
            if not lead.done and not mate.done and job._inside == job.mine[0]:
                self.assertTrue(torch.equal(*ups))
            job.backward(nn.functional.cross_entropy(job.model(x), y))
        self.assertEqual((turns.count(False), turns.count(True)), (16, 8))
        self.assertFalse(torch.equal(lead.model.head.weight, mate.model.head.weight))
        base = [j.model.backbone[0].base.weight.data_ptr() for j in (lead, mate)]
        self.assertEqual(base[0], base[1])  # the frozen backbone is held once

    def test_a_target_metric_ends_one_job_and_the_other_goes_on(self) -> None:
        with mock.patch.dict(
            os.environ, {"FIRN_DIR": "", "FIRN_TARGET_METRIC": "0.5"}
        ):
            lead = self.open(["0", "32", "5"], on_epoch=lambda job: job.measured(0.6))
        with mock.patch.dict(os.environ, {"FIRN_DIR": ""}):
            mate = self.open(["1", "16", "3"])
        for job, (x, y) in Partners(lead, mate):
            job.backward(nn.functional.cross_entropy(job.model(x), y))
        self.assertEqual((lead.step, mate.step), (4, 6))
        self.assertTrue(lead.finished and lead.done)

    def test_jobs_without_a_common_parameter_are_refused(self) -> None:
        with mock.patch.dict(os.environ, {"FIRN_DIR": ""}):
            lead, mate = self.open(["0", "8", "1"]), self.open(["1", "8", "1"])
        with self.assertRaisesRegex(FirnError, "share no parameter"):
            Partners(lead, mate, shared=lambda name: False)

    def test_the_arguments_of_a_command_follow_the_programs_name(self) -> None:
        command = ("/usr/bin/python3", "-u", "/x/tune.py", "--task", "tune.py")
        self.assertEqual(words_of(command, "tune.py"), ["--task", "tune.py"])
        self.assertEqual(words_of(("a", "b"), "tune.py"), ["b"])


class Scheduler(http.server.BaseHTTPRequestHandler):
    """Takes every report and orders nothing."""

    heard: list[tuple[str, str, str, dict]] = []

    def do_POST(self) -> None:
        """A report."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        who = (self.path, self.headers["Authorization"], self.headers["Firn-Attempt"])
        Scheduler.heard.append((*who, json.loads(body)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


class Reports(Scene):
    """Over HTTP."""

    def test_each_job_reports_in_its_own_name_with_its_own_metric(self) -> None:
        if not can_send():
            self.skipTest("built without libcurl")
        Scheduler.heard = []
        server = http.server.HTTPServer(("127.0.0.1", 0), Scheduler)
        url = f"http://127.0.0.1:{server.server_address[1]}"

        def work() -> dict:
            def one(argv: list[str]) -> Work:
                made = make(argv)
                made.metric = lambda model: 0.25 + 0.5 * int(argv[0])
                return made

            with contextlib.redirect_stdout(io.StringIO()):
                run(one, ["tune.py", "0", "32", "2"])
            return {}

        env = {"FIRN_URL": url, "FIRN_TOKEN": "lead", "FIRN_ATTEMPT": "7"}
        children = farm.start(1, work, **variables(self.folder, 1, 16, 2), **env)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        farm.finish(children)
        server.shutdown()
        server.server_close()
        for job, token, attempt, metric in (
            (LEAD, "lead", "7", 0.25),
            (MATE, "secret", "3", 0.75),
        ):
            mine = [h for h in Scheduler.heard if h[0] == f"/jobs/{job}/reports"]
            self.assertEqual(
                {h[1:3] for h in mine}, {(f"Bearer {token}", attempt)}
            )
            last = mine[-1][3]
            self.assertEqual((last["progress"], last["epoch"]), (1, 2))
            self.assertEqual(last["metric"], metric)
            can = set(mine[0][3]["can"].split(","))
            self.assertLessEqual({"resize", "after", "partner"}, can)
            place = last["embedding"]
            self.assertEqual(len(place), 32)
            self.assertGreater(sum(place), 0)
            self.assertGreater(last["prepare_s"], 0)
            own_s = sum(last["part_s"].values())
            self.assertGreater(last["step_s"], own_s)  # counts the partner's steps


if __name__ == "__main__":
    unittest.main()
