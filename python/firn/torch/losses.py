"""The mean loss of all threads, the same number on any number of processes.

Each thread's losses are added up on their device, in double precision, without
waiting for it. A mean takes the sums of all threads of all processes in the
order of threads. A checkpoint in the middle of an epoch holds the sums, so a
resumed epoch has the loss of one that was never stopped.
"""

from __future__ import annotations

import struct
from typing import Any, Iterable

import torch

_ROW = struct.Struct("<qdd")  # thread, sum, count


class Losses:
    """Sums of the losses of this process's threads."""

    def __init__(self, threads: Iterable[int]) -> None:
        self._threads = list(threads)
        self._sums: dict[int, Any] = {}
        self._counts: dict[int, float] = {}
        self.reset()

    def reset(self) -> None:
        """Nothing was added."""
        self._sums = dict.fromkeys(self._threads, 0.0)
        self._counts = dict.fromkeys(self._threads, 0.0)

    def add(self, thread: int, loss: torch.Tensor, is_first: bool) -> None:
        """A loss of a turn; those of its later passes have weights and add up."""
        self._sums[thread] = self._sums[thread] + loss.detach().double()
        self._counts[thread] += is_first

    def rehome(self, threads: Iterable[int], rows: dict[int, list]) -> None:
        """The threads of this process from now on, some with rows of others."""
        before = {v: self.row(v) for v in self._threads}
        self._threads = list(threads)
        self.reset()
        for thread in self._threads:
            row = before.get(thread) or rows.get(thread)
            if row:
                self.load(thread, row)

    def row(self, thread: int) -> tuple[float, float]:
        """A thread's sum and count, for a checkpoint."""
        return float(self._sums[thread]), self._counts[thread]

    def load(self, thread: int, row: Iterable[float]) -> None:
        """What row() gave."""
        self._sums[thread], self._counts[thread] = (float(n) for n in row)

    def mean(self, job: Any) -> float | None:
        """Collective: the mean of all turns; None: no turn had a loss."""
        rows = [_ROW.pack(v, *self.row(v)) for v in self._threads]
        parts = job.group.gather(b"".join(rows))
        out = torch.zeros(2, dtype=torch.float64)
        found = [row for part in parts for row in _ROW.iter_unpack(part)]
        for _, total, count in sorted(found):
            out += torch.tensor([total, count], dtype=torch.float64)
        job.bcast(out)
        total, count = out.tolist()
        return total / count if count else None
