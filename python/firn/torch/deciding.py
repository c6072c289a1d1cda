"""Orders and decisions at the boundaries of an elastic job.

What depends on time or on the scheduler is decided by process 0 alone, sent to
all others, entered in every freezer's log, and obeyed by all at the same step:
from there on it is an input like any other.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from firn._lib import STEP_PARTS
from firn.freezer import FROZEN, PASSES


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

    def can(self) -> list[str]:
        """What this trainer does when the scheduler orders it (firn.report.CAN):
        as its option ``can`` says, else resize if there is a folder for
        checkpoints, freeze, after (another job's weights), passes if the loop
        calls passes(), and partner if it is that of firn.torch.partners."""
        if self.options.can is not None:
            return list(self.options.can)
        found = ["freeze", "after", *sorted(self._used)]
        return ["resize", *found] if self.folder else found

    def _orders(self) -> tuple[bool, bool, int, int]:
        """The scheduler's and SIGUSR1's, and whether a checkpoint is due by
        process 0's clock, agreed upon by all processes."""
        heard = self.reporter.orders()
        due = self.place.rank == 0 and 0 < self._every_s <= self._unsaved_s()
        word = (heard.stop > 0) << 49 | due << 48
        word |= (max(heard.nfrozen, -1) + 1) << 24 | (max(heard.passes, -1) + 1)
        word = self.group.max(word)
        frozen, passes = (word >> 24 & 0xFFFFFF) - 1, (word & 0xFFFFFF) - 1
        return bool(word >> 49), bool(word >> 48 & 1), frozen, passes

    def _unsaved_s(self) -> float:
        """Seconds since the last checkpoint, or since it began."""
        return time.monotonic() - self._saved_s

    def _obey(self, frozen: int, passes: int) -> bool:
        """Orders, or the log that is replayed; did anything change?"""
        before = len(self.freezer.raw_log())
        if self.options.replay:
            if self.place.rank == 0:
                self.freezer.follow(self.step)
            return self._share_log(before)
        now = {FROZEN: self.freezer.nfrozen, PASSES: self.freezer.passes}
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
