"""The thin layer: files, sums, sentences."""

from __future__ import annotations

import collections
import os
import shutil
import struct
import tempfile
import unittest
import warnings
from unittest import mock

import farm
import torch

from firn import FirnError, ckpt, fold
from firn.group import Place, even_layout
from firn.report import Reporter
from firn.torch import pack, reduce, states


class Files(unittest.TestCase):
    """Checkpoints from Python."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, step: int, value: float) -> str:
        writer = ckpt.Writer(self.folder, "job", step)
        writer.put("model/w", struct.pack("<2f", 1, value), "f32", (2, 1))
        writer.put("note", b"hello")
        writer.commit()
        return os.path.join(self.folder, f"job-{step:012d}.ckpt")

    def test_a_written_section_is_read_back(self) -> None:
        with ckpt.Checkpoint.open(self.write(3, 2)) as found:
            self.assertEqual([v.name for v in found], ["model/w", "note"])
            self.assertEqual(found["model/w"].shape, (2, 1))
            self.assertEqual(found["note"].bytes(), b"hello")
            self.assertEqual(found.step, 3)
            with self.assertRaisesRegex(FirnError, "no section 'x'"):
                found["x"]

    def test_the_previous_checkpoint_replaces_a_damaged_one(self) -> None:
        self.write(1, 2)
        path = self.write(2, 2)
        with open(path, "r+b") as file:
            file.seek(60)
            file.write(b"?")
        with self.assertRaises(FirnError):
            ckpt.Checkpoint.open(path)
        found, refused = ckpt.Checkpoint.newest(self.folder, "job")
        self.assertEqual(found.step, 1)
        self.assertIn("job-000000000002.ckpt", refused)
        found.close()

    def test_a_comparison_names_what_differs(self) -> None:
        left, right = self.write(1, 2), self.write(2, 2.5)
        (found,) = ckpt.compare(left, right)
        self.assertEqual((found.name, found.kind), ("model/w", "other bits"))
        self.assertEqual((found.first, found.right), (1, 2.5))
        self.assertEqual(ckpt.compare(left, left), [])


class Sums(unittest.TestCase):
    """The C folds against torch's chain of additions."""

    def test_folds_have_the_bits_of_a_chain(self) -> None:
        for n in (1, 2, 3, 5, 8, 11):
            parts = list(torch.randn(n, 1001).unbind())
            out = torch.empty(1001)
            pointers = [p.data_ptr() for p in parts]
            fold.fold_f32(out.data_ptr(), pointers, 1001, float(n))
            chain = parts[0].clone()
            for part in parts[1:]:
                chain += part
            self.assertTrue(torch.equal(out, chain / n))
            if n >= 5:
                turned = sum(parts[::-1]) / n
                self.assertFalse(torch.equal(out, turned))

    def test_a_gradient_that_is_missing_counts_as_zeros(self) -> None:
        a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        flat = reduce.Flat([[a], [b]])
        running = reduce.Running(flat, 2)
        a.grad = torch.tensor([2.0, 4.0])
        running.put(0)
        b.grad = torch.tensor([6.0, 8.0])
        running.put(1)
        running.mean()
        self.assertEqual(a.grad.tolist(), [1, 2])
        self.assertEqual(b.grad.tolist(), [3, 4])


class Places(unittest.TestCase):
    """The environment."""

    def of(self, **env: str) -> Place:
        kept = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(kept)))
        os.environ.update(env)
        return Place.of_environment()

    def test_threads_are_laid_out_evenly_or_by_firn_layout(self) -> None:
        self.assertEqual(even_layout(8, 3), [0, 0, 0, 1, 1, 1, 2, 2])
        place = self.of(
            WORLD_SIZE="2", RANK="1", FIRN_THREADS="4", FIRN_LAYOUT="1,0,0,1"
        )
        self.assertEqual(place.mine, [0, 3])

    def test_a_layout_that_forgets_a_process_is_refused(self) -> None:
        with self.assertRaisesRegex(FirnError, "each at least once"):
            self.of(WORLD_SIZE="2", RANK="0", FIRN_THREADS="2", FIRN_LAYOUT="0,0")

    def test_an_invalid_number_names_its_variable(self) -> None:
        with self.assertRaisesRegex(FirnError, "WORLD_SIZE is 'two'"):
            self.of(WORLD_SIZE="two")


class States(unittest.TestCase):
    """Generators and the states of optimisers, as bytes and back."""

    def test_generators_go_on_where_they_were(self) -> None:
        import random

        import numpy

        for draws in range(4):
            states.seed(draws)
            numpy.random.randn(draws)
            random.gauss(0, 1)
            kept = states.of_bytes(states.to_bytes(states.take()))
            ahead = lambda: (  # noqa: E731
                random.gauss(0, 1),
                numpy.random.randn(3).tolist(),
                torch.randn(3).tolist(),
            )
            first, second = ahead(), ahead()
            states.give(kept)
            self.assertEqual(ahead(), first)
            self.assertNotEqual(first, second)

    def test_hostile_states_are_refused(self) -> None:
        good = states.encode(states.take())
        for part, bad in (("numpy", b"\xff" * 2509), ("python", b"x"), ("torch", b"")):
            with self.assertRaises(FirnError):
                states.decode({**good, part: bad})

    def test_trees_come_back_as_they_were(self) -> None:
        tree = {
            "milestones": collections.Counter({3: 1, 7: 2}),
            "betas": (0.9, 0.999),
            0: {"step": torch.tensor(3.0), "none": None, "pi": 0.1 + 0.2},
            "list": [1, [True, "x"]],
        }
        text, tensors = pack.pack({**tree, "function": len}, "optim")
        found = pack.unpack(text, tensors)
        self.assertEqual(found, tree)
        self.assertIsInstance(found["milestones"], collections.Counter)
        with self.assertRaises(FirnError):
            pack.unpack('{"tensor": "gone"}', {})

    def test_a_value_that_cannot_be_saved_is_an_error(self) -> None:
        with self.assertRaisesRegex(FirnError, "cannot be put in a checkpoint"):
            pack.pack({"x": {1, 2}}, "optim")


class Reports(unittest.TestCase):
    """Without a scheduler."""

    def test_without_a_url_nothing_is_sent_and_the_signal_is_an_order(self) -> None:
        def work() -> dict:
            reporter = Reporter()
            reporter.say(step=3, loss=0.5, parts={"forward": 0.1}, variance=[1.0])
            before = reporter.orders().stop
            os.kill(os.getpid(), 10)
            after = reporter.orders().stop
            with self.assertRaisesRegex(FirnError, "loss is nan"):
                reporter.say(loss=float("nan"))
            reporter.close()
            return {"before": before, "after": after}

        os.environ.pop("FIRN_URL", None)
        self.assertEqual(farm.run(1, work), {"before": -1, "after": 1})

    def test_a_library_that_cannot_report_says_so(self) -> None:
        """Jobs of a library without libcurl sent nothing and said nothing."""
        scheduler = {"FIRN_URL": "unix:/nowhere", "FIRN_JOB": "1"}
        with mock.patch.dict(os.environ, scheduler):
            with mock.patch("firn.report.can_send", return_value=False):
                with self.assertWarnsRegex(UserWarning, "without libcurl"):
                    Reporter().close(0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                Reporter(speaks=False).close(0)


if __name__ == "__main__":
    unittest.main()
