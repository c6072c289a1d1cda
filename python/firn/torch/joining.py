"""An elastic job that is resized while it trains (docs/resize.md).

What a checkpoint holds goes from process to process instead: the sections of a
file, with the large tensors sent one by one from memory to memory. A joiner reads
them as it would read a file (firn.torch.saving); a process that stays takes only
the contexts of threads that come to it, once all have agreed.
"""

from __future__ import annotations

import json
import os
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator

import torch

from firn import FirnError
from firn.group import Alone
from firn.join import Join
from firn.report import Reporter
from firn.torch import reduce, saving, states, sums
from firn.torch.buffers import Buffers
from firn.torch.loader import Inline
from firn.torch.losses import Losses
from firn.torch.pack import DTYPE, KIND, to_stored

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic

# Fields that decide whether a collective call is made are the same everywhere.
_SETTINGS = (
    *("passes_wanted", "frozen_wanted", "metric", "epoch_loss", "variance"),
    *("loss", "_said_can", "_decided_at"),
)


@dataclass
class Section:
    """A section in memory, read as one of a file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    data: bytes = b""
    tensor: torch.Tensor | None = None

    def bytes(self) -> bytes:
        """Its data."""
        return self.data


class Sections:
    """Sections by name, read as a checkpoint is."""

    def __init__(self, found: "list[Section]") -> None:
        self._by_name = {s.name: s for s in found}

    def __getitem__(self, name: str) -> Section:
        if name not in self._by_name:
            raise FirnError(f"the running processes have sent no '{name}'")
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Section]:
        return iter(self._by_name.values())


def why_not(job: "Elastic") -> str | None:
    """Why processes cannot join or leave this job; None: they can."""
    o = job.options
    if o.partner is not None or job.paired:
        return "it is co-trained"
    if o.on_stop != "exit":
        return "its loop belongs to another library"
    if o.ablate:
        return "it is a test of what is left out"
    if not isinstance(job.source, Inline):
        return "its data come from worker processes or streams"
    if o.through == "distributed" or isinstance(job.reducer, sums.Exchange):
        return "its gradients go by torch.distributed"
    if o.offload:
        return "its gradients are offloaded"
    if job.place.local_nprocs != job.place.nprocs:
        return "it is on several hosts"
    return None


class Waiting(Alone):
    """The group of a process that has not joined yet."""


# --- what moves ------------------------------------------------------------------


def _own(job: "Elastic") -> "tuple[bytes, list[torch.Tensor]]":
    """The old process 0: the names and kinds of all that is shared, and its
    tensors."""
    head, light, tensors = [], [], []
    for name, value in saving.shared_sections(job):
        if isinstance(value, bytes):
            head.append([name, "bytes", [len(value)], len(value)])
            light.append(value)
            continue
        stored = to_stored(value.detach())
        head.append([name, KIND[stored.dtype], list(stored.shape), -1])
        tensors.append(stored)
    settings = {name: getattr(job, name) for name in _SETTINGS}
    settings["measures"] = job.freezing.measures
    settings["reported"] = job._reported[1]
    text = json.dumps([head, settings]).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(light), tensors


def _send(join: Join, tensor: torch.Tensor) -> None:
    """A tensor of the old process 0, by way of the host."""
    host = tensor.cpu().contiguous()
    join.send(host.data_ptr(), host.numel() * host.element_size())


def _receive(join: Join, kind: str, shape: "list[int]", takes: bool) -> Any:
    """The same in the other processes; None where it is only passed by."""
    tensor = torch.empty(shape if takes else [0], dtype=DTYPE[kind])
    size = tensor.element_size()
    for n in shape:
        size *= n
    join.send(tensor.data_ptr() if takes else 0, size)
    return tensor if takes else None


def _move_shared(job: "Elastic", join: Join) -> "tuple[list[Section], dict]":
    """Collective: all that is the same in every process, to the joiners."""
    is_source = not join.is_new and job.place.rank == 0
    mine, tensors = _own(job) if is_source else (b"", [])
    data = join.share(mine)
    (n,) = struct.unpack_from("<Q", data)
    head, settings = json.loads(data[8 : 8 + n])
    at, found, queue = 8 + n, [], iter(tensors)
    for name, kind, shape, size in head:
        if size >= 0:
            found.append(Section(name, kind, tuple(shape), data[at : at + size]))
            at += size
        elif is_source:
            _send(join, next(queue))
        else:
            tensor = _receive(join, kind, shape, join.is_new)
            found.append(Section(name, kind, tuple(shape), tensor=tensor))
    return found, settings


def _move_contexts(job: "Elastic", join: Join) -> "list[Section]":
    """Collective: the contexts of all threads, to all."""
    mine = b""
    if not join.is_new:
        parts = [s for v in job.mine for s in saving._thread_sections(job, v)]
        mine = saving._to_bytes(parts)
        mine = struct.pack("<Q", len(mine)) + mine
    data, at, found = join.share(mine), 0, []
    while at < len(data):
        (n,) = struct.unpack_from("<Q", data, at)
        for name, kind, shape, raw in saving._of_bytes(data[at + 8 : at + 8 + n]):
            found.append(Section(name, kind, shape, raw))
        at += 8 + n
    return found


def _nbytes(job: "Elastic") -> int:
    """About what moves, the same in all processes."""
    return sum(p.numel() * p.element_size() for p in job.model.parameters())


@dataclass
class _News:
    """What a process has ready when all agree."""

    place: Any = None
    group: Any = None
    shared: Any = None
    settings: Any = None
    contexts: Any = None


def _move(job: "Elastic", join: Join, order: int) -> _News:
    """Collective over old processes and joiners: all but the agreement."""
    news, trouble = _News(), None
    join.meet(order, job.place, _nbytes(job))
    try:
        news.place = join.place(job.place)
        news.shared, news.settings = _move_shared(job, join)
        news.contexts = _move_contexts(job, join)
    except (FirnError, RuntimeError, ValueError, struct.error) as error:
        trouble = str(error)
    o, place = job.options, news.place or job.place
    is_alone = news.place is not None and place.nprocs == 1
    runs = job.sums.order == "tree" or reduce.is_contiguous(place.owner)
    news.group = join.form(
        place,
        0 if is_alone else job.flat.n,
        trouble,
        chain=o.chain and runs,
        order=job.sums.order,
        timeout_s=o.peer_timeout_s,
    )
    if trouble is not None:
        raise FirnError(trouble)
    return news


# --- taken into use --------------------------------------------------------------


def _use_group(job: "Elastic", news: _News) -> None:
    """The new group and the way of gradients through it."""
    old_group, old_reducer = job.group, job.reducer
    was_first, job.place = job.place.rank == 0, news.place
    if news.place.nprocs == 1:
        news.group.close()
        job.group = Alone()
        job.reducer = reduce.Running(job.flat, news.place.nthreads, job.sums.order)
    else:
        job.group = news.group
        slots = news.group.slot(news.place.mine[0]) is not None
        kind = reduce.Slots if slots else reduce.Compact
        job.reducer = kind(job.flat, news.place, news.group)
    old_reducer.close()
    old_group.close()
    if news.place.rank == 0 and not was_first:
        job.reporter.close()
        job.reporter = Reporter(True, None)


def _use_threads(job: "Elastic", news: _News) -> None:
    """The threads that this process has from now on: those that stay as they are,
    others from their contexts."""
    before, job.mine = set(job.mine), news.place.mine
    came = [v for v in job.mine if v not in before]
    rows = {v: job.losses.row(v) for v in job.mine if v in before}
    fresh = Buffers(job.model, came, job.options.shared_buffers)
    for thread in before - set(job.mine):
        job.rng.pop(thread, None)
        job.freezing.profile.threads.pop(thread, None)
    job.buffers.rehome(job.mine, fresh)
    job.losses, job._recent = Losses(job.mine), Losses(job.mine)
    for thread, row in rows.items():
        job.losses.load(thread, row)
    sections = Sections(news.contexts)
    for thread in came:
        saving._give_thread(job, sections, thread)


def switch(job: "Elastic", order: int) -> bool:
    """Collective, between two steps: the switch to the layout of this order, or
    none. False: this process has left the job."""
    job._leave()
    join, news, trouble = job.join, _News(), None
    try:
        news = _move(job, join, order)
    except FirnError as error:
        trouble = str(error)
    old = None if isinstance(job.group, Alone) else job.group
    if not join.agree(old, trouble, job.step):
        job.message = f"not resized at step {job.step}: {trouble}"
        if news.group is not None:
            news.group.close()
        return True
    if news.place is None:
        return False
    _use_group(job, news)
    _use_threads(job, news)
    return True


def join_running(job: "Elastic") -> None:
    """A process that was started to join: takes over the state of the running
    ones."""
    join, trouble = job.join, None
    reason = why_not(job)
    if reason is not None:
        raise FirnError(f"no process can join this job: {reason}")
    if job.options.warm_up is not None:
        with job.outside():
            job.options.warm_up(job)
        job.optimizer.zero_grad(set_to_none=True)
    order = join.ready()
    news = _News()
    try:
        news = _move(job, join, order)
        if news.place is None:
            raise FirnError("the order has no place for this process")
        _use_group(job, news)
        job.mine = news.place.mine
        saving._take(job, Sections(news.shared + news.contexts))
        job.freezing.measures = news.settings.pop("measures")
        job._reported = (time.monotonic(), news.settings.pop("reported"))
        for name, value in news.settings.items():
            setattr(job, name, value)
    except (FirnError, RuntimeError, ValueError, KeyError) as error:
        trouble = str(error)
    join.agree(None, trouble, 0)
    job._ahead = True  # the others have made this boundary
    states.give(job._outside, job._cuda_device())


def is_joiner() -> bool:
    """Was this process started to join a running job?"""
    return bool(os.environ.get("FIRN_JOIN") and os.environ.get("FIRN_JOIN_ORDER"))
