"""resizing.py - a PyTorch job and its supervisor: processes join, leave and are
killed while it trains.

Training waits at a gate after each step, so that a test decides how far it comes:
while a resize is under way it goes on step by step.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
from typing import Callable, Iterator

import farm
import scene
import torch
from torch.nn.functional import cross_entropy

from firn.join import Board
from firn.torch import Elastic

# From step to step while a resize is under way: slower and slower, so that a busy
# machine does not use up the steps of a test.
PACE_S, PACE_MOST_S = 0.004, 1.0


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
            time.sleep(0.0005)


def digests(elastic: Elastic) -> dict:
    """Of the weights, the optimiser and each thread's context."""
    state = elastic.optimizer.state_dict()["state"]
    held = [t for k in sorted(state) for t in state[k].values() if t is not None]
    found = {
        "steps": elastic.step,
        "weights": farm.digest(*elastic.model.parameters()),
        "optimizer": farm.digest(*map(torch.as_tensor, held)),
    }
    for v in elastic.mine:
        found[f"rng {v}"] = farm.digest(elastic.rng[v].torch)
        found[f"buffers {v}"] = farm.digest(*elastic.buffers.of(v).values())
    return found


class Stream(torch.utils.data.IterableDataset):
    """The scene's samples one after the other, with a place to go on from."""

    def __init__(self) -> None:
        self._data, self._at = scene.Noisy(), 0

    def __iter__(self) -> Iterator:
        while self._at < len(self._data):
            self._at += 1
            yield self._data[self._at - 1]
        self._at = 0

    def state_dict(self) -> dict:
        """Where it is."""
        return {"at": self._at}

    def load_state_dict(self, state: dict) -> None:
        """And back."""
        self._at = state["at"]


def train(
    gate: Gate, kind: str, steps: int, stream: bool = False, **options: object
) -> dict:
    """Trains to the end; digests of all."""
    torch.manual_seed(3)
    model = scene.network()
    optimizer = scene.optimizer_of(model, kind)
    elastic = Elastic(
        model,
        optimizer,
        Stream() if stream else scene.Noisy(),
        threads=4,
        batch_size=scene.BATCH,
        epochs=10000,
        max_steps=steps,
        on_step=gate.wait,
        **options,
    )
    for x, y in elastic:
        elastic.backward(cross_entropy(model(x), y))
    found = digests(elastic)
    elastic.close()
    return found


class Broken(Exception):
    """A process of the group that trains has died."""


class Run:
    """A job and its supervisor. ``work`` trains in each process, with the gate."""

    def __init__(self, nprocs: int, work: Callable[[Gate], dict]) -> None:
        self.gate = Gate()
        self._work = work
        self._attempt = 0
        self.job = f"join-{os.getpid()}-{id(self)}"
        self.pause_s, self.why = 0.0, ""
        self.start(nprocs)

    def start(self, nprocs: int) -> None:
        """An attempt."""
        self._attempt += 1
        self.board, self._port = Board(), farm.free_port()
        self.children = [self._start(r, nprocs) for r in range(nprocs)]

    def _start(self, rank: int, nprocs: int, order: int = 0) -> tuple[int, int]:
        """A process; one that joins has an order."""
        env = {
            "RANK": str(rank),
            "WORLD_SIZE": str(nprocs),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._port),
            "FIRN_JOB": self.job,
            "FIRN_ATTEMPT": str(self._attempt),
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
            farm._child(out, lambda: self._work(self.gate), env)
        os.close(out)
        return pid, back

    @staticmethod
    def _ended(child: tuple[int, int]) -> int | None:
        """Its status; None: it runs."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        found = os.waitid(os.P_PID, child[0], flags)
        return None if found is None else found.si_status

    @staticmethod
    def _end(children: list[tuple[int, int]]) -> None:
        """Kills and reaps."""
        for pid, back in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(back)

    def _look(self, order: int, joiners: list, expects: bool) -> None:
        """What a supervisor sees: a joiner that ended before the switch ends the
        resize; any other process that ends badly, the attempt."""
        if any(self._ended(c) is not None for c in joiners):
            is_over = self.board.give_up(order)
            waits = self.board.state == "switching"  # the old processes find out
            if is_over or waits and all(self._ended(c) in (None, 0) for c in self.children):
                return
        for child in [*self.children, *joiners]:
            if self._ended(child) in (None, 0):
                continue
            if self.board.state in ("done", "failed") and child in joiners:
                continue
            if expects:
                raise Broken
            raise AssertionError(os.read(child[1], 1 << 20)[8:].decode())

    def resize(
        self,
        come_from: list[int],
        victim: int | None = None,
        after_s: float = 0.0,
        limit_s: float = 20.0,
        patience_s: float = 1e9,
    ) -> str:
        """To another layout; by new rank the old one, -1: joins. ``victim``, an old
        rank, or behind them a joiner, is killed after some time. ``limit_s``: of the
        switch; ``patience_s``: until joiners are ready."""
        order = self.board.order(len(self.children), come_from, limit_s=limit_s)
        joiners = {
            r: self._start(r, len(come_from), order)
            for r, old in enumerate(come_from)
            if old < 0
        }
        began_s, pace_s, self._killed = time.monotonic(), PACE_S, 0
        every = self.children + list(joiners.values())
        try:
            while self.board.state not in ("done", "failed"):
                self.gate.allow(self.gate.step + 1)
                time.sleep(pace_s)
                pace_s = min(PACE_MOST_S, pace_s * 2)
                if time.monotonic() - began_s > patience_s:
                    self.board.give_up(order)
                self._look(order, list(joiners.values()), victim is not None)
                if victim is not None and time.monotonic() - began_s >= after_s:
                    self._killed = every[victim % len(every)][0]
                    os.kill(self._killed, signal.SIGKILL)
                    after_s = 1e9
        except Broken:
            self._end(every)
            raise
        self._settle(come_from, joiners, order)
        if victim is not None and after_s < 1e9:
            self.crash(victim)
        if self._killed in [pid for pid, _ in self.children]:
            self._end(self.children)
            raise Broken
        return self._state

    def _settle(self, come_from: list[int], joiners: dict, order: int) -> None:
        """The processes after a resize."""
        told, self._state = self.board.told(), self.board.state
        if self._state == "done":
            old = self.children
            self.children = [
                joiners[r] if f < 0 else old[f] for r, f in enumerate(come_from)
            ]
            leavers = [c for i, c in enumerate(old) if i not in come_from]
            self._end([c for c in leavers if c[0] == self._killed])
            farm.finish([c for c in leavers if c[0] != self._killed])
        else:
            self._end(list(joiners.values()))
        assert self.board.clear(order)
        self.pause_s, self.why = told.pause_s, told.why.decode()

    def crash(self, victim: int) -> None:
        """Kills a process while nothing is resized."""
        os.kill(self.children[victim % len(self.children)][0], signal.SIGKILL)
        self._end(self.children)
        raise Broken

    def finish(self) -> dict:
        """To the end of the training."""
        self.gate.allow(1 << 60)
        found = farm.finish(self.children)
        self.board.close()
        return found


def random_layout(chance: random.Random, nold: int, most: int = 4) -> list[int]:
    """Some stay, in any order; others join."""
    found: list[int] = []
    for _ in range(chance.randint(1, most)):
        old = chance.randrange(nold)
        stays = chance.random() < 0.7 and old not in found
        found.append(old if stays else -1)
    return found
