"""Processes join and leave a PyTorch job while it trains; its bits stay."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import unittest
import weakref
from types import SimpleNamespace
from unittest import mock

import farm
import numpy
import resizing
import torch
from resizing import Broken, Gate, Run

from firn import FirnError
from firn.torch import joining, peers, preparing

SOAK = bool(os.environ.get("FIRN_SOAK"))
STEPS = 40
# In the check a few of the 200 resizes and 20 kills.
MANY_RESIZES, MANY_KILLS, MANY_STEPS = (200, 20, 8000) if SOAK else (5, 2, 70)


def job(nprocs: int, kind: str = "sgd", steps: int = STEPS, **options: object) -> Run:
    """A job of the scene that all tests train."""
    return Run(nprocs, lambda gate: resizing.train(gate, kind, steps, **options))


def by_the_host(gate: Gate) -> dict:
    """Trains where no process may read another one's memory."""

    def refuse(*_: object) -> None:
        raise peers.OfferError("not allowed in this test")

    with mock.patch.object(preparing, "Offer", refuse):
        return resizing.train(gate, "adam", STEPS)


def without_light(gate: Gate) -> dict:
    """Trains with all tensors counted as large ones."""
    with mock.patch.object(preparing, "LIGHT_BYTES", -1):
        return resizing.train(gate, "adam", STEPS)


def _die(*_: object) -> None:
    os._exit(9)


def _hang(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _fail(*_: object) -> None:
    raise FirnError("not allowed in this test")


FAULTS = (_die, _hang, _fail)


def with_fault(gate: Gate, point: str) -> dict:
    """Trains; the first processes that join have a fault, each another one."""
    order = int(os.environ.get("FIRN_JOIN_ORDER", "0"))
    found = getattr(joining, point)
    if 1 <= order <= len(FAULTS):
        found = FAULTS[order - 1]
    with mock.patch.object(joining, point, found):
        return resizing.train(gate, "sgd", STEPS)


def in_little_memory(gate: Gate) -> dict:
    """Trains where the first GPU that a process joins on has 1 GiB free."""
    free = (1 if os.environ.get("FIRN_JOIN_ORDER") == "1" else 4) << 30
    memory = mock.Mock(return_value=(free, 0, 2 << 30))
    with mock.patch.object(preparing, "device_memory", memory):
        return resizing.train(gate, "sgd", STEPS)


class Lent(unittest.TestCase):
    """What joiners read from the memory of process 0."""

    def test_what_is_read_stays_until_the_switch_is_over(self) -> None:
        """A tensor that was made for the list of what moves had the address of the
        offer by chance, and was freed before joiners had read it."""
        made = numpy.zeros(8192, dtype=numpy.float32)
        alive = weakref.ref(made)
        job = SimpleNamespace(
            device=torch.device("cpu"),
            freezing=SimpleNamespace(measures=None),
            **dict.fromkeys(joining._SETTINGS),
        )
        offer = SimpleNamespace(has=lambda *_: True)
        ready = preparing.Prepared(is_open=True, offer=offer)
        sections = iter([("mine", torch.from_numpy(made))])
        with mock.patch.object(joining.saving, "shared_sections", lambda _: sections):
            _, sent = joining._own(job, ready)
        del made, sections
        self.assertEqual(sent, [])
        self.assertIsNotNone(alive())
        ready.close()
        self.assertIsNone(alive())


class Joins(unittest.TestCase):
    """A run that is resized ends with the bits of one that never was."""

    references: dict[tuple, dict] = {}

    def reference(self, kind: str, steps: int, options: dict) -> dict:
        """The run that was never resized, made once."""
        key = (kind, steps, *options)
        if key not in self.references:
            self.references[key] = job(2, kind, steps, **options).finish()
        return self.references[key]

    def check(
        self, run: Run, kind: str, steps: int = STEPS, **options: object
    ) -> None:
        """All bits."""
        reference = self.reference(kind, steps, options)
        self.assertEqual(farm.differing(reference, run.finish()), [])

    def test_data_workers_and_streams_move_with_threads(self) -> None:
        """Batches that were drawn ahead are drawn again by the same states."""
        for options in ({"workers": 2}, {"stream": True, "steps_per_epoch": 5}):
            with self.subTest(**options):
                run = job(1, **options)
                self.assertEqual(run.resize([0, -1]), "done", run.why)
                self.assertEqual(run.resize([1]), "done", run.why)
                self.check(run, "sgd", **options)

    def test_grows_shrinks_and_moves(self) -> None:
        """From one process to three, to its last alone, to another one."""
        run = job(1, "adam")
        self.assertEqual(run.resize([0, -1, -1]), "done", run.why)
        self.assertEqual(run.resize([2]), "done", run.why)
        self.assertEqual(run.resize([-1]), "done", run.why)
        self.assertEqual(run.resize([-1, 0]), "done", run.why)
        self.check(run, "adam")

    def test_state_is_read_from_memory_or_sent(self) -> None:
        """Large tensors by either way."""
        for work in (by_the_host, without_light):
            with self.subTest(work.__name__):
                run = Run(1, work)
                self.assertEqual(run.resize([0, -1]), "done", run.why)
                self.assertEqual(run.resize([-1]), "done", run.why)
                self.check(run, "adam")

    def test_groups_of_torch_distributed_are_made_anew(self) -> None:
        """Gradients go by gloo before and after."""
        run = job(2, through="distributed")
        self.assertEqual(run.resize([0, 1, -1]), "done", run.why)
        self.assertEqual(run.resize([2, 1]), "done", run.why)
        self.assertEqual(run.resize([1]), "done", run.why)
        self.assertEqual(run.resize([0, -1]), "done", run.why)
        self.check(run, "sgd")

    def test_a_dead_joiner_changes_nothing(self) -> None:
        """The old layout trains on, and the next resize works."""
        run = job(2)
        self.assertEqual(run.resize([0, 1, -1], victim=2), "failed")
        self.assertEqual(run.resize([0, 1, -1]), "done", run.why)
        self.check(run, "sgd")

    def test_a_joiner_that_fails_at_any_point_changes_nothing(self) -> None:
        """It dies, hangs or fails while it prepares or in the switch: the old layout
        trains on, with no step lost, and the next joiner is taken."""
        for point in ("prepare", "_take_over"):
            run = Run(1, lambda gate: with_fault(gate, point))
            for fault in FAULTS:
                with self.subTest(point=point, fault=fault.__name__):
                    state = run.resize([0, -1], limit_s=0.5, patience_s=2)
                    self.assertEqual(state, "failed", run.why)
            self.assertEqual(run.resize([0, -1]), "done", run.why)
            self.check(run, "sgd")

    def test_a_joiner_that_does_not_fit_is_refused_before_the_switch(self) -> None:
        """The old layout trains on, and the reason has both numbers."""
        run = Run(1, in_little_memory)
        self.assertEqual(run.resize([0, -1]), "failed")
        self.assertRegex(run.why, "uses 2048 MiB .* 1024 MiB are free")
        self.assertEqual(run.resize([0, -1]), "done", run.why)
        self.check(run, "sgd")

    def test_random_resizes_with_kills(self) -> None:
        """Joiners and old processes die at any moment: the old layout trains on,
        or the job resumes from its last checkpoint."""
        chance = random.Random(20)
        kills = set(chance.sample(range(MANY_RESIZES), MANY_KILLS))
        with tempfile.TemporaryDirectory() as folder:
            run = job(2, "sgd", MANY_STEPS, folder=folder, every_steps=10)
            ends = {"done": 0, "failed": 0, "broken": 0}
            for i in range(MANY_RESIZES):
                self.assertLess(run.gate.step, MANY_STEPS - 20)
                layout = resizing.random_layout(chance, len(run.children))
                victim = chance.randrange(8) if i in kills else None
                try:
                    end = run.resize(layout, victim, chance.random() * 0.3)
                except Broken:
                    end = "broken"
                    run.start(chance.randint(1, 3))
                self.assertTrue(end == "done" or i in kills, (i, layout, run.why))
                ends[end] += 1
            self.check(run, "sgd", MANY_STEPS)
        if SOAK:
            print(f"resizes that ended {ends}")


if __name__ == "__main__":
    unittest.main()
