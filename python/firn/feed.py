"""The state queue of shared data workers (see firn/feed.h)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Sequence

from firn._lib import FeedConfig, FeedRequest, c_int, c_void_p, call, lib


@dataclass(frozen=True)
class Request:
    """A batch to be drawn, and the random state to draw it from."""

    thread: int
    worker: int
    batch: int
    state: bytes


class Feed:
    """R(i,j) of the threads of a process, W virtual workers each."""

    def __init__(
        self, threads: Sequence[int], workers: int, state_max: int, prefetch: int = 0
    ) -> None:
        ids = (c_int * len(threads))(*threads)
        config = FeedConfig(ids, len(threads), workers, state_max, prefetch)
        self._handle = c_void_p()
        call("firn_feed_new", ctypes.byref(self._handle), ctypes.byref(config))

    def seed(self, thread: int, worker: int, state: bytes) -> None:
        """The first state of a worker."""
        call("firn_feed_seed", self._handle, thread, worker, state, len(state))

    def start(self, first: int, nbatches: int) -> None:
        """An epoch begins, at batch ``first``."""
        lib().firn_feed_start(self._handle, first, nbatches)

    def next(self) -> Request | None:
        """What a free worker should draw; None: nothing now."""
        r = FeedRequest()
        if not lib().firn_feed_next(self._handle, ctypes.byref(r)):
            return None
        state = ctypes.string_at(r.state, r.nstate)
        return Request(r.thread, r.worker, r.batch, state)

    def commit(self, thread: int, batch: int, state: bytes) -> None:
        """A batch is drawn; the state after it."""
        call("firn_feed_commit", self._handle, thread, batch, state, len(state))

    def ready(self, thread: int, batch: int) -> bool:
        """Is it drawn and not consumed?"""
        return lib().firn_feed_ready(self._handle, thread, batch)

    def consume(self, thread: int, batch: int) -> None:
        """The thread has taken its next batch."""
        call("firn_feed_consume", self._handle, thread, batch)

    def save(self, thread: int) -> bytes:
        """What a checkpoint holds of a thread."""
        out = ctypes.create_string_buffer(lib().firn_feed_saved_max(self._handle))
        n = lib().firn_feed_save(self._handle, thread, out)
        return out.raw[:n]

    def load(self, thread: int, data: bytes) -> None:
        """Restores what save() returned."""
        call("firn_feed_load", self._handle, thread, data, len(data))

    def close(self) -> None:
        """Frees it."""
        if self._handle:
            lib().firn_feed_free(self._handle)
            self._handle = c_void_p()
