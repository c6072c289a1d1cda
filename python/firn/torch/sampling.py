"""A sampler of the program's own, divided among threads.

The order of an epoch has to be the same in every process and after a resume, so
it must depend on the seed and the epoch only. ``Order`` makes it so: before a
draw it calls ``set_epoch()`` if the sampler has one, seeds the sampler's own
generator and those of torch, numpy and Python, and puts the latter back
afterwards. Thread v then takes the places v, v + V, v + 2 V, ... of the order,
padded or cut as DistributedSampler does.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch
from torch.utils.data import DistributedSampler

from firn import FirnError
from firn.torch import states


class Order:
    """The samples of each epoch in order; the last one is kept."""

    def __init__(self, sampler: Any, seed: int, nsamples: int) -> None:
        if isinstance(sampler, DistributedSampler):
            raise FirnError(
                "sampler= is a DistributedSampler, but Elastic divides the samples "
                "among threads itself: leave it out, or give a sampler of all samples"
            )
        if not hasattr(sampler, "__iter__"):
            raise FirnError(f"sampler= is a {type(sampler).__name__} without __iter__")
        self._sampler, self._seed, self._nsamples = sampler, seed, nsamples
        self._known: tuple[int, list[int]] = (-1, [])
        first = self.of(0)
        self._known = (-1, [])
        if self.of(0) != first:
            raise FirnError(
                f"sampler= ({type(sampler).__name__}) gives another order each time it "
                "is asked for the same epoch: it must draw from its generator=, or "
                "from torch's, numpy's or Python's generator"
            )
        self.length = len(first)

    def of(self, epoch: int) -> list[int]:
        """The whole order of an epoch."""
        if self._known[0] != epoch:
            self._known = (epoch, self._draw(epoch))
        return self._known[1]

    def _draw(self, epoch: int) -> list[int]:
        """Asks the sampler; no generator of the program changes."""
        kept = states.take()
        try:
            states.seed(self._seed + epoch)
            generator = getattr(self._sampler, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(self._seed + epoch)
            if hasattr(self._sampler, "set_epoch"):
                self._sampler.set_epoch(epoch)
            order = [int(i) for i in self._sampler]
        finally:
            states.give(kept)
        for i in order:
            if not 0 <= i < self._nsamples:
                raise FirnError(f"sampler= gave {i}, not a number of a sample")
        if not order:
            raise FirnError(f"sampler= gave no sample in epoch {epoch}")
        return order


class Part:
    """A thread's part of an order, with the methods of DistributedSampler."""

    def __init__(self, order: Order, nthreads: int, v: int, drop_last: bool) -> None:
        self._order, self._nthreads, self._thread = order, nthreads, v
        n = order.length
        self.num_samples = n // nthreads if drop_last else -(-n // nthreads)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next iteration."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = self._order.of(self._epoch)
        if len(order) != self._order.length:
            raise FirnError(
                f"sampler= gave {len(order)} samples in epoch {self._epoch}, but "
                f"{self._order.length} in epoch 0: all epochs must be equally long"
            )
        for place in range(self.num_samples):
            yield order[(self._thread + place * self._nthreads) % len(order)]
