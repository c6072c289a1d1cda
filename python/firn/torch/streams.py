"""Batches of an IterableDataset that has a state.

Thread v of V needs a stream of its own that does not depend on P, and has to go
on in it after a stop. Each thread has a copy of the data set:

    shard     a data set with ``shard(num_shards=, index=)`` is asked for part v
              of V; of any other the thread takes the samples v, v + V, v + 2 V,
              ... (every copy then reads all samples)
    state     ``state_dict()`` and ``load_state_dict()`` of the copy's data set
              go into checkpoints, with the count of samples that were read

A stream has no length: ``steps_per_epoch`` says what an epoch is. A stream that
ends begins again, after ``set_epoch(n)`` if the data set has one. Samples are
drawn in the training process, in the thread's own generators.

What is refused at once: no state, no steps_per_epoch, data workers, samplers.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterator, Sequence

from torch.utils.data._utils.collate import default_collate

from firn import FirnError
from firn.torch.course import Course
from firn.torch.options import Options
from firn.torch.pack import pack, unpack


def check(dataset: Any, options: Options) -> None:
    """A stream that can be trained, or a sentence."""
    kind = type(dataset).__name__
    for needed in ("state_dict", "load_state_dict"):
        if not callable(getattr(dataset, needed, None)):
            raise FirnError(
                f"the IterableDataset {kind} has no {needed}(), so a resumed job could "
                "not go on where it was: add state_dict() and load_state_dict(), or "
                "use a map-style data set"
            )
    if options.steps_per_epoch < 1:
        raise FirnError(f"the IterableDataset {kind} needs steps_per_epoch=")
    if options.workers > 0:
        raise FirnError(
            f"the IterableDataset {kind} cannot be read by data workers: their place "
            "in it would be lost at a stop; leave workers= out"
        )
    if options.sampler is not None:
        raise FirnError("an IterableDataset has no sampler=")


class Plan:
    """An epoch of a stream: the same number of batches for each thread."""

    def __init__(self, batch_size: int, nbatches: int) -> None:
        if batch_size < 1:
            raise FirnError(f"a batch of {batch_size} samples")
        self.batch_size, self.nbatches = batch_size, nbatches
        self.course = Course(nbatches * batch_size, batch_size)


class _Stream:
    """The samples of one thread."""

    def __init__(self, dataset: Any, nthreads: int, thread: int) -> None:
        self.dataset = copy.deepcopy(dataset)
        self._stride, self._phase = nthreads, thread
        shard = getattr(self.dataset, "shard", None)
        if callable(shard):
            self.dataset = shard(num_shards=nthreads, index=thread)
            self._stride, self._phase = 1, 0
        self.round = 0
        self.count = 0  # samples read in this round
        self._samples: Iterator[Any] | None = None

    def _begin(self) -> None:
        """A round begins, or goes on after load()."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(self.round)
        self._samples = iter(self.dataset)

    def _read(self) -> Any:
        """The next sample, of the next round if this one is over."""
        for _ in range(2):
            if self._samples is None:
                self._begin()
            for sample in self._samples or ():
                self.count += 1
                return sample
            if self.count == 0:
                break
            self.round, self.count, self._samples = self.round + 1, 0, None
        raise FirnError(f"the IterableDataset {type(self.dataset).__name__} is empty")

    def next(self) -> Any:
        """The thread's next sample."""
        while True:
            sample = self._read()
            if (self.count - 1) % self._stride == self._phase:
                return sample

    def save(self) -> dict:
        """Where it is."""
        state = self.dataset.state_dict()
        return {"round": self.round, "count": self.count, "state": state}

    def load(self, saved: dict) -> None:
        """Goes on from there."""
        self.round, self.count = saved["round"], saved["count"]
        self.dataset.load_state_dict(saved["state"])
        self._samples = None


class Streams:
    """The streams of this process's threads; the methods of loader.Inline."""

    crosses_epochs = True

    def __init__(
        self,
        dataset: Any,
        plan: Plan,
        nthreads: int,
        threads: Sequence[int],
        collate: Callable | None,
    ) -> None:
        self._plan, self._collate = plan, collate or default_collate
        self._dataset, self._nthreads = dataset, nthreads
        self._of = {v: _Stream(dataset, nthreads, v) for v in threads}

    def begin(self, thread: int, epoch: int) -> None:
        """A stream goes on across epochs."""

    def next(self, thread: int, epoch: int, batch: int) -> Any:
        """The next batch of the thread that is in place."""
        stream = self._of[thread]
        return self._collate([stream.next() for _ in range(self._plan.batch_size)])

    def save(self, thread: int) -> bytes:
        """The place in the stream."""
        text, tensors = pack(self._of[thread].save(), "stream")
        if tensors:
            raise FirnError("the state_dict() of an IterableDataset holds tensors")
        return text.encode()

    def load(self, thread: int, epoch: int, batch: int, data: bytes) -> None:
        """What save() gave."""
        if data:
            self._of[thread].load(unpack(data.decode(), {}))

    def rehome(self, threads: Sequence[int]) -> list[int]:
        """The threads of this process from now on; those that have to be loaded."""
        came = [v for v in threads if v not in self._of]
        fresh = {v: _Stream(self._dataset, self._nthreads, v) for v in came}
        self._of = {v: fresh.get(v) or self._of[v] for v in threads}
        return came

    def close(self) -> None:
        """Nothing is held."""
