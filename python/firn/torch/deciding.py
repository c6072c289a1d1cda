"""Orders and decisions at the boundaries of an elastic job.

What depends on time or on the scheduler is decided by process 0 alone, sent to
all others, entered in every freezer's log, and obeyed by all at the same step:
from there on it is an input like any other.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from firn._lib import STEP_PARTS, lib
from firn.freezer import FROZEN, PASSES
from firn.torch import preparing


_BITS = (21, 14, 25)
"""Of an order of passes, layers and samples in one number of 63 bits."""


class Decides:
    """The part of :class:`Elastic` that decides; its attributes are there."""

    freezer: Any
    freezing: Any
    group: Any
    layers: Any
    options: Any
    place: Any
    reporter: Any
    step: int
    epoch: int
    progress: float
    looked: dict
    looked_steps: int
    variance: Any
    folder: Any
    _every_s: float
    _saved_s: float
    _used: set
    frozen_wanted: int

    def can(self) -> list[str]:
        """What this trainer does when the scheduler orders it (firn.report.CAN):
        as its option ``can`` says, else resize if there is a folder for
        checkpoints, then executors too unless ``through`` is "distributed",
        freeze, after (another job's weights), batch unless
        why_no_batches() has a reason, passes if the loop calls passes(),
        ahead if the program has called firn.ahead.wait(), and partner if it is
        that of firn.torch.partners."""
        if self.options.can is not None:
            return list(self.options.can)
        can = {"freeze", "after", *self._used}
        can |= {"resize"} if self.folder else set()
        if self.folder and self.options.through != "distributed":
            can.add("executors")  # NCCL refuses two processes on one GPU
        can |= set() if self.why_no_batches() else {"batch"}
        can |= {"join"} if self.join is not None else set()
        can |= {"ahead"} if lib().firn_ahead_was_called() else set()
        return sorted(can)

    def _orders(self) -> tuple[bool, bool, int, int, int]:
        """The scheduler's and SIGUSR1's, and whether a checkpoint is due by
        process 0's clock, agreed upon by all processes."""
        heard = self.reporter.orders()
        due = self.place.rank == 0 and 0 < self._every_s <= self._unsaved_s()
        given = (heard.passes, heard.nfrozen, heard.batch)
        word, at = 0, 0
        for value, bits in zip(given, _BITS):
            word |= min(max(value, -1) + 1, (1 << bits) - 1) << at
            at += bits
        preparing.look(self)
        order = self.join.due() if self.join and self.place.rank == 0 else 0
        word |= due << at | (order > 0) << at + 1 | (heard.stop > 0) << at + 2
        word = self.group.max(word)
        self._resizes = bool(word >> at + 1 & 1)
        stops, due = bool(word >> at + 2), bool(word >> at & 1)
        if order and (stops or not self._resizes):
            self.join.withdraw(order, "the job was asked to stop")
            self._resizes = False
        elif stops:
            self._resizes = False
        found, at = [], 0
        for bits in _BITS:
            found.append((word >> at & (1 << bits) - 1) - 1)
            at += bits
        passes, frozen, batch = found
        return stops, due, frozen, passes, batch

    def _unsaved_s(self) -> float:
        """Seconds since the last checkpoint, or since it began."""
        return time.monotonic() - self._saved_s

    def _obey(self, frozen: int, passes: int, batch: int = -1) -> bool:
        """Orders, or the log that is replayed; did anything change?"""
        before = len(self.freezer.raw_log())
        if self.options.replay:
            if self.place.rank == 0:
                self.freezer.follow(self.step)
            return self._share_log(before)
        now = {FROZEN: self.freezer.nfrozen, PASSES: self.freezer.passes}
        if frozen < 0:
            frozen = self.frozen_wanted  # of this start, once
        self.frozen_wanted = -1
        if not 0 <= frozen < len(self.layers):
            frozen = now[FROZEN]  # no order
        frozen = min(frozen, self.freezer.most)
        most = {FROZEN: len(self.layers) - 1, PASSES: 1 << 20}
        least = {FROZEN: 0, PASSES: 1}
        new = [
            (kind, value)
            for kind, value in ((FROZEN, frozen), (PASSES, passes))
            if least[kind] <= value <= most[kind] and value != now[kind]
        ]
        new += self._order_batch(batch)
        for kind, value in new if self.place.rank == 0 else []:
            self.freezer.set(self.step, self.epoch, kind, value)
        return self._share_log(before) if new else False

    def _apply(self) -> None:
        """The model as frozen as the freezer says."""
        if self.freezer.nfrozen != self.freezing.nfrozen:
            self.freezing.apply()

    def _decide(self) -> bool:
        """At the end of an epoch: process 0 decides, all take its word."""
        self._decided_at = self.step
        squares = self._all_squares()
        if self.place.rank == 0 and self.freezing.measures:
            self.variance = self.freezing.profile.variance(squares)
        before = len(self.freezer.raw_log())
        if self.place.rank == 0 and self.freezing.decides:
            per = 1.0 / max(1, self.looked_steps)
            s = {part: self.looked[part] * per for part in STEP_PARTS}
            self.freezer.decide(
                step=self.step,
                epoch=self.epoch,
                progress=self.progress,
                variance=self.variance,
                forward_s=s["data"] + s["forward"],
                backward_s=s["backward"],
                rest_s=s["reduce"] + s["update"],
            )
        profile = self.freezing.profile
        if self.place.nthreads > 1 and profile.nsteps > 0:
            self._mean_square = float(profile.means.sum()) / profile.nsteps
        self.freezing.profile.reset()
        self._reset_times()
        return self._share_log(before) if self.freezing.decides else False

    def _share_log(self, before: int) -> bool:
        """Process 0's new decisions, entered and obeyed by all."""
        new = self.freezer.raw_log()[before:] if self.place.rank == 0 else []
        count = self.group.max(len(new))
        if count == 0:
            return False
        rows = torch.zeros(count, 5, dtype=torch.float64)
        for i, row in enumerate(new):
            rows[i] = torch.tensor(row, dtype=torch.float64)
        self.bcast(rows)
        if self.place.rank != 0:
            for step, epoch, kind, value, psi in rows.tolist():
                self.freezer.set(int(step), int(epoch), int(kind), int(value), psi)
        self._apply()
        self._rebatch()
        return True

    def _all_squares(self) -> dict[int, list[float]]:
        """Sums of squares of all threads, in process 0."""
        if not self.freezing.measures:
            return {}
        mine = self.freezing.profile.threads
        rows = [[float(v), *mine[v].tolist()] for v in sorted(mine)]
        data = torch.tensor(rows, dtype=torch.float64).numpy().tobytes()
        found: dict[int, list[float]] = {}
        for part in self.group.gather(data):
            width = 1 + len(self.layers)
            if not part:
                continue
            table = torch.frombuffer(bytearray(part), dtype=torch.float64)
            for row in table.view(-1, width).tolist():
                found[int(row[0])] = row[1:]
        return found
