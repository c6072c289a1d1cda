"""Batches by virtual rank, drawn here or by data workers that threads share.

The samples of thread v are those of ``DistributedSampler(dataset, V, v)``:
they go by the thread and V, never by process and P. A batch is drawn as the
stock ``DataLoader`` would:

    Inline   in the training process, from the thread's own generators, as
             with ``num_workers=0``
    Shared   by a pool of processes that serves all threads. Batch k of thread
             i belongs to its virtual worker j = k mod W, whose random state
             R(i,j) travels with the request and comes back with the batch; so
             a pool of any size gives what W workers for each of V ranks give.
             A checkpoint holds the states before the batches that were not
             consumed; what was prefetched is dropped and drawn again.

As in the stock loader, a thread draws one number from its torch generator at
the start of an epoch: the seed of its workers. ``worker_init_fn`` is not
supported, for what it does to a process cannot travel. A worker ends with its
trainer, also after kill -9 (``firn.parent``).
"""

from __future__ import annotations

import os
import queue
import struct
import threading
from typing import Any, Callable, Sequence

import torch
import torch.multiprocessing as mp
from torch.utils.data import DistributedSampler
from torch.utils.data._utils import worker as stock
from torch.utils.data._utils.collate import default_collate

from firn import FirnError
from firn.feed import Feed
from firn.parent import end_with_parent
from firn.torch import states
from firn.torch.course import Course
from firn.torch.sampling import Order, Part

_FRESH = struct.Struct("<4sqi")  # a state that is still a seed: "seed", base, j
_STATE_MAX = 32768


class Plan:
    """Which samples are in which batch of which thread."""

    def __init__(
        self,
        dataset: Any,
        nthreads: int,
        batch_size: int,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
        sampler: Any = None,
    ) -> None:
        if batch_size < 1:
            raise FirnError(f"a batch of {batch_size} samples")
        self.batch_size = batch_size
        self._samplers: list[Any] = [
            DistributedSampler(dataset, nthreads, v, shuffle, seed, drop_last)
            for v in range(nthreads)
        ]
        if sampler is not None:
            order = Order(sampler, seed, len(dataset))
            parts = range(nthreads)
            self._samplers = [Part(order, nthreads, v, drop_last) for v in parts]
        n = self._samplers[0].num_samples
        self.course = Course(n, batch_size, drop_last)
        self.nbatches = self.course.nbatches
        if self.nbatches == 0:
            raise FirnError(f"{n} samples of a thread make no batch of {batch_size}")
        self._known: dict[int, tuple[int, list[int]]] = {}

    def follow(self, course: Course) -> None:
        """Batches of another size, from the course's base on."""
        self.course = course
        self.batch_size, self.nbatches = course.each, course.nbatches

    def indices(self, thread: int, epoch: int, batch: int) -> list[int]:
        """The samples of one batch."""
        known = self._known.get(thread)
        if known is None or known[0] != epoch:
            sampler = self._samplers[thread]
            sampler.set_epoch(epoch)
            known = (epoch, list(sampler))
            self._known[thread] = known
        first = self.course.used if epoch == self.course.epoch else 0
        first += batch * self.batch_size
        return known[1][first : first + self.batch_size]


def fetch(dataset: Any, indices: Sequence[int], collate: Callable) -> Any:
    """One batch, as the stock loader draws it."""
    many = getattr(dataset, "__getitems__", None)
    if many:
        return collate(many(indices))
    return collate([dataset[i] for i in indices])


def draw_base_seed() -> int:
    """The draw of the stock loader at the start of an epoch."""
    return int(torch.empty((), dtype=torch.int64).random_().item())


class Inline:
    """Drawn in place, in the context of the thread."""

    def __init__(self, dataset: Any, plan: Plan, collate: Callable | None) -> None:
        self._dataset, self._plan = dataset, plan
        self._collate = collate or default_collate

    def begin(self, thread: int, epoch: int) -> None:
        """An epoch of a thread that is in place."""
        draw_base_seed()

    def next(self, thread: int, epoch: int, batch: int) -> Any:
        """The next batch of the thread that is in place."""
        return fetch(
            self._dataset, self._plan.indices(thread, epoch, batch), self._collate
        )

    def save(self, thread: int) -> bytes:
        """All of its state is the thread's own."""
        return b""

    def load(self, thread: int, epoch: int, batch: int, data: bytes) -> None:
        """Nothing to do."""

    def rehome(self, threads: Sequence[int]) -> list[int]:
        """The threads of this process from now on; those that have to be loaded."""
        return []

    def close(self) -> None:
        """Nothing is held."""


def _put_in_place(state: bytes, nworkers: int, dataset: Any) -> None:
    """The generators of a virtual worker, and who it takes itself for."""
    if state[:4] == b"seed":
        _, base, j = _FRESH.unpack(state)
        number = base + j
        words = getattr(stock, "_generate_state", None)
        states.seed(number, words(base, j) if words else None)
    else:
        base, j = struct.unpack_from("<qi", state)
        states.give(states.of_bytes(state[12:]))
    info = dict(id=j, num_workers=nworkers, seed=base + j, dataset=dataset)
    stock._worker_info = stock.WorkerInfo(**info)


def _work(
    parent: tuple[int, bool],
    dataset: Any,
    collate: Callable,
    nworkers: int,
    asked: Any,
    done: Any,
) -> None:
    """A process of the pool: requests in, batches and states out."""
    end_with_parent(*parent)
    torch.set_num_threads(1)
    while True:
        request = asked.get()
        if request is None:
            return
        ticket, state, base, j, indices = request
        try:
            _put_in_place(state, nworkers, dataset)
            batch = fetch(dataset, indices, collate)
            after = struct.pack("<qi", base, j) + states.to_bytes(states.take())
            done.put((ticket, batch, after, ""))
        except Exception as error:  # raised in the training process
            done.put((ticket, None, b"", f"{type(error).__name__}: {error}"))


class Shared:
    """A pool of processes for all threads of this process."""

    def __init__(
        self,
        dataset: Any,
        plan: Plan,
        threads: Sequence[int],
        *,
        workers: int,
        pool: int = 0,
        collate: Callable | None = None,
        prefetch: int = 0,
    ) -> None:
        self._plan, self._workers, self._prefetch = plan, workers, prefetch
        self._threads = list(threads)
        self._feed = Feed(threads, workers, _STATE_MAX, prefetch)
        self._ready: dict[tuple[int, int], Any] = {}
        self._dropped = 0  # tickets before this one are of no use any more
        self._tickets: dict[int, tuple[int, int]] = {}
        self._count = 0
        self._epoch = -1
        self._begun: dict[int, int] = {}
        forks = "fork" in mp.get_all_start_methods()
        context = mp.get_context("fork" if forks else None)
        self._asked, self._done = context.Queue(), context.Queue()
        by_main = threading.current_thread() is threading.main_thread()
        arguments = (
            (os.getpid(), by_main),
            dataset,
            collate or default_collate,
            workers,
            self._asked,
            self._done,
        )
        self._pool = [
            context.Process(target=_work, args=arguments, daemon=True)
            for _ in range(pool or min(workers, 2))
        ]
        for process in self._pool:
            process.start()

    def begin(self, thread: int, epoch: int) -> None:
        """Seeds the virtual workers of a thread; the last one starts all."""
        self._begun[thread] = draw_base_seed()
        if len(self._begun) < len(self._threads):
            return
        self._forget()
        self._epoch = epoch
        self._feed.start(0, self._plan.course.batches_of(epoch))
        for i, base in self._begun.items():
            for j in range(self._workers):
                self._feed.seed(i, j, _FRESH.pack(b"seed", base, j))
        self._begun = {}
        self._ask()

    def _forget(self) -> None:
        """What was asked for before now is dropped when it comes."""
        self._ready.clear()
        self._dropped = self._count
        self._tickets.clear()

    def _ask(self) -> None:
        """Everything that may be drawn now is asked for."""
        while True:
            request = self._feed.next()
            if request is None:
                return
            state = request.state
            if state[:4] == b"seed":
                _, base, j = _FRESH.unpack(state)
            else:
                base, j = struct.unpack_from("<qi", state)
            indices = self._plan.indices(request.thread, self._epoch, request.batch)
            self._tickets[self._count] = (request.thread, request.batch)
            self._asked.put((self._count, state, base, j, indices))
            self._count += 1

    def _receive(self) -> None:
        """One batch from the pool."""
        while True:
            try:
                ticket, batch, after, failed = self._done.get(timeout=5)
                break
            except queue.Empty:
                if not all(process.is_alive() for process in self._pool):
                    raise FirnError("a data worker died") from None
        if ticket < self._dropped:
            return
        thread, number = self._tickets.pop(ticket)
        if failed:
            raise FirnError(f"batch {number} of thread {thread}: {failed}")
        self._ready[thread, number] = batch
        self._feed.commit(thread, number, after)
        self._ask()

    def next(self, thread: int, epoch: int, batch: int) -> Any:
        """The next batch of a thread, waited for."""
        while not self._feed.ready(thread, batch):
            self._receive()
        drawn = self._ready.pop((thread, batch))
        self._feed.consume(thread, batch)
        self._ask()
        return drawn

    def save(self, thread: int) -> bytes:
        """Its next batch and the states before what was not consumed."""
        return self._feed.save(thread)

    def load(self, thread: int, epoch: int, batch: int, data: bytes) -> None:
        """Goes on from there; the last thread starts all."""
        if not self._begun:
            self._forget()
            self._epoch = epoch
            self._feed.start(batch, self._plan.course.batches_of(epoch))
        self._begun[thread] = 0
        self._feed.load(thread, data)
        if len(self._begun) == len(self._threads):
            self._begun = {}
            self._ask()

    def rehome(self, threads: Sequence[int]) -> list[int]:
        """As Inline's. What was drawn ahead is drawn again, by the same states."""
        self._feed.close()
        self._threads = list(threads)
        self._feed = Feed(threads, self._workers, _STATE_MAX, self._prefetch)
        self._forget()
        self._begun = {}
        return self._threads

    def close(self) -> None:
        """Ends the pool."""
        for _ in self._pool:
            self._asked.put(None)
        for process in self._pool:
            process.join(timeout=2)
            if process.is_alive():
                process.terminate()
        self._pool = []
        self._asked.cancel_join_thread()
        self._feed.close()

