"""Another batch by order, between two steps.

The scheduler orders the samples of a whole step; each of the V threads gets a
V-th of it, rounded down, and at most what a thread has in an epoch. The change
takes effect at the next step, in the middle of an epoch too: the samples of the
epoch that were not drawn yet follow in its order, in batches of the new size
(firn.torch.course), and data workers are seeded as at the start of an epoch.
With drop_last, an order waits for the end of the epoch if what is left of it
makes no batch of the new size. Epochs and progress go by samples.

The learning rates of the optimiser are multiplied, for the step alone, by the
factor of the job's rule (FIRN_BATCH_RULE, see firn/batchrule.h). A learning-rate
scheduler that counts steps counts those of the submitted batch: a step of twice
the batch is two of them (``rate_steps``), so a schedule over the whole training
ends with it.

Batch and factor are entries of the decision log, so a run that takes the same
decisions at the same steps has the same bits, on any number of processes; a
checkpoint has the place at which the batch changed.

A stream (IterableDataset) has no batches of its own to cut: there the order is
declined.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, Iterator

from firn import FirnError
from firn._lib import lib
from firn.freezer import BATCH, RATE
from firn.group import number_of
from firn.torch.course import Course

RULES = ("none", "linear", "sqrt", "adascale")


def rule_of_environment() -> int:
    """FIRN_BATCH_RULE as a number; another word is refused."""
    word = os.environ.get("FIRN_BATCH_RULE") or "none"
    if word not in RULES:
        raise FirnError(f"FIRN_BATCH_RULE is '{word}', not one of {', '.join(RULES)}")
    return RULES.index(word)


class Batches:
    """The part of :class:`Elastic` that changes batches; its attributes are
    there."""

    def _open_batches(self) -> None:
        self.course = self.data = self._first = self.plan.course
        self.rate_steps = 0
        self.batch_rule = rule_of_environment()
        self.batch_wanted = number_of("FIRN_BATCH", 0, 0, 1 << 24)
        self._submitted = self.plan.batch_size
        self._mean_square = 0.0

    def why_no_batches(self) -> str:
        """Why batch orders are declined; empty: they are obeyed."""
        if not hasattr(self.plan, "follow"):
            return "a stream has no batches of its own to cut"
        if "partner" in self._used:
            return "its steps alternate with those of a co-trained job"
        return "" if self.options.batch_orders else "batch_orders is False"

    def _each(self, total: int) -> int:
        """One thread's part of a total batch."""
        return max(1, min(total // self.place.nthreads, self.course.places))

    def _batch_due(self, ordered: int) -> int:
        """The total batch that is to be decided at this boundary, or 0."""
        total = ordered if ordered > 0 else self.batch_wanted
        if total <= 0 or self._due > 0 or self.why_no_batches():
            return 0
        if self.options.batch_at == "epoch" and not self._at_epoch():
            return 0
        each = self._each(total)
        if each == self.plan.batch_size:
            return 0
        fits = all(course.batches_of(course.epoch) for course in self._changed(each))
        return each * self.place.nthreads if fits else 0

    def _changed(self, each: int) -> tuple[Course, Course]:
        """The courses of epochs and of data with another batch from now on."""
        epochs = self.course.changed(self.ordinary, each)
        return epochs, self.data.changed(self.step, each)

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
        self._set_courses(*self._changed(each))

    def _set_courses(self, epochs: Course, data: Course) -> None:
        self.course, self.data = epochs, data
        self.plan.follow(data)
        self.steps_per_epoch = self.plan.nbatches

    def _data_at(self) -> tuple[int, int]:
        """The epoch of data and the batch in it that the next step draws."""
        epoch, batch, _ = self.data.at(self.step)
        return epoch, batch

    @property
    def epochs_done(self) -> float:
        """Epochs done, with the part of the one under way."""
        return self.course.epochs(self.ordinary)

    @property
    def submitted_steps(self) -> int:
        """Whole steps of the submitted batch that the samples so far make; as
        many as ordinary steps while the batch never changed."""
        epoch, _, used = self.course.at(self.ordinary)
        whole = self._first.nbatches
        return epoch * whole + min(whole, used // self._first.each)

    def _steps_until(self, submitted: int) -> int:
        """Ordinary steps that make this number of steps of the submitted batch."""
        epoch, batch = divmod(submitted, self._first.nbatches)
        return self.course.reaches(epoch, batch * self._first.each)

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
        epochs, data = self.course, self.data
        if not self.freezer.batch:
            return None
        base = [data.count, epochs.count, epochs.epoch, data.epoch]
        return [*base, self.plan.batch_size, epochs.used, data.used]

    def take_batch(self, numbers: "list[int]") -> None:
        """And from there; without the last two the batch changed at the end of
        an epoch."""
        why = self.why_no_batches()
        if why:
            raise FirnError(f"the checkpoint's batch was changed by order, but {why}")
        places, drop = self._first.places, self._first.drop_last
        if len(numbers) == 5:
            numbers = [*numbers, 0, 0]
        if len(numbers) != 7 or min(numbers) < 0 or not 1 <= numbers[4] <= places:
            raise FirnError("the checkpoint's batch is inconsistent")
        step, ordinary, epoch, of_data, each, used, data_used = numbers
        epochs = Course(places, each, drop, ordinary, epoch, used)
        data = Course(places, each, drop, step, of_data, data_used)
        for course in (epochs, data):
            if course.used >= places or course.batches_of(course.epoch) < 1:
                raise FirnError("the checkpoint's batch is inconsistent")
        self._set_courses(epochs, data)
