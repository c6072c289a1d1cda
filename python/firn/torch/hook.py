"""A communication hook for DDP that sums in the order of ranks.

DDP's own all-reduce sums in an order of the back end's choice, which depends
on the number of processes and on how parameters fall into buckets. With

    ddp.register_comm_hook(None, firn.torch.fixed_order_hook)

it sums ((g0 + g1) + g2) + ... and divides once: what an elastic job of as many
threads computes, on any number of processes, bit for bit.
"""

from typing import Any

import torch
import torch.distributed as dist


_Bucket = getattr(dist, "GradBucket", Any)  # absent where PyTorch has no DDP


def fold(operands: "list[torch.Tensor]") -> torch.Tensor:
    """The mean of the operands in their order; the first one is changed."""
    total = operands[0]
    for operand in operands[1:]:
        total.add_(operand)
    return divide(total, len(operands))


def divide(total: torch.Tensor, n: int) -> torch.Tensor:
    """total / n, correctly rounded on every device.

    On CUDA dividing by a Python number multiplies by its reciprocal, which is
    the same only for powers of two; dividing by a tensor is a division.
    """
    if n & (n - 1) == 0:
        return total.mul_(1.0 / n) if n > 1 else total
    return total.div_(torch.full((), float(n), dtype=total.dtype, device=total.device))


def fixed_order_hook(
    state: Any, bucket: _Bucket
) -> torch.futures.Future[torch.Tensor]:
    """Gathers the bucket of all ranks and folds them by rank."""
    mine = bucket.buffer()
    group = state if isinstance(state, dist.ProcessGroup) else None
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    devices = [mine.device] if mine.is_cuda else None
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)
    done.set_result(fold(everyone))
    return done
