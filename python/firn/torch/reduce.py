"""From the gradients of threads to their mean, in the job's order (firn.tree).

    Running   one process: each thread's gradients are added to the sums that
              are held, on their device, as they come (firn.torch.folding):
              log2 V gradients of memory in the tree, one in a chain
    Exchange  several processes, by torch.distributed (firn.torch.exchange): on
              the device, in buckets beside the backward pass
    Slots     several processes of a host: each thread's gradient goes to its
              slot of shared memory and the C group folds them. From CUDA the
              copies run on a stream of their own, into pinned memory, beside
              the next thread's forward pass
    Compact   several processes with little memory: the C group adds each
              gradient to the sums of the process's blocks; in a chain, with
              neighbouring threads, the running sum is handed on

All of them give the same bits for the same order, then one division. A
parameter that a thread did not use counts as zeros.
"""

from __future__ import annotations

from typing import Sequence

import torch

from firn import FirnError, fold as cfold, tree
from firn.group import Group, Place
from firn.torch.folding import fold, scale


class Flat:
    """Parameters in layer order, and the offsets of their gradients."""

    def __init__(self, layers: Sequence[Sequence[torch.Tensor]]) -> None:
        self.params = [p for layer in layers for p in layer]
        if not self.params:
            raise FirnError("the model has no parameter that trains")
        self.at: list[int] = [0]
        for p in self.params:
            self.at.append(self.at[-1] + p.numel())
        self.layer_at: list[int] = [0]
        self._count = [0]
        for layer in layers:
            self._count.append(self._count[-1] + len(layer))
            self.layer_at.append(self.at[self._count[-1]])
        self.first = 0

    @property
    def n(self) -> int:
        """Elements of a gradient."""
        return self.at[-1]

    @property
    def start(self) -> int:
        """The first element that still trains."""
        return self.at[self.first]

    def freeze(self, nlayers: int) -> None:
        """The first layers are gone from the gradient."""
        self.first = self._count[nlayers]

    def live(self) -> list[torch.Tensor]:
        """The parameters that still train."""
        return self.params[self.first :]

    def take(self) -> list[torch.Tensor]:
        """The gradients of the live parameters, which have none after it."""
        grads = []
        for p in self.live():
            g = p.grad
            p.grad = None
            if g is None:
                g = torch.zeros_like(p)
            grads.append(g.to_dense() if g.is_sparse else g)
        return grads

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The live parameters' parts of a flat tensor."""
        return [
            flat[a : a + p.numel()].view(p.shape)
            for a, p in zip(self.at[self.first :], self.live())
        ]


class Running:
    """All threads are here: sums on the gradients' own device."""

    def __init__(self, flat: Flat, nthreads: int, order: str = tree.TREE) -> None:
        self._flat, self._nthreads, self._order = flat, nthreads, order
        self._held: list[list[torch.Tensor]] = []
        self._turn = 0
        self._in_place = False

    def set_sum(self, order: str) -> None:
        """The order of sums, between two steps."""
        self._order = order

    def _merges(self) -> int:
        """With how many of the sums that are held the next thread is merged."""
        if self._order == tree.CHAIN:
            return min(1, self._turn)
        return tree.merges(self._turn)

    def begin(self, in_place: bool) -> None:
        """A turn begins. ``in_place``: its one backward pass is to add to the
        last sum by itself, parameter by parameter, which are the same
        additions."""
        self._in_place = in_place and self._merges() > 0
        if self._in_place:
            for p, g in zip(self._flat.live(), self._held[-1]):
                p.grad = g

    def put(self, thread: int) -> list[torch.Tensor]:
        """Adds this thread's gradients to the sums; threads come in order. The
        last thread's are added to all that is held, and the sum is divided."""
        grads = self._flat.take()
        merges = self._merges()
        if self._in_place:
            self._held.pop()  # autograd added to it: the gradients are this sum
            merges -= 1
        is_last = self._turn == self._nthreads - 1
        if is_last:
            merges = len(self._held)
        into = self._held[len(self._held) - merges :]
        del self._held[len(self._held) - merges :]
        if into:
            fold([*into, grads], self._nthreads if is_last else 1)
        elif is_last:
            scale(grads, self._nthreads)
        self._held.append(into[0] if into else grads)
        self._turn += 1
        self._in_place = False
        return grads

    def mean(self) -> None:
        """The mean becomes the parameters' gradient."""
        total = self._held.pop() if self._held else []
        self._turn = 0
        for p, g in zip(self._flat.live(), total):
            p.grad = g

    def stop(self) -> None:
        """No gradient comes here any more."""

    def close(self) -> None:
        """Nothing is held."""


def _pin(address: int, nbytes: int) -> bool:
    """Makes memory fit for asynchronous copies; False: it stays as it is."""
    cudart = torch.cuda.cudart()
    return int(cudart.cudaHostRegister(address, nbytes, 0)) == 0


class _Grouped:
    """What both ways through a group share: the mean, and its way back."""

    def __init__(self, flat: Flat, place: Place, group: Group) -> None:
        self._flat, self._nthreads, self._group = flat, place.nthreads, group
        device = flat.params[0].device
        for p in flat.params:
            if p.dtype != torch.float32 or p.device != device:
                raise FirnError(
                    "between processes gradients must be float32 on one device, "
                    f"not {p.dtype} on {p.device}"
                )
        self._cuda = device.type == "cuda"
        self._mean = torch.zeros(flat.n, pin_memory=self._cuda)
        self._out = torch.zeros(flat.n, device=device) if self._cuda else self._mean
        self._device = device

    def begin(self, in_place: bool) -> None:
        """A turn begins; its gradients are taken at its end."""

    def set_sum(self, order: str) -> None:
        """The order of sums, between two steps."""
        self._group.set_sum(order)

    def stop(self) -> None:
        """No gradient comes here any more."""

    def mean(self) -> None:
        """The mean over all processes becomes the gradient."""
        start = self._flat.start
        self._group.reduce(self._mean.data_ptr(), start, float(self._nthreads))
        if self._cuda:
            self._out[start:].copy_(self._mean[start:], non_blocking=True)
            torch.cuda.current_stream(self._device).synchronize()
        for p, g in zip(self._flat.live(), self._flat.views(self._out)):
            p.grad = g


class Slots(_Grouped):
    """A slot for each thread."""

    def __init__(self, flat: Flat, place: Place, group: Group) -> None:
        super().__init__(flat, place, group)
        self._memory: dict[int, torch.Tensor] = {}
        self._pinned: list[int] = []
        for thread in place.mine:
            slot = group.slot(thread)
            memory = torch.frombuffer(slot, dtype=torch.float32)
            self._memory[thread] = memory
            if self._cuda and _pin(memory.data_ptr(), 4 * flat.n):
                self._pinned.append(memory.data_ptr())
        self._stream = torch.cuda.Stream(self._device) if self._cuda else None
        self._under_way: list = []

    def put(self, thread: int) -> list[torch.Tensor]:
        """Copies the gradients to the thread's slot."""
        grads = self._flat.take()
        memory, start = self._memory[thread], self._flat.start
        if self._stream is None:
            whole = [g.contiguous() for g in grads]
            cfold.flatten(
                memory.data_ptr() + 4 * start,
                [g.data_ptr() for g in whole],
                [4 * g.numel() for g in whole],
            )
            self._group.put(thread, memory.data_ptr(), start)
            return grads
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            for g, place in zip(grads, self._flat.views(memory)):
                place.copy_(g, non_blocking=True)
                g.record_stream(self._stream)
        self._under_way.append(thread)
        return grads

    def mean(self) -> None:
        """Waits for the copies first."""
        if self._stream is not None:
            self._stream.synchronize()
            for thread in self._under_way:
                at = self._memory[thread].data_ptr()
                self._group.put(thread, at, self._flat.start)
            self._under_way = []
        super().mean()

    def close(self) -> None:
        """Before the group is closed: its memory is let go."""
        for address in self._pinned:
            torch.cuda.cudart().cudaHostUnregister(address)
        self._memory, self._pinned = {}, []


class Compact(_Grouped):
    """Little memory: the C group adds gradients as they come."""

    def __init__(self, flat: Flat, place: Place, group: Group) -> None:
        super().__init__(flat, place, group)
        self._scratch = torch.zeros(flat.n, pin_memory=self._cuda)

    def put(self, thread: int) -> list[torch.Tensor]:
        """Adds the gradients to the sums of the process."""
        grads = self._flat.take()
        for g, place in zip(grads, self._flat.views(self._scratch)):
            place.copy_(g, non_blocking=True)
        if self._cuda:
            torch.cuda.current_stream(self._device).synchronize()
        self._group.put(thread, self._scratch.data_ptr(), self._flat.start)
        return grads

    def close(self) -> None:
        """Nothing of the group's is held."""


def is_contiguous(owner: Sequence[int]) -> bool:
    """Does every process have neighbouring threads, in its order?"""
    return list(owner) == sorted(owner)


class ByProcess:
    """For tests: what must not be done. Sums the threads of a process first,
    then the processes; the result depends on the placement."""

    def __init__(self, flat: Flat, place: Place, inner: Slots) -> None:
        self._flat, self._mine, self._inner = flat, place.mine, inner
        self._sum: list[torch.Tensor] | None = None

    def put(self, thread: int) -> list[torch.Tensor]:
        """Adds to the local sum; the last thread hands it in."""
        grads = self._flat.take()
        if self._sum is None:
            self._sum = grads
        else:
            torch._foreach_add_(self._sum, grads)
        whole = thread == self._mine[-1]
        for p, g in zip(self._flat.live(), self._sum):
            p.grad = g if whole else None
        if not whole:
            return grads
        self._sum = None
        self._inner.put(thread)
        for other in self._mine[:-1]:
            self._inner.put(other)
        return grads

    def begin(self, in_place: bool) -> None:
        """Gradients are taken at the end of a turn."""

    def set_sum(self, order: str) -> None:
        """As the inner one."""
        self._inner.set_sum(order)

    def mean(self) -> None:
        """The mean by the inner way."""
        self._inner.mean()

    def close(self) -> None:
        """As the inner one."""
        self._inner.close()
