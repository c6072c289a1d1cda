"""Sums of gradients between processes, by torch.distributed.

Every process owns a slice of a vector. all_to_all brings it the partial sums of
its slice from all processes, it adds them in the job's order on the device that
they are on, divides, and all_gather returns the slices to all. Where each
process holds one aligned block of threads (firn.tree), 2 (P - 1) / P N elements
go through each process: as many as through a ring all-reduce.

    Wire      those collectives for one flat vector. On a GPU they run on a
              stream of their own and the host waits for none; on a CPU a thread
              runs them
    Exchange  the way of gradients of an elastic job: parameters in buckets, the
              last ones first, each sent as soon as it is complete

Order: buckets go one after the other, and their two collectives too, in all
processes alike, whenever each of them is complete.
"""

from __future__ import annotations

import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

from firn import FirnError, fold, tree
from firn.group import Place
from firn.torch import folding
from firn.torch.hook import divide
from firn.torch.reduce import Flat

BUCKET_BYTES = 25 << 20  # as DDP's


def open_group(place: Place, device: torch.device, timeout_s: float) -> Any:
    """A process group of all processes of the job, for sums only."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    wait = timedelta(seconds=timeout_s or 300)
    if dist.is_initialized():
        if (dist.get_rank(), dist.get_world_size()) != (place.rank, place.nprocs):
            raise FirnError(
                f"torch.distributed has process {dist.get_rank()} of "
                f"{dist.get_world_size()}, the job {place.rank} of {place.nprocs}"
            )
        return dist.new_group(backend=backend, timeout=wait)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend, rank=place.rank, world_size=place.nprocs, timeout=wait
    )
    return dist.group.WORLD


def serve_store(host: str) -> Any:
    """A store at a free port, by which processes of several hosts find each other."""
    return dist.TCPStore(host, 0, None, True, wait_for_workers=False)


def make_group(meet: "str | list", place: Place, timeout_s: float) -> Any:
    """A gloo group beside the one that is in use, for the layout after a resize. Its
    processes find each other by the file ``meet`` or, on several hosts, by the store
    at ``[host, port]``. torch.distributed does not know of it, so the program's own
    calls never use it."""
    wait = timedelta(seconds=timeout_s or 300)
    if isinstance(meet, str):
        store = dist.FileStore(meet, place.nprocs)
    else:
        store = dist.TCPStore(
            meet[0], meet[1], None, False, wait, wait_for_workers=False
        )
    return dist.ProcessGroupGloo(store, place.rank, place.nprocs, wait)


class _Worker:
    """A thread that does one piece of work after the other."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Until None comes."""
        while True:
            work = self._todo.get()
            if work is None:
                return
            work()

    def do(self, work: Callable[[], None]) -> None:
        """Soon."""
        self._todo.put(work)

    def close(self) -> None:
        """After what is to be done."""
        self._todo.put(None)


class Handle:
    """A vector that is on its way."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def wait(self) -> None:
        """Until it is there; on a GPU the stream waits, not the host."""
        self._wait()


def bytes_sent(owner: Sequence[int], order: str = tree.TREE) -> list[float]:
    """What each process sends in a step, in sizes of the gradient: for all
    other processes their slices of each part that it hands in, and its slice of
    the mean. 2 (P - 1) / P where each hands in one part."""
    nprocs = max(owner) + 1
    counts = [0] * nprocs
    for first, _ in tree.parts_of(owner, order):
        counts[owner[first]] += 1
    return [(nprocs - 1) / nprocs * (count + 1) for count in counts]


def _is_gloo(group: Any) -> bool:
    """Also of a group of make_group(), which torch.distributed does not know of and
    before 2.0 ends for with an AssertionError."""
    return isinstance(group, dist.ProcessGroupGloo) or dist.get_backend(group) == "gloo"


def _gather(out: torch.Tensor, mine: torch.Tensor, group: Any) -> None:
    """All processes' slices, one behind the other; PyTorch before 2.0 has no
    such call for gloo."""
    if mine.is_cuda or _can_gather[0]:
        try:
            dist.all_gather_into_tensor(out, mine, group=group)
            return
        except (AttributeError, RuntimeError):
            if mine.is_cuda or not _is_gloo(group) or _gathered[0]:
                raise
            _can_gather[0] = False
        finally:
            _gathered[0] = _can_gather[0]
    parts = list(out.chunk(group.size()))
    dist.all_gather(parts, mine, group=group)


_can_gather, _gathered = [True], [False]


def _swap(
    came: torch.Tensor, send: torch.Tensor, sizes: list[int], group: Any
) -> None:
    """From each process ``sizes`` elements, to each an equal share of ``send``;
    by single messages where the back end has no all_to_all."""
    nprocs, rank = group.size(), group.rank()
    shares = [send.numel() // nprocs] * nprocs
    if send.is_cuda or _can_swap[0]:
        try:
            dist.all_to_all_single(came, send, sizes, shares, group=group)
            return
        except (AttributeError, RuntimeError) as error:
            if send.is_cuda or "support" not in str(error):
                raise
            _can_swap[0] = False
    ins, outs = came.split(sizes), send.split(shares)
    ins[rank].copy_(outs[rank])
    others = [r for r in range(nprocs) if r != rank]
    at = {r: _global_rank(group, r) for r in others}
    works = [dist.irecv(ins[r], at[r], group=group) for r in others]
    works += [dist.isend(outs[r], at[r], group=group) for r in others]
    for work in works:
        work.wait()


def _global_rank(group: Any, rank: int) -> int:
    """The number of a group's process among all."""
    if group is None or group is dist.group.WORLD:
        return rank
    if hasattr(dist, "get_global_rank"):
        return dist.get_global_rank(group, rank)
    return dist.distributed_c10d._get_global_rank(group, rank)


_can_swap = [True]


class Wire:
    """all_to_all, the sum of a slice, all_gather.

    ``parts`` are the blocks of threads that processes hand in, rising, and
    ``owner`` the process of each thread."""

    def __init__(
        self, owner: Sequence[int], order: str, group: Any, device: torch.device
    ) -> None:
        self.nthreads, self.order, self._group = len(owner), order, group
        self.nprocs, self.rank = group.size(), group.rank()
        parts = tree.parts_of(owner, order)
        self.counts = [0] * self.nprocs
        arrives: list[list[int]] = [[] for _ in range(self.nprocs)]
        for i, (first, _) in enumerate(parts):
            arrives[owner[first]].append(i)
            self.counts[owner[first]] += 1
        at = {part: k for k, part in enumerate(p for ps in arrives for p in ps)}
        self._row = [at[i] for i in range(len(parts))]  # of each part, as it comes
        self._first = [first for first, _ in parts] + [len(owner)]
        self._additions = tree.additions(parts, order)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._worker = None if self._stream else _Worker()
        self._spare: dict[tuple, list[torch.Tensor]] = {}

    def slice_of(self, n: int) -> int:
        """Elements of a process's slice of n: a cache line's worth at least."""
        each = -(-n // self.nprocs)
        return -(-each // 16) * 16

    def _sum(self, came: torch.Tensor, n: int) -> torch.Tensor:
        """The mean of the parts, which lie one behind the other as they came."""
        rows = [came[k * n : (k + 1) * n] for k in self._row]
        if came.is_cuda or came.dtype != torch.float32:
            for i, j in self._additions:
                rows[i].add_(rows[j])
            return divide(rows[0], self.nthreads)
        at = [row.data_ptr() for row in rows]
        if self.order == tree.TREE:
            fold.tree_f32(at[0], at, n, float(self.nthreads), self._first)
        else:
            fold.fold_f32(at[0], at, n, float(self.nthreads))
        return rows[0]

    def _move(self, send: torch.Tensor, out: torch.Tensor) -> None:
        """The three parts, one after the other; ``send`` has for each process
        its slice of each part that this one hands in."""
        n = out.numel() // self.nprocs
        came = self._take(send, n * sum(self.counts))
        _swap(came, send, [n * count for count in self.counts], self._group)
        _gather(out, self._sum(came, n), self._group)
        self._give(came)

    def _take(self, like: torch.Tensor, n: int) -> torch.Tensor:
        """Memory for what comes, of an earlier vector where there is some."""
        spare = self._spare.get((n, like.dtype))
        return spare.pop() if spare else like.new_empty(n)

    def _give(self, came: torch.Tensor) -> None:
        """To be used again by what is behind it on the same stream."""
        self._spare.setdefault((came.numel(), came.dtype), []).append(came)

    def start(
        self,
        send: torch.Tensor,
        out: torch.Tensor,
        then: Callable[[], None] = lambda: None,
        fails: Callable[[BaseException], None] = lambda error: None,
    ) -> Handle:
        """Begins; ``out`` may be ``send`` where this process hands in one part.
        ``then`` is called on the same stream, or by the thread, and ``fails``
        instead of it by the thread."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(send.device))
            with torch.cuda.stream(self._stream):
                self._move(send, out)
                then()
            for tensor in (send, out):
                tensor.record_stream(self._stream)
            stream = self._stream
            return Handle(
                lambda: torch.cuda.current_stream(send.device).wait_stream(stream)
            )
        done = threading.Event()
        failure: list[BaseException] = []

        def work() -> None:
            try:
                self._move(send, out)
                then()
            except BaseException as error:  # told to the one who waits
                failure.append(error)
                fails(error)
            done.set()

        def wait() -> None:
            done.wait()
            if failure:
                raise failure[0]

        assert self._worker is not None
        self._worker.do(work)
        return Handle(wait)

    def close(self) -> None:
        """Ends the thread."""
        if self._worker is not None:
            self._worker.close()


class _Bucket:
    """Some parameters, and the memory of their sums: a row for each part that
    is held. Row 0 takes the mean in the end, if it is the only one to be sent."""

    def __init__(self, params: list[torch.Tensor], nrows: int, wire: Wire) -> None:
        self.params = params
        self.n = sum(p.numel() for p in params)
        self.slice = wire.slice_of(self.n)
        size = self.slice * wire.nprocs
        self.rows = params[0].new_zeros((nrows, size), requires_grad=False)
        nparts = wire.counts[wire.rank]
        self.out = self.rows[0] if nparts == 1 else params[0].new_zeros(size)
        self.send = self.out
        if nparts > 1:
            self.send = params[0].new_zeros(size * nparts)
        self.views = [self._views(row) for row in self.rows]
        self.mean = self._views(self.out)
        self.missing = 0
        self.handle: Handle | None = None

    def _views(self, row: torch.Tensor) -> list[torch.Tensor]:
        """The parameters' parts of a row."""
        found, at = [], 0
        for p in self.params:
            found.append(row[at : at + p.numel()].view(p.shape))
            at += p.numel()
        return found

    def copy(self, row: int, grads: list[torch.Tensor]) -> None:
        """Gradients into a row."""
        if self.rows.is_cuda or self.rows.dtype != torch.float32:
            copy = getattr(torch, "_foreach_copy_", None)
            if copy is not None:
                copy(self.views[row], grads)
                return
            for view, g in zip(self.views[row], grads):
                view.copy_(g)
            return
        whole = [g.contiguous() for g in grads]
        fold.flatten(
            self.rows[row].data_ptr(),
            [g.data_ptr() for g in whole],
            [4 * g.numel() for g in whole],
        )

    def pack(self, nparts: int) -> None:
        """Several parts: for each process its slice of all of them."""
        if nparts > 1:
            nprocs = self.out.numel() // self.slice
            to = self.send.view(nprocs, nparts, self.slice)
            to.copy_(self.rows[:nparts].view(nparts, nprocs, self.slice).transpose(0, 1))


def _on_grad(p: torch.Tensor, call: Callable[[], None]) -> tuple:
    """Calls after each accumulation to p.grad; what has to be kept for it."""
    if hasattr(p, "register_post_accumulate_grad_hook"):
        return (p.register_post_accumulate_grad_hook(lambda _: call()),)
    node = p.expand_as(p).grad_fn.next_functions[0][0]  # PyTorch before 2.1
    return (node.register_hook(lambda *_: call()), node)


class Exchange:
    """The way of gradients of an elastic job through torch.distributed.

    A process adds the gradients of its threads to the sums of its blocks as
    they come (a binary counter, firn.tree). With ``one_backward`` autograd adds
    them by itself where it can, and in the last turn of a step each bucket is
    sent while the backward pass goes on."""

    def __init__(
        self,
        flat: Flat,
        place: Place,
        *,
        order: str = tree.TREE,
        bucket_bytes: int = BUCKET_BYTES,
        timeout_s: float = 0.0,
        group: Any = None,
    ) -> None:
        self._flat, self._place, self._bytes = flat, place, bucket_bytes
        self.device = flat.params[0].device
        for p in flat.params:
            if p.device != self.device or not p.is_floating_point():
                raise FirnError(
                    "between processes parameters must be floating-point numbers "
                    f"on one device, not {p.dtype} on {p.device}"
                )
        self._is_made = group is not None  # by make_group()
        self.group = group or open_group(place, self.device, timeout_s)
        self._owns = self.group is dist.group.WORLD
        self._wire: Wire | None = None
        self._buckets: list[_Bucket] = []
        self._hooks: list[tuple] = []
        self._of: dict[int, _Bucket] = {}
        self._first = -1
        self._turn = 0
        self._overlaps = self._in_place = False
        self.nbytes = 0
        self.set_sum(order)

    # --- the plan of a step -------------------------------------------------

    def set_sum(self, order: str) -> None:
        """The order of sums, between two steps."""
        if self._wire is not None:
            self._wire.close()
        owner = self._place.owner
        self._wire = Wire(owner, order, self.group, self.device)
        parts = tree.parts_of(owner, order)
        mine = [b for b in parts if owner[b[0]] == self._place.rank]
        self._plan: list[tuple[int, int, int, int]] = []
        for k, (first, end) in enumerate(mine):
            held = 0
            for offset in range(end - first):
                merged = tree.merges(offset)
                held += 1 - merged
                last = held - 1 if offset == end - first - 1 else 0
                self._plan.append((k, k + held - 1, merged, last))
        self._nparts = len(mine)
        self._nrows = max(row + 1 for _, row, _, _ in self._plan)
        self._first = -1

    def _build(self) -> None:
        """Buckets of the parameters that still train, the last ones first."""
        assert self._wire is not None
        for handle, *_ in self._hooks:
            handle.remove()
        self._hooks, self._buckets, self._of = [], [], {}
        some: list[torch.Tensor] = []
        size = 0

        def close() -> None:
            nonlocal some, size
            if some:
                bucket = _Bucket(some, self._nrows, self._wire)
                self._buckets.append(bucket)
                self._of.update((id(p), bucket) for p in some)
            some, size = [], 0

        for p in reversed(self._flat.live()):
            nbytes = p.numel() * p.element_size()
            if some and (p.dtype != some[0].dtype or size + nbytes > self._bytes):
                close()
            some.append(p)
            size += nbytes
        close()
        for p in self._flat.live():
            bucket = self._of[id(p)]
            self._hooks.append(_on_grad(p, lambda b=bucket: self._ready(b)))
        self._first = self._flat.first

    # --- turns ----------------------------------------------------------------

    @property
    def overlaps(self) -> bool:
        """Has this turn's backward pass handed gradients over already?"""
        return self._sent > 0

    def begin(self, one_backward: bool) -> None:
        """A turn begins. ``one_backward``: it has one backward pass, which may
        add to the sums by itself and, in the last turn, send them."""
        if self._first != self._flat.first:
            self._build()
        _, row, merged, _ = self._plan[self._turn]
        self._in_place = one_backward and merged > 0
        self._overlaps = one_backward and self._turn == len(self._plan) - 1
        self._sent = 0
        for bucket in self._buckets:
            bucket.missing = len(bucket.params)
            if self._in_place:
                at = row + merged - 1
                for p, view in zip(bucket.params, bucket.views[at]):
                    p.grad = view

    def _ready(self, bucket: _Bucket) -> None:
        """A parameter has its gradient."""
        if not self._overlaps:
            return
        bucket.missing -= 1
        if bucket.missing < 0:
            raise FirnError("two backward passes in a turn, but one_backward is set")
        while self._sent < len(self._buckets) and not self._buckets[self._sent].missing:
            self._finish(self._buckets[self._sent])

    def _finish(self, bucket: _Bucket) -> list[torch.Tensor]:
        """Takes the turn's gradients of a bucket into its rows; in the last turn
        the bucket is sent."""
        part, row, merged, last = self._plan[self._turn]
        grads = []
        for i, p in enumerate(bucket.params):
            g, p.grad = p.grad, None
            if g is None:
                g = torch.zeros_like(p)
            grads.append(g.to_dense() if g.is_sparse else g)
        at = row + merged - 1 if merged else row
        end = row - last  # where the sum of the rows is to be
        if merged == 0:
            bucket.copy(at, grads)
        elif self._in_place:
            self._keep_in_place(bucket, at, grads)
        elif folding.way(self.device) == "kernel":
            folding.fold([*bucket.views[end : at + 1], grads])
            at = end
        else:
            torch._foreach_add_(bucket.views[at], grads)
        if at > end:
            folding.fold([[held] for held in bucket.rows[end : at + 1]])
        self._sent += 1
        if self._turn == len(self._plan) - 1:
            self._send(bucket)
        return grads

    @staticmethod
    def _keep_in_place(bucket: _Bucket, at: int, grads: list[torch.Tensor]) -> None:
        """Autograd may have put a sum elsewhere than in the row."""
        for view, g in zip(bucket.views[at], grads):
            if g.data_ptr() != view.data_ptr():
                view.copy_(g)

    def _send(self, bucket: _Bucket) -> None:
        """On its way."""
        assert self._wire is not None
        bucket.pack(self._nparts)
        bucket.handle = self._wire.start(bucket.send, bucket.out)
        others = self._wire.nprocs - 1
        sent = bucket.slice * others * (self._nparts + 1)
        self.nbytes += sent * bucket.rows.element_size()

    def put(self, thread: int) -> list[torch.Tensor]:
        """The rest of a thread's gradients; they are returned in the order of
        parameters when no part of them was added by autograd."""
        by: dict[int, torch.Tensor] = {}
        for bucket in self._buckets[self._sent :]:
            for p, g in zip(bucket.params, self._finish(bucket)):
                by[id(p)] = g
        self._overlaps = False
        self._turn += 1
        return [by[id(p)] for p in self._flat.live() if id(p) in by]

    def mean(self) -> None:
        """The mean of all threads becomes the parameters' gradient."""
        for bucket in self._buckets:
            assert bucket.handle is not None
            bucket.handle.wait()
            bucket.handle = None
            for p, g in zip(bucket.params, bucket.mean):
                p.grad = g
        self._turn = 0

    def bcast(self, tensors: Sequence[torch.Tensor], root: int) -> None:
        """Tensors of process ``root`` into those of all others, on the device;
        those of one type go together, up to the size of a bucket."""
        some: list[torch.Tensor] = []
        size = 0
        for tensor in sorted(tensors, key=lambda t: str(t.dtype)):
            nbytes = tensor.numel() * tensor.element_size()
            if some and (tensor.dtype != some[0].dtype or size + nbytes > self._bytes):
                self._bcast(some, root)
                some, size = [], 0
            if nbytes > 0:
                some.append(tensor)
                size += nbytes
        if some:
            self._bcast(some, root)

    def _bcast(self, some: list[torch.Tensor], root: int) -> None:
        """Tensors of one type as one."""
        whole = torch.cat([t.detach().reshape(-1) for t in some])
        # as bytes: gloo has no booleans and 16-bit integers
        data = whole.view(torch.uint8)
        if self._is_made:
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = root, 0
            self.group.broadcast([data], options).wait()
        else:
            dist.broadcast(data, root, group=self.group)
        for tensor, part in zip(some, whole.split([t.numel() for t in some])):
            tensor.data.copy_(part.view(tensor.shape))

    def stop(self) -> None:
        """Between two steps: no gradient comes here any more."""
        for handle, *_ in self._hooks:
            handle.remove()
        self._hooks = []

    @property
    def is_own(self) -> bool:
        """Does the job alone use the processes' group?"""
        return self._owns or self._is_made

    def close(self) -> None:
        """Ends the thread, and NCCL's communicator if the job made it; gloo's
        end sometimes hangs, and the end of the process is enough for it."""
        self.stop()
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._owns and self.device.type == "cuda" and dist.is_initialized():
            dist.destroy_process_group()
