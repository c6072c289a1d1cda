"""Gradients of a split model: sums over replicas and groups, and their norm.

Replicas that are not sharded sum their gradients here, in buckets beside the
backward pass as DDP does; those that are sharded leave it to FSDP. Parameters
that every process of a tensor-parallel group holds whole have equal gradients
there up to the order of floating-point sums: they are averaged, so that the
copies keep equal bits on GPUs whose kernels are not deterministic. Those that
act on a process's own heads (Qwen3's q_norm) are summed.

Everything works on local tensors. PyTorch's ``clip_grad_norm_`` and its foreach
and fused optimisers refuse lists that mix DTensors with plain tensors, or
DTensors of two meshes; local tensors are all plain.

Invariants:
1. Buckets are summed in one order by all processes, whatever the order in
   which gradients become ready.
2. At most two buckets are under way: the memory is that of three.
3. The norm counts every element of the whole model once.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from firn.torch.parallel_layers import Held, local_of

BUCKET_BYTES = 25 << 20
UNDER_WAY = 2


def gradient_of(held: Held) -> torch.Tensor | None:
    """This process's part of the gradient.

    An embedding's backward pass has it whole in each process of the group: it
    is divided here as the parameter is.
    """
    grad, param = held.param.grad, held.param
    if isinstance(grad, DTensor) and isinstance(param, DTensor):
        if grad.placements != param.placements:
            grad = param.grad = grad.redistribute(param.device_mesh, param.placements)
    return None if grad is None else local_of(grad)


def _ensure(held: Held) -> torch.Tensor:
    """The gradient; zeros if the pass did not reach the parameter."""
    if held.param.grad is None:
        held.param.grad = torch.zeros_like(held.param)
    grad = gradient_of(held)
    assert grad is not None
    return grad


def _buckets(held: Sequence[Held]) -> list[list[Held]]:
    """Parameters from the last to the first, of one type, about equal bytes."""
    found: list[list[Held]] = []
    nbytes = 0
    for one in reversed(held):
        local = local_of(one.param)
        size = local.numel() * local.element_size()
        fits = found and nbytes + size <= BUCKET_BYTES
        if not fits or local.dtype != local_of(found[-1][0].param).dtype:
            found.append([])
            nbytes = 0
        found[-1].append(one)
        nbytes += size
    return found


def sum_flat(grads: Sequence[torch.Tensor], group: Any, scale: float = 1.0) -> None:
    """Sums the gradients over the group in one message a type, in place."""
    by_type: dict[torch.dtype, list[torch.Tensor]] = {}
    for grad in grads:
        by_type.setdefault(grad.dtype, []).append(grad)
    for same in by_type.values():
        flat = torch.cat([grad.reshape(-1) for grad in same])
        dist.all_reduce(flat, group=group)
        _put_back(flat if scale == 1.0 else flat.mul_(scale), same)


def _put_back(flat: torch.Tensor, grads: Sequence[torch.Tensor]) -> None:
    """The parts of a flat tensor into the gradients."""
    parts = flat.split([grad.numel() for grad in grads])
    for part, grad in zip(parts, grads):
        grad.copy_(part.view_as(grad))


class Replicas:
    """Sums the gradients of replicas during the last backward pass of a step."""

    def __init__(self, held: Sequence[Held], group: Any) -> None:
        self.group = group
        self.buckets = _buckets(held)
        self.ready = [0] * len(self.buckets)
        self.armed = False
        self._under_way: list[tuple[Any, torch.Tensor, list[torch.Tensor]]] = []
        self._next = 0
        self._hooks = []
        for number, bucket in enumerate(self.buckets):
            for one in bucket:
                hook = self._hook_of(number)
                self._hooks.append(one.param.register_post_accumulate_grad_hook(hook))

    def _hook_of(self, number: int) -> Any:
        """Called when a gradient of that bucket is there."""

        def ready(_: torch.Tensor) -> None:
            if not self.armed:
                return
            self.ready[number] += 1
            while (
                self._next < len(self.buckets)
                and self.ready[self._next] >= len(self.buckets[self._next])
            ):
                self._launch()

        return ready

    def arm(self) -> None:
        """The next backward pass is the last one of its step."""
        self.armed = True
        self._next = 0
        self.ready = [0] * len(self.buckets)

    def _launch(self) -> None:
        """Begins the sum of the next bucket."""
        grads = [_ensure(one) for one in self.buckets[self._next]]
        self._next += 1
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        self._under_way.append((work, flat, grads))
        while len(self._under_way) > UNDER_WAY:
            self._retire()

    def _retire(self) -> None:
        """Waits for the oldest bucket."""
        work, flat, grads = self._under_way.pop(0)
        work.wait()
        _put_back(flat, grads)

    def finish(self) -> None:
        """All sums are in the gradients when this returns."""
        self.armed = False
        while self._next < len(self.buckets):
            self._launch()
        while self._under_way:
            self._retire()

    def close(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks:
            hook.remove()


def sum_over_tensor_group(held: Sequence[Held], group: Any, tensor: int) -> None:
    """Gradients of parameters that every process of the group holds whole."""
    whole = [one for one in held if one.dim is None]
    sum_flat([_ensure(one) for one in whole if one.is_partial], group)
    copies = [_ensure(one) for one in whole if not one.is_partial]
    sum_flat(copies, group, 1.0 / tensor)


def norm_of(
    held: Sequence[Held], tensor_group: Any, replica_group: Any, sharded: bool
) -> torch.Tensor:
    """The norm of the whole gradient, a tensor of no dimensions.

    Groups are None where they have one process.
    """
    split: list[torch.Tensor] = []
    whole: list[torch.Tensor] = []
    for one in held:
        grad = gradient_of(one)
        if grad is not None and grad.numel() > 0:
            (whole if one.dim is None else split).append(grad)
    device = local_of(held[0].param).device
    squares = torch.zeros(2, dtype=torch.float64, device=device)
    for i, grads in enumerate((whole, split)):
        if grads:
            norms = torch._foreach_norm(grads, 2, dtype=torch.float32)
            squares[i] = torch.stack(norms).double().square().sum()
    if sharded and replica_group is not None:
        dist.all_reduce(squares, group=replica_group)
    if tensor_group is not None:
        dist.all_reduce(squares[1:], group=tensor_group)
    return squares.sum().sqrt()


def clip(held: Sequence[Held], norm: torch.Tensor, most: float) -> None:
    """Scales the gradient to at most that norm, without a copy to the host."""
    grads = [g for one in held if (g := gradient_of(one)) is not None]
    factor = (most / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor.to(grad.dtype))
