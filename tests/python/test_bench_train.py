"""The scripts that measure training say so when a run failed."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parents[2] / "bench" / "gpu"


def script(name: str) -> object:
    """A script as a module."""
    with mock.patch.object(sys, "path", [str(BENCH), *sys.path]):
        return importlib.import_module(name)


def dying(*_: object, **__: object) -> subprocess.Popen:
    """A worker that prints no result."""
    errors = tempfile.TemporaryFile(mode="w+")
    words = ["sh", "-c", "echo no memory left >&2; exit 3"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=errors, text=True
    )
    process.errors = errors  # type: ignore[attr-defined]
    return process


def rows_of(path: Path) -> list[dict]:
    """A table without the lines of its origin."""
    lines = [x for x in path.read_text().splitlines() if not x.startswith("#")]
    return list(csv.DictReader(lines))


class Elastic(unittest.TestCase):
    """train_elastic.py"""

    def setUp(self) -> None:
        self.module = script("train_elastic")

    def test_dead_workers_are_failures_with_their_output(self) -> None:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            args = argparse.Namespace(
                tiny=True, device="cpu", models="resnet18", limit=120.0, out=folder
            )
            with mock.patch.object(self.module, "start", dying):
                failures = self.module.equality(args)
            rows = rows_of(Path(folder, "elastic_equal.csv"))
        self.assertEqual(len(rows), 7)
        for row in rows:
            found = {row["weights"], row["optimizer"], row["buffers"]}
            self.assertEqual(found, {"failed"}, row["run"])
        self.assertIn("a worker ended with 3:\nno memory left", failures[0])
        self.assertEqual(len(failures), 4 + 7)

    def test_the_script_ends_with_an_error(self) -> None:
        words = ["train_elastic.py", "--only", "equal", "--device", "cpu"]
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
            sys, "argv", [*words, "--tiny", "--models", "resnet18", "--out", folder]
        ), mock.patch.object(self.module, "start", dying):
            with redirect_stdout(io.StringIO()), self.assertRaises(SystemExit) as end:
                self.module.main()
        self.assertIn("no memory left", str(end.exception.code))

    def test_what_is_expected_is_told_from_what_is_not(self) -> None:
        base = {"weights": "a", "optimizer": "b"}
        base.update((f"buffers {v}", "c") for v in range(self.module.V))
        other = dict(base, weights="x")
        half = {k: v for k, v in base.items() if k != "buffers 1"}
        compare, is_expected = self.module.compare, self.module.is_as_expected
        self.assertEqual(compare(base, dict(base)), ["equal"] * 3)
        self.assertEqual(compare(base, other), ["differs", "equal", "equal"])
        self.assertEqual(compare(base, half), ["equal", "equal", "failed"])
        self.assertEqual(compare(None, None), ["failed"] * 3)
        self.assertTrue(is_expected(["equal"] * 3, "equal"))
        self.assertTrue(is_expected(["equal", "equal", "differs"], "differs"))
        self.assertFalse(is_expected(["equal"] * 3, "differs"))
        self.assertFalse(is_expected(["failed"] * 3, "equal"))
        self.assertFalse(is_expected(["differs", "equal", "failed"], "differs"))


class Parallel(unittest.TestCase):
    """train_parallel.py"""

    def setUp(self) -> None:
        self.module = script("train_parallel")

    def test_a_failed_run_has_a_row_and_the_others_go_on(self) -> None:
        def start(name: str, shape: str, args: object) -> list[float]:
            if name == "tensor":
                raise RuntimeError("tensor, tiny: its processes ended with [1, None]")
            return [1.0, 2.0, 3.0]

        todo = [(name, "tiny") for name in self.module.RUNS]
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            with mock.patch.object(self.module, "start", start):
                failures = self.module.write(
                    todo, argparse.Namespace(out=folder, device="cpu")
                )
            rows = rows_of(Path(folder, "parallel.csv"))
        self.assertEqual(
            [row["ms"] for row in rows], ["1", "1", "failed", "1", "1", "1"]
        )
        self.assertEqual(len(failures), 1)

    def test_processes_get_the_plan_of_their_run(self) -> None:
        from firn.torch.parallel_plan import Plan

        for name, (nprocs, tensor, sharded) in self.module.RUNS.items():
            env = self.module.environment(name, nprocs - 1, 1234)
            with mock.patch.dict(os.environ, env, clear=True):
                plan = Plan.of_environment()
            found = (plan.tensor * plan.replicas, plan.tensor, int(plan.sharded))
            self.assertEqual(found, (nprocs, tensor, sharded), name)

    def test_the_processes_of_a_failed_run_are_ended(self) -> None:
        children = [
            subprocess.Popen(["sh", "-c", line])
            for line in ("exit 7", "exec sleep 1000")
        ]
        reason = self.module.wait_for(children, 1e6)
        self.assertIn("ended with [7, ", reason)
        self.assertTrue(all(child.poll() is not None for child in children))

    def test_a_run_that_takes_too_long_is_ended(self) -> None:
        child = subprocess.Popen(["sleep", "1000"])
        self.assertIn("not done after 0 s", self.module.wait_for([child], 0.0))
        self.assertIsNotNone(child.poll())


class Folding(unittest.TestCase):
    """train_fold.py"""

    def test_the_bytes_that_a_mean_moves_are_counted(self) -> None:
        moved = script("train_fold").moved
        # V = 2: two read, one written; by foreach also a division
        self.assertEqual([moved(2, way) for way in ("kernel", "foreach")], [3, 5])
        # V = 4: thread 1 with one sum (3), thread 3 with two sums (4)
        self.assertEqual([moved(4, way) for way in ("kernel", "foreach")], [7, 11])
        # V = 8: 3 + 4 + 3 + 5; V = 6: 3 + 4 + thread 5 with two sums (4)
        self.assertEqual([moved(8, "kernel"), moved(6, "kernel")], [15, 11])


class Merge(unittest.TestCase):
    """merge.sh, merge_job.py, merge_table.py"""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="firn"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_of(self, way: str, seed: str, logs: list[str], ends: list[float]) -> None:
        """Writes what merge.sh keeps of a run, and adds it to the tables."""
        records = {"block": {"ended_s": 100.0}}
        for i, task in enumerate("ab"):
            records[task] = dict(
                id=2 + i, state="succeeded", epoch=1, ended_s=100 + ends[i]
            )
            (self.folder / f"{task}.log").write_text(logs[i])
        for name, record in records.items():
            (self.folder / f"{name}.json").write_text(json.dumps(record))
        table = script("merge_table")
        table.add(str(self.folder), str(self.folder), way, seed, "0.4", "0.3")

    def test_a_merged_job_is_found_in_the_log_of_its_lead(self) -> None:
        line = "job {} epoch {} metric {} steps {} device_steps {} seconds {}\n"
        first, second = line.format(2, 1, 0.41, 40, 40, 4.0), line.format(
            3, 1, 0.25, 16, 16, 2.0
        ) + line.format(3, 2, 0.31, 32, 32, 4.0)
        for name in ("merge.csv", "merge_curves.csv"):
            (self.folder / name).write_text("# device: none\n")
        self.run_of("first", "0", [first, second], [10.0, 20.0])
        self.run_of("alone", "1", [first, second], [10.0, 20.0])
        both = "trains job 3 as well\n" + line.format(
            3, 1, 0.32, 16, 30, 3.0
        ) + line.format(2, 1, 0.41, 24, 48, 5.0)
        self.run_of("merged", "1", [both, ""], [12.0, 12.0])
        found = io.StringIO()
        with redirect_stdout(found):
            script("merge_table").targets(str(self.folder), "0.5")
            script("merge_table").summary(str(self.folder))
        text = found.getvalue()
        self.assertIn("0.2050 0.1550", text)
        self.assertIn("seed 1, alone : mean completion 15.0 s", text)
        self.assertIn("both done after 12.0 s, 48 steps of the device", text)
        self.assertIn("targets met 2 of 2, starts 1+1, trained together", text)
        self.assertIn("mean completion: alone takes 1.25 times", text)
        self.assertIn("device steps: alone takes 1.50 times", text)
        rows = rows_of(self.folder / "merge.csv")
        self.assertEqual([row["met"] for row in rows], ["1"] * 6)
        self.assertEqual([row["epochs"] for row in rows], list("121211"))

    @unittest.skipUnless(os.environ.get("FIRN_SOAK"), "FIRN_SOAK is not set")
    def test_the_script_merges_two_jobs_on_a_declared_gpu(self) -> None:
        env = dict(
            os.environ, DEVICE="cpu", TINY="1", PYTHON=sys.executable, EPOCHS="3",
            MANY="32", FEW="16", SECONDS_MAX="600", OMP_NUM_THREADS="1", KIND="bytes",
            EXTRA='--length, "32", --tests, "16"', EXTRA_BASE="--base-steps 20 --length 32",
        )  # fmt: skip
        words = [BENCH / "merge.sh", BENCH.parents[1] / "build", self.folder, "1"]
        run = subprocess.run(words, env=env, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("trained together", run.stdout)
        rows = rows_of(self.folder / "merge.csv")
        self.assertEqual([row["state"] for row in rows], ["succeeded"] * 6)


class HuggingFace(unittest.TestCase):
    """train_huggingface.py"""

    def test_a_run_that_failed_is_neither_equal_nor_different(self) -> None:
        compare = script("train_huggingface").compare
        base = [6, "a", "b", "c"]
        self.assertEqual(compare(base, [6, "a", "b", "c"]), ["equal"] * 3)
        self.assertEqual(compare(base, [6, "x", "b", "c"])[0], "differs")
        self.assertEqual(compare(base, None), ["failed"] * 3)

    @unittest.skipUnless(os.environ.get("FIRN_SOAK"), "FIRN_SOAK is not set")
    def test_the_script_finds_equal_bits_on_a_cpu(self) -> None:
        if any(find_spec(name) is None for name in ("transformers", "peft", "accelerate")):
            self.skipTest("transformers, peft or accelerate is not installed")
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, BENCH / "train_huggingface.py", "--device", "cpu"]
            words += ["--tiny", "--out", folder, "--seconds", "500"]
            run = subprocess.run(words, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            rows = rows_of(Path(folder, "huggingface.csv"))
        self.assertEqual(len(rows), 9)


if __name__ == "__main__":
    unittest.main()
