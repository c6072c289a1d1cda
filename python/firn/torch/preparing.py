"""What a resize needs and can have before the switch (docs/resize.md).

As soon as there is an order, each old process prepares in a thread of its own
while it trains on, and a joiner before it says "ready". All of them together:

    meet     old and new processes form the bridge
    offer    the old process 0 tells the joiners which tensors it has, and where in
             its memory (firn.torch.peers); joiners open that memory and make room
    form     the new group and the way of gradients through it, with all memory
             reserved, mapped and pinned

What then is left for the pause are the values. Process 0 begins the switch when
all joiners are ready and all old processes have prepared. If an order is given up,
the waits end and what was prepared is freed; nothing of the running group is
touched before the switch.

Offers are made between two steps, by the thread that trains: tensors do not move
there. A tensor that has moved until the switch is sent by way of the host. Processes
that share no memory (on several hosts, or in several allocations of one) make no
offer: all tensors are sent over TCP.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from firn import FirnError
from firn.group import Place
from firn.join import Join
from firn.torch import reduce, saving, sums
from firn.torch.pack import DTYPE, KIND, to_stored
from firn.torch.peers import Offer, OfferError, Reader

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic

# A tensor on the host up to this size goes with the message that names all tensors.
LIGHT_BYTES = 4096
# Pinned memory through which tensors of a GPU go where it cannot be opened.
BOUNCE_BYTES = 16 << 20


def is_light(tensor: torch.Tensor) -> bool:
    """Small, and on the host."""
    size = tensor.numel() * tensor.element_size()
    return tensor.device.type == "cpu" and size <= LIGHT_BYTES


def heavy_sections(job: "Elastic") -> dict[str, torch.Tensor]:
    """The large tensors of what is the same in every process."""
    return {
        name: to_stored(value.detach())
        for name, value in saving.shared_sections(job)
        if not isinstance(value, bytes) and not is_light(value)
    }


@dataclass
class Prepared:
    """What a process has ready before the switch."""

    place: Place | None = None
    group: Any = None
    reducer: Any = None
    offer: Offer | None = None  # of the old process 0
    lent: list[torch.Tensor] = field(default_factory=list)  # read by joiners
    reader: Reader | None = None  # of a joiner
    is_open: bool = False  # all joiners can read the offer
    room: dict[str, torch.Tensor] = field(default_factory=dict)
    bounce: torch.Tensor | None = None
    store: str = ""  # of the old process 0: a folder that processes meet by,
    server: Any = None  # or a store over TCP

    def close(self) -> None:
        """Frees what was prepared and is not in use."""
        self.drop_store()
        self.lent = []
        if self.reader is not None:
            self.reader.close()
        self.reader = None
        if self.reducer is not None:
            self.reducer.close()
        if self.group is not None:
            self.group.close()
        self.reducer = self.group = None

    def drop_store(self) -> None:
        """Once all have met."""
        if self.store:
            shutil.rmtree(self.store, ignore_errors=True)
        self.store, self.server = "", None


def _nbytes(job: "Elastic") -> int:
    """About what moves, the same in all processes."""
    return sum(p.numel() * p.element_size() for p in job.model.parameters())


def device_memory(device: torch.device) -> tuple[int, int, int]:
    """Bytes of a GPU: free, held by this process, and the most that it held."""
    if device.type != "cuda":
        return 0, 0, 0
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device)
    return free, held, torch.cuda.max_memory_reserved(device)


def _check_memory(job: "Elastic", needs: int) -> None:
    """A joiner: will it fit? It is to need what the running processes need."""
    free, held, _ = device_memory(job.device)
    if free + held < needs:
        raise FirnError(
            f"a process of this job uses {needs >> 20} MiB of its GPU, and "
            f"{free + held >> 20} MiB are free on the GPU of one that was to join"
        )


def _open_store(out: Prepared, is_far: bool) -> Any:
    """Where processes of torch.distributed meet: a file, or a host and its port."""
    if is_far:
        host = os.environ.get("FIRN_HOST") or socket.gethostname()
        out.server = sums.serve_store(host)
        return [host, out.server.port]
    out.store = tempfile.mkdtemp(prefix="firn-")
    return os.path.join(out.store, "meet")


def message_of(job: "Elastic", out: Prepared) -> bytes:
    """The old process 0, between two steps: its tensors, and where they are."""
    tensors = heavy_sections(job)
    facts: dict[str, Any] = {"order": job.sums.order, "why": ""}
    facts["needs"] = device_memory(job.device)[2]
    assert job.join is not None
    is_far = not job.join.shares_memory
    if sums.is_distributed(job.options, job.reducer):
        facts["store"] = _open_store(out, is_far)
    try:
        if is_far:
            raise OfferError("the processes share no memory")
        out.offer = Offer(tensors, job.device)
        facts["offer"] = out.offer.facts
    except OfferError as error:
        facts["why"] = str(error)
    facts["tensors"] = [
        [name, KIND[t.dtype], list(t.shape), t.device.type]
        for name, t in tensors.items()
    ]
    return json.dumps(facts).encode()


def _make_room(job: "Elastic", out: Prepared, facts: dict) -> None:
    """A joiner: a tensor for each that will come. The model's own where they fit,
    else new ones, which an optimiser then keeps."""
    own = {name: to_stored(t.detach()) for name, t in saving._shared(job)}
    strides = {n: f[2] for n, f in facts.get("offer", {}).get("tensors", {}).items()}
    for name, kind, shape, where in facts["tensors"]:
        mine = own.get(name)
        if mine is not None and mine.is_contiguous():
            if list(mine.shape) == shape and KIND[mine.dtype] == kind:
                out.room[name] = mine
                continue
        device = job.device if where == job.device.type else torch.device("cpu")
        room = torch.zeros(shape, dtype=DTYPE[kind], device=device)
        stride = strides.get(name)
        if stride is not None and list(room.stride()) != stride:
            room = torch.zeros(room.numel(), dtype=room.dtype, device=device)
            room = room.as_strided(shape, stride)
        out.room[name] = room


def _open_offer(job: "Elastic", join: Join, out: Prepared, message: bytes) -> dict:
    """Collective: the offer of the old process 0, if processes join."""
    facts = json.loads(join.share(message))
    if not join.has_joiners:
        return facts
    if join.is_new:
        _check_memory(job, facts["needs"])
        try:
            if "offer" in facts:
                out.reader = Reader(facts["offer"], job.device)
        except OfferError as error:
            facts["why"] = str(error)
        _make_room(job, out, facts)
    is_closed = "offer" not in facts or (join.is_new and out.reader is None)
    out.is_open = join.max(is_closed) == 0
    if not out.is_open and job.device.type == "cuda":
        out.bounce = torch.zeros(BOUNCE_BYTES, dtype=torch.uint8, pin_memory=True)
    return facts


def prepare(job: "Elastic", join: Join, order: int, message: bytes) -> Prepared:
    """Collective over old processes and joiners. ``message``: of the old process
    0; b"" elsewhere."""
    out = Prepared()
    prepare_into(out, job, join, order, message)
    return out


def prepare_into(
    out: Prepared, job: "Elastic", join: Join, order: int, message: bytes
) -> None:
    """As prepare(); ``out`` has what was made when it fails."""
    if job.device.type == "cuda":
        torch.cuda.set_device(job.device)
    join.meet(order, job.place, _nbytes(job))
    out.place = join.place(job.place)
    facts = _open_offer(job, join, out, message)
    adds = facts["order"]
    o, place = job.options, out.place or job.place
    is_alone = out.place is not None and place.nprocs == 1
    runs = adds == "tree" or reduce.is_contiguous(place.owner)
    out.group = join.form(
        place,
        0 if is_alone or "store" in facts else job.flat.n,
        None,
        chain=o.chain and runs,
        order=adds,
        timeout_s=o.peer_timeout_s,
    )
    if out.place is not None:
        out.reducer = _reducer_of(job, out, facts)
    if "store" in facts:
        join.max(0)  # all have met
        out.drop_store()
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)


def _reducer_of(job: "Elastic", out: Prepared, facts: dict) -> Any:
    """The way of gradients in the new layout, as the job has it now."""
    o, place, adds = job.options, out.place, facts["order"]
    assert place is not None
    if place.nprocs == 1:
        return reduce.Running(job.flat, place.nthreads, adds)
    if "store" in facts:
        nbytes = max(1, int(o.bucket_mb * 2**20))
        group = sums.make_group(facts["store"], place, o.peer_timeout_s)
        return sums.Exchange(
            job.flat, place, order=adds, bucket_bytes=nbytes, group=group
        )
    slots = out.group.slot(place.mine[0]) is not None
    kind = reduce.Slots if slots else reduce.Compact
    return kind(job.flat, place, out.group)


class Preparing:
    """An old process prepares beside its training."""

    def __init__(self, job: "Elastic", order: int) -> None:
        self.order, self.out = order, Prepared()
        self.trouble: str | None = None
        assert job.join is not None
        self._job, self._join = job, job.join
        self._message = b""
        if job.place.rank == 0:
            self._message = message_of(job, self.out)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """In its thread."""
        try:
            prepare_into(
                self.out, self._job, self._join, self.order, self._message
            )
            self._join.prepared()
        except (FirnError, RuntimeError, ValueError) as error:
            self.trouble = str(error)
            self._join.withdraw(self.order, self.trouble[:190])

    @property
    def is_over(self) -> bool:
        """Has the thread ended?"""
        return not self._thread.is_alive()

    def finish(self) -> Prepared:
        """At the switch: all that was prepared."""
        self._thread.join()
        if self.trouble is not None:
            raise FirnError(self.trouble)
        return self.out

    def drop(self) -> None:
        """The order was given up."""
        self._join.withdraw(self.order, "the training ends")
        self._thread.join()
        self.out.close()
        self._join.drop()


def order_of(job: "Elastic") -> int:
    """The order that this process has prepared for, or prepares; 0: none."""
    return job.preparing.order if job.preparing is not None else 0


def look(job: "Elastic") -> None:
    """Between two steps: begins to prepare if there is an order, and ends it if it
    was given up."""
    join, at = job.join, job.preparing
    if join is None:
        return
    order = join.pending()
    if at is not None and at.order not in (order, join.under_way()):
        if not at.is_over:
            return
        at.drop()
        at = job.preparing = None
    if order and at is None:
        job.preparing = Preparing(job, order)


def end(job: "Elastic") -> None:
    """There is no next step."""
    order = job.join.pending() if job.join is not None and not job.left else 0
    if order:
        job.join.withdraw(order, "the training ends")
    if job.preparing is not None:
        job.preparing.drop()
        job.preparing = None
