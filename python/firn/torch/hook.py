"""A communication hook for DDP that sums in the order of a job's tree.

DDP's own all-reduce sums in an order of the back end's choice, which depends
on the number of processes and on how parameters fall into buckets. With

    ddp.register_comm_hook(None, firn.torch.fixed_order_hook)

it sums by the tree over the ranks (firn.tree) and divides once: what an elastic
job of as many threads computes, on any number of processes, bit for bit. Each
rank sums its slice of the bucket, so as many bytes are sent as by a ring
all-reduce, beside the backward pass. FIRN_SUM=chain sums
((g0 + g1) + g2) + ... instead, as all versions before the tree did.
"""

# No "from __future__ import annotations": DDP looks at the hook's own.
from typing import Any

import torch
import torch.distributed as dist

_Bucket = getattr(dist, "GradBucket", Any)  # absent where PyTorch has no DDP
_wires: "dict[Any, Any]" = {}


def divide(total: torch.Tensor, n: int) -> torch.Tensor:
    """total / n, correctly rounded on every device.

    On CUDA dividing by a Python number multiplies by its reciprocal, which is
    the same only for powers of two; dividing by a tensor is a division.
    """
    if n & (n - 1) == 0:
        return total.mul_(1.0 / n) if n > 1 else total
    return total.div_(torch.full((), float(n), dtype=total.dtype, device=total.device))


def _wire_of(group: Any, device: torch.device) -> Any:
    """The collectives of a process group, made once."""
    from firn.torch import exchange, sums  # they need divide()

    order = sums.Sums(sums.word_of(None, "FIRN_SUM", ("tree", "chain"))).order
    key = (group, device, order)
    if key not in _wires:
        nprocs = dist.get_world_size(group)
        _wires[key] = exchange.Wire(range(nprocs), order, group, device)
    return _wires[key]


def fixed_order_hook(
    state: Any, bucket: _Bucket
) -> torch.futures.Future[torch.Tensor]:
    """The mean of a bucket over all ranks; ``state``: a process group or None."""
    mine = bucket.buffer()
    group = state if isinstance(state, dist.ProcessGroup) else dist.group.WORLD
    wire = _wire_of(group, mine.device)
    n = mine.numel()
    whole = mine
    if n % wire.nprocs:
        whole = mine.new_zeros(wire.slice_of(n) * wire.nprocs)
        whole[:n].copy_(mine)
    devices = [mine.device] if mine.is_cuda else None
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)
    wire.start(
        whole, whole, lambda: done.set_result(whole[:n]), done.set_exception
    )
    return done
