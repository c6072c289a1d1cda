"""Processes join and leave a PyTorch job while it trains; its bits stay."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
import unittest
from typing import Callable

import farm
import scene
import torch
from torch.nn.functional import cross_entropy

from firn.join import Board
from firn.torch import Elastic

STEPS = 40


class Gate:
    """Memory of all processes: the step that training may come to, and the one
    that it has come to."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    def allow(self, step: int) -> None:
        """Training may make steps below this one."""
        self._memory[:8] = struct.pack("<q", step)

    @property
    def step(self) -> int:
        """Steps made."""
        return struct.unpack("<q", self._memory[8:])[0]

    def wait(self, elastic: Elastic) -> None:
        """After a step, in a process of the job."""
        if elastic.place.rank == 0:
            self._memory[8:] = struct.pack("<q", elastic.step)
        while elastic.step >= struct.unpack("<q", self._memory[:8])[0]:
            time.sleep(0.001)


def train(gate: Gate, kind: str, **options: object) -> dict:
    """Trains to the end; digests of the weights and of each thread's context."""
    torch.manual_seed(3)
    model = scene.network()
    optimizer = scene.optimizer_of(model, kind)
    elastic = Elastic(
        model,
        optimizer,
        scene.Noisy(),
        threads=4,
        batch_size=scene.BATCH,
        epochs=1000,
        max_steps=STEPS,
        on_step=gate.wait,
        **options,
    )
    for x, y in elastic:
        elastic.backward(cross_entropy(model(x), y))
    found = {"weights": farm.digest(*model.parameters()), "steps": elastic.step}
    state = optimizer.state_dict()["state"]
    held = [t for k in sorted(state) for t in state[k].values() if t is not None]
    found["optimizer"] = farm.digest(*map(torch.as_tensor, held))
    for v in elastic.mine:
        found[f"rng {v}"] = farm.digest(elastic.rng[v].torch)
        found[f"buffers {v}"] = farm.digest(*elastic.buffers.of(v).values())
    elastic.close()
    return found


class Run:
    """A job and its supervisor."""

    def __init__(self, nprocs: int, kind: str = "sgd", **options: object) -> None:
        self.gate, self.board = Gate(), Board()
        self.work: Callable[[], dict] = lambda: train(self.gate, kind, **options)
        self.port, self.job = farm.free_port(), f"join-{os.getpid()}-{id(self)}"
        self.children = [self._start(r, nprocs) for r in range(nprocs)]

    def _start(self, rank: int, nprocs: int, order: int = 0) -> tuple[int, int]:
        """A process; one that joins has an order."""
        env = {
            "RANK": str(rank),
            "WORLD_SIZE": str(nprocs),
            "MASTER_PORT": str(self.port),
            "FIRN_JOB": self.job,
            **self.board.environment,
        }
        if order:
            env["FIRN_JOIN_ORDER"] = str(order)
        back, out = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(back)
            for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
                os.environ.pop(name, None)
            farm._child(out, self.work, env)
        os.close(out)
        return pid, back

    def _look(self, children: list[tuple[int, int]]) -> None:
        """Fails if a process has ended; leavers may."""
        for pid, back in children:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None and ended.si_status != 0:
                raise AssertionError(os.read(back, 1 << 20)[8:].decode())

    def resize(self, come_from: list[int], kills: bool = False) -> str:
        """To another layout; by new rank the old one, -1: joins."""
        order = self.board.order(len(self.children), come_from, limit_s=120)
        joiners = {
            r: self._start(r, len(come_from), order)
            for r, old in enumerate(come_from)
            if old < 0
        }
        if kills:
            for pid, _ in joiners.values():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            joiners = {}
            self.board.give_up(order)
        while self.board.state not in ("done", "failed"):
            self.gate.allow(self.gate.step + 2)
            time.sleep(0.001)
            self._look(self.children + list(joiners.values()))
        told = self.board.told()
        state = self.board.state
        if state == "done":
            old = self.children
            self.children = [
                joiners[r] if f < 0 else old[f] for r, f in enumerate(come_from)
            ]
            farm.finish([c for i, c in enumerate(old) if i not in come_from])
        else:
            for pid, _ in joiners.values():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        assert self.board.clear(order)
        self.pause_s, self.why = told.pause_s, told.why.decode()
        return state

    def finish(self) -> dict:
        """To the end of the training."""
        self.gate.allow(1 << 60)
        found = farm.finish(self.children)
        self.board.close()
        return found


class Joins(unittest.TestCase):
    """A run that is resized ends with the bits of one that never was."""

    references: dict[str, dict] = {}

    def reference(self, kind: str) -> dict:
        """The run that was never resized, made once."""
        if kind not in self.references:
            run = Run(2, kind)
            self.references[kind] = run.finish()
        return self.references[kind]

    def check(self, run: Run, kind: str) -> None:
        """All bits."""
        self.assertEqual(farm.differing(self.reference(kind), run.finish()), [])

    def test_grows_shrinks_and_moves(self) -> None:
        """From one process to three, to its last alone, to another one."""
        run = Run(1, "adam")
        self.assertEqual(run.resize([0, -1, -1]), "done", getattr(run, "why", ""))
        self.assertEqual(run.resize([2]), "done")
        self.assertEqual(run.resize([-1]), "done")
        self.assertEqual(run.resize([-1, 0]), "done")
        self.check(run, "adam")

    def test_a_dead_joiner_changes_nothing(self) -> None:
        """The old layout trains on, and the next resize works."""
        run = Run(2)
        self.assertEqual(run.resize([0, 1, -1], kills=True), "failed")
        self.assertEqual(run.resize([0, 1, -1]), "done")
        self.check(run, "sgd")

    def test_random_resizes(self) -> None:
        """Many layouts in a row; more of them in soak."""
        chance = random.Random(20)
        run = Run(2)
        for _ in range(30 if os.environ.get("FIRN_SOAK") else 4):
            if run.gate.step > STEPS - 10:
                break
            come_from: list[int] = []
            for _ in range(chance.randint(1, 4)):
                old = chance.randrange(len(run.children))
                stays = chance.random() < 0.7 and old not in come_from
                come_from.append(old if stays else -1)
            self.assertEqual(run.resize(come_from), "done")
        self.check(run, "sgd")


if __name__ == "__main__":
    unittest.main()
