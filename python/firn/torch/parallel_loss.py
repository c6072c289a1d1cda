"""Cross-entropy over logits whose vocabulary is split over a group.

Each process has the logits of its own tokens of the vocabulary. For a row x and
the target y the loss is log sum_j exp(x_j) - x_y. The group exchanges three
numbers a row instead of the row: the largest logit m, the sum of exp(x_j - m),
and x_y - m, which one process has. The gradient softmax(x) - 1[j = y] needs no
further message. (Megatron-LM's vocabulary-parallel loss.)

Invariants:
1. The result is that of torch's cross_entropy on the whole logits, up to the
   order of sums, and the same number in all processes of the group.
2. Targets of -100 do not count.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

IGNORED = -100


class _Split(torch.autograd.Function):
    """Mean loss of rows; ``first`` is the first token of this process."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, first: int, group: Any
    ) -> torch.Tensor:
        x = logits.float()
        most = x.max(-1).values
        dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
        x = x - most.unsqueeze(-1)
        at = targets - first
        elsewhere = (at < 0) | (at >= x.shape[-1])
        at = at.masked_fill(elsewhere, 0).unsqueeze(-1)
        chosen = x.gather(-1, at).squeeze(-1).masked_fill(elsewhere, 0.0)
        share = x.exp_()
        sums = torch.stack((share.sum(-1), chosen))
        dist.all_reduce(sums, group=group)
        counts = targets != IGNORED
        number = counts.sum().clamp(min=1)
        ctx.save_for_backward(share.div_(sums[0].unsqueeze(-1)), at, elsewhere, counts)
        ctx.number, ctx.dtype = number, logits.dtype
        return ((sums[0].log() - sums[1]) * counts).sum() / number

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        share, at, elsewhere, counts = ctx.saved_tensors
        own = (~elsewhere).to(share.dtype).unsqueeze(-1)
        out = share.clone().scatter_add_(-1, at, -own)
        out *= (counts * (grad / ctx.number)).unsqueeze(-1)
        return out.to(ctx.dtype), None, None, None


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of whole logits, or of logits that a group splits
    along their last dimension."""
    flat = targets.reshape(-1)
    if not isinstance(logits, DTensor):
        return F.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), flat)
    mesh = logits.device_mesh
    size = -(-logits.shape[-1] // mesh.size())  # as DTensor divides
    first = mesh.get_local_rank() * size
    local = logits.to_local()
    rows = local.reshape(-1, local.shape[-1])
    return _Split.apply(rows, flat, first, mesh.get_group())
