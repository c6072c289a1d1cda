"""The scripts that measure training say so when a run failed."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
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
            [row["ms"] for row in rows], ["1", "1", "failed", "1"]
        )
        self.assertEqual(len(failures), 1)

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


if __name__ == "__main__":
    unittest.main()
