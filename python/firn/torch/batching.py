"""Another batch by order, at the end of an epoch.

The scheduler orders the samples of a whole step; each of the V threads gets a
V-th of it, rounded down, and at most what a thread has in an epoch. The next
epoch of data begins there, with other steps, and epochs and progress count on.
The learning rates of the optimiser are multiplied, for the step alone, by the
factor of the job's rule (FIRN_BATCH_RULE, see firn/batchrule.h). Batch and
factor are entries of the decision log, so a run that takes the same decisions
has the same bits.

A stream (IterableDataset) has no batches of its own to cut: there the order is
declined, and so it is where the learning-rate scheduler counts steps.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from typing import Any, Iterator

from firn import FirnError
from firn._lib import lib
from firn.freezer import BATCH, RATE
from firn.group import number_of

RULES = ("none", "linear", "sqrt", "adascale")


def rule_of_environment() -> int:
    """FIRN_BATCH_RULE as a number; another word is refused."""
    word = os.environ.get("FIRN_BATCH_RULE") or "none"
    if word not in RULES:
        raise FirnError(f"FIRN_BATCH_RULE is '{word}', not one of {', '.join(RULES)}")
    return RULES.index(word)


@dataclass
class Base:
    """What epochs are counted from: the last change of the batch."""

    step: int = 0
    ordinary: int = 0
    epoch: int = 0
    """Epochs done then."""
    data: int = 0
    """Number of the epoch of data that began there."""


class Batches:
    """The part of :class:`Elastic` that changes batches; its attributes are
    there."""

    def _open_batches(self) -> None:
        self.base = Base()
        self.batch_rule = rule_of_environment()
        self.batch_wanted = number_of("FIRN_BATCH", 0, 0, 1 << 24)
        self._submitted = self.plan.batch_size
        self._mean_square = 0.0

    def why_no_batches(self) -> str:
        """Why batch orders are declined; empty: they are obeyed."""
        if not hasattr(self.plan, "rebatch"):
            return "a stream has no batches of its own to cut"
        if "partner" in self._used:
            return "its steps alternate with those of a co-trained job"
        if self.options.scheduler is not None and self.options.scheduler_by == "step":
            return "its learning-rate scheduler counts steps"
        return "" if self.options.batch_orders else "batch_orders is False"

    def _each(self, total: int) -> int:
        """One thread's part of a total batch."""
        return max(1, min(total // self.place.nthreads, self.plan.places))

    def _batch_due(self, ordered: int) -> int:
        """The total batch that is to be decided at this boundary, or 0."""
        total = ordered if ordered > 0 else self.batch_wanted
        may = self.step == 0 or self._at_epoch()
        if total <= 0 or not may or self.why_no_batches():
            return 0
        each = self._each(total)
        return each * self.place.nthreads if each != self.plan.batch_size else 0

    def _rate_due(self, total: int) -> int:
        """The learning rate that goes with it, in millionths; process 0."""
        v, each = self.place.nthreads, self.plan.batch_size
        noise = lib().firn_batch_noise_of(
            v, each, sum(self.variance or ()), self._mean_square
        )
        factor = lib().firn_batch_factor(
            self.batch_rule, v * self._submitted, total, ctypes.byref(noise)
        )
        return max(1, min(round(1e6 * factor), 2_000_000_000))

    def _order_batch(self, ordered: int) -> list[tuple[int, int]]:
        """Entries for the decision log; the values count in process 0."""
        total = self._batch_due(ordered)
        if total == 0:
            return []
        rate = self._rate_due(total) if self.place.rank == 0 else 1
        return [(BATCH, total), (RATE, rate)]

    def _rebatch(self) -> None:
        """Steps and epochs by the batch that was decided last, if it is new."""
        total = self.freezer.batch
        each = self._each(total) if total else self.plan.batch_size
        if each == self.plan.batch_size:
            return
        epoch, batch = self._data_at()
        self.base = Base(self.step, self.ordinary, self.epoch, epoch + (batch > 0))
        self._set_batch(each)

    def _set_batch(self, each: int) -> None:
        self.plan.rebatch(each)
        self.steps_per_epoch = self.plan.nbatches

    def _data_at(self) -> tuple[int, int]:
        """The epoch of data and the batch in it that the next step draws."""
        epoch, batch = divmod(self.step - self.base.step, self.steps_per_epoch)
        return self.base.data + epoch, batch

    @contextlib.contextmanager
    def _scaled_rates(self) -> Iterator[None]:
        """The learning rates of this step, and those of the user again."""
        factor = self.freezer.rate
        groups = self.optimizer.param_groups
        if factor == 1.0:
            yield
            return
        was: list[Any] = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * factor
        try:
            yield
        finally:
            for group, lr in zip(groups, was):
                group["lr"] = lr

    def saved_batch(self) -> "list[int] | None":
        """train/batch of a checkpoint; None: the batch never changed."""
        b = self.base
        if not self.freezer.batch:
            return None
        return [b.step, b.ordinary, b.epoch, b.data, self.plan.batch_size]

    def take_batch(self, numbers: "list[int]") -> None:
        """And from there."""
        *base, each = numbers
        why = self.why_no_batches()
        if why:
            raise FirnError(f"the checkpoint's batch was changed by order, but {why}")
        if min(base) < 0 or not 1 <= each <= self.plan.places:
            raise FirnError("the checkpoint's batch is inconsistent")
        self.base = Base(*base)
        self._set_batch(each)
