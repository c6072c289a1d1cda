"""The processes of a job (see firn/group.h), and a stand-in for one alone.

:class:`Group` and :class:`Alone` have the same methods, so that a trainer need
not ask how many processes there are.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Sequence

from firn import tree
from firn._lib import FirnError, GroupConfig, address_of, c_i64, c_int, c_size
from firn._lib import c_void_p, call, lib, text


_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_hidden: dict[str, str] = {}  # what complete_environment() took away


def number_of(name: str, default: int, low: int, high: int) -> int:
    """An integer of the environment."""
    word = _hidden.get(name) or os.environ.get(name, "")
    if not word:
        return default
    try:
        value = int(word)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise FirnError(f"{name} is '{word[:40]}', not a number from {low} to {high}")
    return value


def amount_of(name: str, most: float, env: Mapping[str, str] = os.environ) -> float:
    """A number of the environment, above 0 and up to most; 0: it is not set."""
    word = env.get(name, "")
    if not word:
        return 0.0
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise FirnError(
            f"{name} is '{word[:40]}', not a number above 0 and up to {most:g}"
        )
    return value


def complete_environment() -> None:
    """Before another library looks for its place among processes.

    Where processes may join and leave (FIRN_JOIN), each of them is alone to other
    libraries, which could not follow: firn keeps its place, and of several GPUs this
    process sees its own only. Elsewhere LOCAL_WORLD_SIZE is set to what firn takes it
    for where it is not set: all processes are on this host. Other libraries take it
    for 1."""
    if os.environ.get("FIRN_JOIN"):
        _hide()
        return
    if os.environ.get("WORLD_SIZE") and not os.environ.get("LOCAL_WORLD_SIZE"):
        os.environ["LOCAL_WORLD_SIZE"] = os.environ["WORLD_SIZE"]


def _hide() -> None:
    """Takes this process's place from the environment."""
    found = {name: os.environ.pop(name) for name in _PLACE if os.environ.get(name)}
    _hidden.update(found)
    local = int(found.get("LOCAL_RANK") or found.get("RANK") or 0)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if found and len(gpus) > 1 and local < len(gpus):
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[local]


def is_hidden() -> bool:
    """Is each process alone to other libraries?"""
    return bool(_hidden)


@contextlib.contextmanager
def shown_environment() -> Iterator[None]:
    """The place is in the environment again, for a moment."""
    os.environ.update({name: _hidden[name] for name in _PLACE if name in _hidden})
    try:
        yield
    finally:
        for name in _PLACE:
            if name in _hidden:
                os.environ.pop(name, None)


def even_layout(nthreads: int, nprocs: int) -> list[int]:
    """Owners of threads in even, contiguous runs, larger ones first."""
    share, more = divmod(nthreads, nprocs)
    return [r for r in range(nprocs) for _ in range(share + (r < more))]


@dataclass
class Place:
    """Where this process stands: torchrun's and firn's environment."""

    rank: int = 0
    nprocs: int = 1
    local_rank: int = 0
    local_nprocs: int = 1
    nthreads: int = 1
    owner: list[int] = field(default_factory=list)
    address: str = "127.0.0.1"
    port: int = 29501
    job: str = "train"
    attempt: int = 0

    @staticmethod
    def of_environment(
        nthreads: int | None = None,
        layout: Sequence[int] | None = None,
        partner: Any = None,
    ) -> "Place":
        """RANK, WORLD_SIZE, ..., FIRN_THREADS, FIRN_LAYOUT, FIRN_JOB.

        ``partner`` (``finetune.Mate``): the place of a co-trained job in the
        same processes. Its name and number of threads are its own, its threads
        are in even runs, and its group listens at the next port.
        """
        place = Place()
        place.nprocs = number_of("WORLD_SIZE", 1, 1, 4096)
        place.rank = number_of("RANK", 0, 0, place.nprocs - 1)
        local = number_of("LOCAL_WORLD_SIZE", place.nprocs, 1, place.nprocs)
        place.local_nprocs = local
        place.local_rank = number_of(
            "LOCAL_RANK", place.rank % place.local_nprocs, 0, place.local_nprocs - 1
        )
        place.port = number_of("MASTER_PORT", 29500, 1, 65534) + 1
        place.address = os.environ.get("MASTER_ADDR") or "127.0.0.1"
        place.job = os.environ.get("FIRN_JOB") or "train"
        older = number_of("FIRN_EPOCH", 0, 0, 2**31 - 1)  # older schedulers'
        place.attempt = number_of("FIRN_ATTEMPT", older, 0, 2**31 - 1)
        if partner is not None:
            place._become(partner, nthreads)
            return place
        place.nthreads = nthreads or number_of("FIRN_THREADS", place.nprocs, 1, 1 << 20)
        place.owner = list(layout) if layout is not None else place._layout()
        place._check()
        return place

    def _become(self, partner: Any, nthreads: int | None) -> None:
        """The place of a co-trained job."""
        self.job, self.attempt = partner.job, partner.attempt
        self.port += 1
        self.nthreads = nthreads or partner.nthreads or self.nprocs
        if self.nthreads < self.nprocs:
            raise FirnError(f"{self.nthreads} threads on {self.nprocs} processes")
        self.owner = even_layout(self.nthreads, self.nprocs)

    def _layout(self) -> list[int]:
        """FIRN_LAYOUT, or even runs."""
        word = os.environ.get("FIRN_LAYOUT", "")
        if not word:
            if self.nthreads < self.nprocs:
                raise FirnError(f"{self.nthreads} threads on {self.nprocs} processes")
            return even_layout(self.nthreads, self.nprocs)
        try:
            return [int(part) for part in word.split(",")]
        except ValueError:
            raise FirnError(
                f"FIRN_LAYOUT is '{word[:40]}', not numbers of processes"
            ) from None

    def _check(self) -> None:
        """Every thread has a process and every process a thread."""
        if len(self.owner) != self.nthreads:
            raise FirnError(
                f"a layout of {len(self.owner)} threads for a job of {self.nthreads}"
            )
        if set(self.owner) != set(range(self.nprocs)):
            raise FirnError(
                f"the layout {self.owner} does not use processes 0 to "
                f"{self.nprocs - 1}, each at least once"
            )

    @property
    def mine(self) -> list[int]:
        """The threads of this process, rising."""
        return [v for v, owner in enumerate(self.owner) if owner == self.rank]


class Alone:
    """The only process of a job: nothing is sent."""

    rank, nprocs = 0, 1
    nbytes = 0

    def bcast(self, data: bytearray, root: int = 0) -> None:
        """No other process to send to."""

    def gather(self, data: bytes) -> list[bytes]:
        """Its own bytes."""
        return [data]

    def max(self, value: int) -> int:
        """Its own value."""
        return value

    def close(self) -> None:
        """Nothing to free."""


class Group:
    """All processes of a job. Every method but put and slot is collective."""

    def __init__(
        self,
        place: Place,
        nelements: int,
        *,
        chain: bool = False,
        order: str = tree.TREE,
        timeout_s: float = 0.0,
        name: str = "",
    ) -> None:
        name = f"{place.job}.{place.attempt}.{place.port}{name}"
        owner = (c_int * place.nthreads)(*place.owner)
        config = GroupConfig(
            name=name.encode(),
            rank=place.rank,
            nprocs=place.nprocs,
            local_rank=place.local_rank,
            local_nprocs=place.local_nprocs,
            nthreads=place.nthreads,
            owner=owner,
            nelements=nelements,
            chain=chain,
            sum=tree.CODE[order],
            address=place.address.encode(),
            port=place.port,
            key=text(os.environ.get("FIRN_GROUP_KEY") or None),
            timeout_s=timeout_s,
        )
        self.rank, self.nprocs = place.rank, place.nprocs
        self.nelements = nelements
        self._handle = c_void_p()
        call("firn_group_open", ctypes.byref(self._handle), ctypes.byref(config))

    def slot(self, thread: int) -> ctypes.Array | None:
        """A thread's shared memory as bytes; None in a chain."""
        at = lib().firn_group_slot(self._handle, thread)
        return (ctypes.c_char * (4 * self.nelements)).from_address(at) if at else None

    def set_sum(self, order: str) -> None:
        """The order of sums from here on: "tree" or "chain"."""
        call("firn_group_set_sum", self._handle, tree.CODE[order])

    def put(self, thread: int, gradient: int, start: int = 0) -> None:
        """Hands in a thread's gradient, by the address of its floats."""
        call("firn_group_put", self._handle, thread, gradient, start)

    def reduce(self, out: int, start: int, divisor: float) -> None:
        """The sum over all threads by ``divisor``, from element ``start``."""
        call("firn_group_reduce", self._handle, out, start, divisor)

    def bcast(self, data: bytearray, root: int = 0) -> None:
        """Fills ``data`` (any writable buffer) from process ``root``."""
        n = memoryview(data).nbytes
        if n > 0:
            call("firn_group_bcast", self._handle, address_of(data), n, root)

    def bcast_at(self, address: int, nbytes: int, root: int = 0) -> None:
        """The same for memory given by its address."""
        call("firn_group_bcast", self._handle, address, nbytes, root)

    def gather(self, data: bytes) -> list[bytes]:
        """The bytes of all processes in process 0; an empty list elsewhere."""
        out, sizes = c_void_p(), (c_size * self.nprocs)()
        call(
            "firn_group_gather", self._handle, data, len(data), ctypes.byref(out), sizes
        )
        if self.rank != 0:
            return []
        whole = ctypes.string_at(out, sum(sizes)) if sum(sizes) else b""
        lib().firn_group_free(out)
        parts, at = [], 0
        for size in sizes:
            parts.append(whole[at : at + size])
            at += size
        return parts

    def max(self, value: int) -> int:
        """The largest value of all processes."""
        number = c_i64(value)
        call("firn_group_max", self._handle, ctypes.byref(number))
        return number.value

    @property
    def nbytes(self) -> int:
        """Gradient bytes handed over so far."""
        return lib().firn_group_bytes(self._handle)

    def close(self) -> None:
        """Frees it."""
        if self._handle:
            lib().firn_group_close(self._handle)
            self._handle = c_void_p()
