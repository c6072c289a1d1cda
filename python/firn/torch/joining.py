"""An elastic job that is resized while it trains (docs/resize.md).

What a checkpoint holds goes from process to process instead: the sections of a
file. A joiner reads large tensors from the memory of the old process 0
(firn.torch.peers), where it may; others are sent. It takes the sections as it would
take those of a file (firn.torch.saving); a process that stays takes only the
contexts of threads that come to it, once all have agreed. All that can be done
before the switch is done there (firn.torch.preparing). Between hosts, and between
allocations of Slurm, all of it goes over TCP.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator

import torch

from firn import FirnError
from firn.group import Alone
from firn.join import Join
from firn.report import Reporter
from firn.torch import saving, states, sums
from firn.torch.buffers import Buffers
from firn.torch.losses import Losses
from firn.torch.pack import DTYPE, KIND, to_stored
from firn.torch.preparing import BOUNCE_BYTES, Prepared, is_light, prepare

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic

SENT, READ = -1, -2  # how a large tensor comes to a joiner
# Fields that decide whether a collective call is made are the same everywhere.
_SETTINGS = (
    *("passes_wanted", "frozen_wanted", "metric", "epoch_loss", "variance"),
    *("loss", "_said_can", "_decided_at", "_reported"),
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
    if sums.is_distributed(o, job.reducer) and job.device.type != "cpu":
        return "its gradients go by NCCL"
    if isinstance(job.reducer, sums.Exchange) and not job.reducer.is_own:
        return "the program has a group of torch.distributed of its own"
    if o.offload:
        return "its gradients are offloaded"
    return None


class Waiting(Alone):
    """The group of a process that has not joined yet."""


# --- what moves ------------------------------------------------------------------


def _own(job: "Elastic", ready: Prepared) -> "tuple[bytes, list[torch.Tensor]]":
    """The old process 0: the names and kinds of all that is shared, and the
    tensors that have to be sent. Sizes: of small ones, which are in the message;
    SENT; READ: the joiners read it from this process's memory. It stays there until
    the switch is over: one that was made for this list may be, by chance, where the
    one of the offer was, and nothing else holds it."""
    head, light, tensors = [], [], []
    for name, value in saving.shared_sections(job):
        if isinstance(value, bytes):
            head.append([name, "bytes", [len(value)], len(value)])
            light.append(value)
            continue
        stored = to_stored(value.detach())
        entry = [name, KIND[stored.dtype], list(stored.shape), SENT]
        head.append(entry)
        if is_light(stored):
            light.append(bytes(stored.reshape(-1).view(torch.uint8).tolist()))
            entry[3] = len(light[-1])
        elif ready.is_open and ready.offer and ready.offer.has(name, stored):
            entry[3] = READ
            ready.lent.append(stored)
        else:
            tensors.append(stored)
    settings = {name: getattr(job, name) for name in _SETTINGS}
    settings["measures"] = job.freezing.measures
    text = json.dumps([head, settings]).encode()
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)  # joiners read when they have this
    return struct.pack("<Q", len(text)) + text + b"".join(light), tensors


def _pieces(tensor: torch.Tensor) -> "Iterator[torch.Tensor]":
    """Its bytes, in pieces of what goes through pinned memory at once."""
    flat = tensor.reshape(-1).view(torch.uint8)
    yield from flat.split(BOUNCE_BYTES)


def _send(join: Join, tensor: torch.Tensor, ready: Prepared) -> None:
    """A tensor of the old process 0, by way of the host."""
    if tensor.device.type == "cpu" or ready.bounce is None:
        host = tensor.cpu().contiguous()
        join.send(host.data_ptr(), host.numel() * host.element_size())
        return
    for piece in _pieces(tensor.contiguous()):
        ready.bounce[: piece.numel()].copy_(piece)
        join.send(ready.bounce.data_ptr(), piece.numel())


def _receive(join: Join, tensor: torch.Tensor, ready: Prepared) -> torch.Tensor:
    """The same in a joiner; what it has then."""
    size = tensor.numel() * tensor.element_size()
    if not tensor.is_contiguous():
        tensor = torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    if tensor.device.type == "cpu":
        join.send(tensor.data_ptr(), size)
    elif ready.bounce is None:
        host = torch.empty(tensor.shape, dtype=tensor.dtype)
        join.send(host.data_ptr(), size)
        tensor.copy_(host)
    else:
        for piece in _pieces(tensor):
            join.send(ready.bounce.data_ptr(), piece.numel())
            piece.copy_(ready.bounce[: piece.numel()])
    return tensor


def _room(ready: Prepared, name: str, kind: str, shape: "list[int]") -> torch.Tensor:
    """The tensor that was made for it, or one on the host for one that is new."""
    found = ready.room.get(name)
    if found is not None and list(found.shape) == shape and found.dtype == DTYPE[kind]:
        return found
    return torch.zeros(shape, dtype=DTYPE[kind])


def _take_one(
    join: Join, ready: Prepared, name: str, kind: str, shape: "list[int]", how: int
) -> torch.Tensor:
    """A joiner: a large tensor."""
    room = _room(ready, name, kind, shape)
    if how == SENT:
        return _receive(join, room, ready)
    if ready.reader is None or not ready.reader.fits(name, room):
        raise FirnError(f"'{name}' is laid out otherwise in the running processes")
    ready.reader.copy(name, room)
    return room


def _pass_by(join: Join, kind: str, shape: "list[int]", ready: Prepared) -> None:
    """An old process that is not the source: takes part in the meetings."""
    left = torch.empty(0, dtype=DTYPE[kind]).element_size()
    for n in shape:
        left *= n
    step = BOUNCE_BYTES if ready.bounce is not None else left
    while left > 0:
        join.send(0, min(left, step))
        left -= min(left, step)


def _move_shared(
    job: "Elastic", join: Join, ready: Prepared
) -> "tuple[list[Section], dict]":
    """Collective: all that is the same in every process, to the joiners, if there
    are some."""
    if not join.has_joiners:
        return [], {}
    is_source = not join.is_new and job.place.rank == 0
    mine, tensors = _own(job, ready) if is_source else (b"", [])
    data = join.share(mine)
    (n,) = struct.unpack_from("<Q", data)
    head, settings = json.loads(data[8 : 8 + n])
    at, found, queue = 8 + n, [], iter(tensors)
    for name, kind, shape, size in head:
        if size >= 0:
            found.append(Section(name, kind, tuple(shape), data[at : at + size]))
            at += size
        elif join.is_new:
            tensor = _take_one(join, ready, name, kind, shape, size)
            found.append(Section(name, kind, tuple(shape), tensor=tensor))
        elif size == SENT and is_source:
            _send(join, next(queue), ready)
        elif size == SENT:
            _pass_by(join, kind, shape, ready)
    if ready.reader is not None:
        ready.reader.settle()
    return found, settings


def _move_contexts(job: "Elastic", join: Join) -> "list[Section]":
    """Collective: the contexts of all threads, to all."""
    mine = b""
    if not join.is_new:
        parts = [s for v in job.mine for s in saving._thread_sections(job, v)]
        for name, losses in job.named_losses.items():
            rows = {v: losses.row(v) for v in job.mine}
            data = json.dumps(rows).encode()
            parts.append((f"losses/{name}/{job.mine[0]}", "u8", (len(data),), data))
        mine = saving._to_bytes(parts)
        mine = struct.pack("<Q", len(mine)) + mine
    data, at, found = join.share(mine), 0, []
    while at < len(data):
        (n,) = struct.unpack_from("<Q", data, at)
        for name, kind, shape, raw in saving._of_bytes(data[at + 8 : at + 8 + n]):
            found.append(Section(name, kind, shape, raw))
        at += 8 + n
    return found


class Clock:
    """Seconds of the parts of a switch."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._since = time.perf_counter()

    def passed(self, part: str) -> None:
        """This part ends now."""
        now = time.perf_counter()
        self.parts[part], self._since = now - self._since, now


# --- taken into use --------------------------------------------------------------


def _use_group(job: "Elastic", ready: Prepared) -> None:
    """The new group and the way of gradients through it."""
    assert ready.place is not None
    old_group, old_reducer = job.group, job.reducer
    was_first, job.place = job.place.rank == 0, ready.place
    if ready.place.nprocs == 1:
        ready.group.close()
        ready.group = Alone()
    job.group, job.reducer = ready.group, ready.reducer
    ready.group = ready.reducer = None
    old_reducer.stop()
    # Memory of the size of the gradients is unmapped beside the next steps.
    job.closing = threading.Thread(
        target=_close, args=(old_reducer, old_group), daemon=True
    )
    job.closing.start()
    if ready.place.rank == 0 and not was_first:
        job.reporter.close()
        job.reporter = Reporter(True, None)


def _close(reducer: Any, group: Any) -> None:
    """What is not used any more."""
    reducer.close()
    group.close()


def _use_losses(job: "Elastic", contexts: "list[Section]") -> None:
    """The sums that the program keeps by thread (Elastic.losses_of)."""
    came: dict[str, dict[int, list]] = {}
    for section in contexts:
        if section.name.startswith("losses/"):
            name = section.name.split("/")[1]
            rows = json.loads(section.bytes())
            came.setdefault(name, {}).update({int(v): r for v, r in rows.items()})
    for name, losses in job.named_losses.items():
        losses.rehome(job.mine, came.get(name, {}))
    job.rows_came = came


def _use_threads(job: "Elastic", place: Any, contexts: "list[Section]") -> None:
    """The threads that this process has from now on: those that stay as they are,
    others from their contexts."""
    before, job.mine = set(job.mine), place.mine
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
    sections = Sections(contexts)
    for thread in came:
        saving._give_thread(job, sections, thread)
    saving.give_data(job, sections, job.source.rehome(job.mine))
    _use_losses(job, contexts)


def switch(job: "Elastic", order: int) -> bool:
    """Collective, between two steps: the switch to the layout of this order, or
    none. False: this process has left the job."""
    job._leave()
    clock = Clock()
    join, ready, contexts, trouble = job.join, Prepared(), [], None
    under_way, job.preparing = job.preparing, None
    try:
        if under_way is None or under_way.order != order:
            raise FirnError("this process has not prepared for the resize")
        ready = under_way.out
        under_way.finish()
        join.begin()
        clock.passed("begin")
        _move_shared(job, join, ready)
        clock.passed("shared")
        contexts = _move_contexts(job, join)
        clock.passed("contexts")
        if join.max(0):
            raise FirnError("another process could not switch")
        clock.passed("joiners")
    except (FirnError, RuntimeError, ValueError, struct.error) as error:
        trouble = str(error)
    old = None if isinstance(job.group, Alone) else job.group
    if not join.agree(old, trouble, job.step):
        job.message = f"not resized at step {job.step}: {trouble}"
        ready.close()
        return True
    if ready.place is None:
        return False
    clock.passed("agree")
    _use_group(job, ready)
    _use_threads(job, ready.place, contexts)
    for call in job.after_resize:
        call(job)
    clock.passed("use")
    clock.parts["read"] = float(ready.is_open)
    job.switch_parts = clock.parts
    return True


# --- a joiner --------------------------------------------------------------------


def _warm_up(job: "Elastic") -> None:
    """A step on made-up data, if the program has one: kernels are loaded and tuned,
    and memory is there. All that it changes is replaced by what comes."""
    warm_up = job.options.warm_up
    if warm_up is None:
        return
    with job.outside():
        warm_up(job)
        if job.options.update is None:
            try:
                job.optimizer.step()
            except (RuntimeError, TypeError, ValueError):
                pass  # it needs more than gradients; its first step is slower
    job.optimizer.state.clear()
    job.optimizer.zero_grad(set_to_none=True)


def _take_over(job: "Elastic", ready: Prepared) -> None:
    """The state of the running processes, into a process that joins."""
    join = job.join
    join.begin()
    shared, settings = _move_shared(job, join, ready)
    contexts = _move_contexts(job, join)
    _use_group(job, ready)
    job.mine = job.place.mine
    job.source.rehome(job.mine)
    saving._take(job, Sections(shared + contexts))
    _use_losses(job, contexts)
    job.freezing.measures = settings.pop("measures")
    for name, value in settings.items():
        setattr(job, name, value)
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)


def join_running(job: "Elastic") -> None:
    """A process that was started to join: takes over the state of the running
    ones."""
    join, trouble = job.join, None
    reason = why_not(job)
    if reason is not None:
        raise FirnError(f"no process can join this job: {reason}")
    _warm_up(job)
    order = int(os.environ["FIRN_JOIN_ORDER"])
    try:
        ready = prepare(job, join, order, b"")
        if ready.place is None:
            raise FirnError("the order has no place for this process")
    except (FirnError, RuntimeError, ValueError) as error:
        join.withdraw(order, str(error)[:190])  # the scheduler is told why
        raise
    join.ready()
    try:
        _take_over(job, ready)
    except (FirnError, RuntimeError, ValueError, KeyError) as error:
        trouble = str(error)
    if ready.reader is not None:
        ready.reader.close()
    if trouble is None and join.max(0):
        trouble = "another process could not switch"
    join.agree(None, trouble, 0)
    job._ahead = True  # the others have made this boundary
    states.give(job._outside, job._cuda_device())


def is_joiner() -> bool:
    """Was this process started to join a running job?"""
    return bool(os.environ.get("FIRN_JOIN") and os.environ.get("FIRN_JOIN_ORDER"))
