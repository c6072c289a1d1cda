"""An elastic job inside the loop of another library.

Accelerate and Lightning have a loop over epochs, a loop over batches in it, and
a moment in which they say "step". :class:`Driver` gives them batches one epoch
at a time and takes the step at that moment:

    for epoch in range(n):
        for batch in driver.epoch():      # nothing, if the epoch is done already
            ... backward ...
            if driver.end_turn():         # True: the optimiser has stepped
                scheduler.step()

Between a step and the next batch no thread is in place (``Elastic.outside``), so
evaluation, logs and callbacks of the library change no bits.

:func:`options_of_loader` reads the options of Elastic from a stock DataLoader.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import RandomSampler, SequentialSampler

from firn import FirnError
from firn.torch.elastic import Elastic


def place_in_accelerate(rank: int) -> None:
    """Accelerate, to which each process is alone, takes process 0 only for the main
    one."""
    import accelerate

    state = accelerate.PartialState()
    state.process_index = state.local_process_index = rank


class Driver:
    """The job's batches by epoch, and its steps when they are asked for."""

    def __init__(self, job: Elastic) -> None:
        self.job = job
        self.is_skipped = False  # the last epoch() was done before
        self._turns = iter(job)
        self._outside: contextlib.ExitStack | None = None
        self._nepochs = 0  # that were asked for

    def epoch(self) -> Iterator[Any]:
        """The batches of the next epoch that are not trained yet."""
        job = self.job
        self.is_skipped = job.epoch > self._nepochs
        self._nepochs += 1
        if self.is_skipped and not job.done:
            return
        while True:
            self._come_back()
            try:
                batch = next(self._turns)
            except StopIteration:
                return
            yield batch
            stepped = self.end_turn()
            if job.done:
                self.finish()
                return
            if not job._in_step and job._at_epoch() and (stepped or job.step):
                return

    @property
    def is_last_turn(self) -> bool:
        """Does a step follow the turn that is under way?"""
        return self.job._inside == self.job.mine[-1]

    def end_turn(self) -> bool:
        """The turn is over; True: a step was taken."""
        before = self.job.step
        self.job.end_turn()
        stepped = self.job.step != before
        if stepped and self._outside is None:
            self._outside = contextlib.ExitStack()
            self._outside.enter_context(self.job.outside())
        return stepped

    def look_ahead(self) -> None:
        """Orders are obeyed now: the next epoch has its length after this."""
        if self.job._in_step:
            return
        self._come_back()
        self.job.look_ahead()
        self._outside = contextlib.ExitStack()
        self._outside.enter_context(self.job.outside())

    def _come_back(self) -> None:
        """The generators of the program are put aside again."""
        if self._outside is not None:
            self._outside.close()
            self._outside = None

    def finish(self) -> None:
        """After the last step: the last checkpoint."""
        self._come_back()
        for _ in self._turns:
            raise FirnError("the training is not at its end")

    def close(self) -> None:
        """Frees the job."""
        self._come_back()
        self._turns.close()  # type: ignore[attr-defined]
        self.job.close()


def options_of_loader(loader: DataLoader) -> dict[str, Any]:
    """Data set and options of a job that draws what the loader draws."""
    if not isinstance(loader, DataLoader):
        raise FirnError(
            f"the training data are a {type(loader).__name__}, not a DataLoader: "
            "threads draw their batches from the data set of a DataLoader"
        )
    if loader.worker_init_fn is not None:
        raise FirnError(
            "the DataLoader has a worker_init_fn: what it does to a process cannot "
            "travel with a thread"
        )
    found: dict[str, Any] = dict(
        batch_size=loader.batch_size,
        collate=loader.collate_fn,
        workers=loader.num_workers,
        drop_last=loader.drop_last,
    )
    if isinstance(loader.dataset, IterableDataset):
        if loader.batch_size is None:
            raise FirnError("the DataLoader has no batch_size")
        return found
    if type(loader.batch_sampler) is not torch.utils.data.BatchSampler:
        raise FirnError(
            "the DataLoader has a batch_sampler of its own (or no batch_size): give "
            "batch_size= and sampler= instead"
        )
    sampler = loader.sampler
    is_whole = len(sampler) == len(loader.dataset)  # type: ignore[arg-type]
    if type(sampler) is RandomSampler and not sampler.replacement and is_whole:
        found["shuffle"] = True
    elif type(sampler) is SequentialSampler:
        found["shuffle"] = False
    else:
        found["sampler"] = sampler
    return found
