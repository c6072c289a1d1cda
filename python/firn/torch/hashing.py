"""A hash of tensors, made on their device, and its comparison across processes.

The bits of a tensor are read as integers x_0, x_1, ... and

    h = sum over i of (x_i + 1) * (2 i + 1) * K   modulo 2^64

for each piece of 2^20 integers; pieces are joined by h <- h * M + h_piece. An
odd factor times a difference below 2^64 is not zero, so a change of one integer
always changes h. Integer sums have no rounding: h is the same on every device,
whatever the order of the additions. It guards against mistakes and broken
hardware, not against an adversary.

Cost: three passes over the weights in pieces of 8 MiB, and one number to the
host. Between processes two numbers are sent.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Iterable

import torch

from firn import FirnError

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic

_PIECE = 1 << 20
_K = 0x1E3779B97F4A7C15
_M = 0x5851F42D4C957F2D
_factors: dict[torch.device, torch.Tensor] = {}


def _factors_on(device: torch.device) -> torch.Tensor:
    """(2 i + 1) * K of a piece; kept, for a hash is made again and again."""
    if device not in _factors:
        odd = torch.arange(_PIECE, dtype=torch.int64, device=device) * 2 + 1
        _factors[device] = odd * _K
    return _factors[device]


def _integers(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of a tensor as a row of integers."""
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    size = flat.element_size()
    kind = {1: torch.uint8, 2: torch.int16}.get(size, torch.int32)
    return flat.view(kind)


def _add(total: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The hash so far, joined by that of a tensor."""
    bits = _integers(tensor)
    factors = _factors_on(bits.device)
    for at in range(0, bits.numel(), _PIECE):
        piece = bits[at : at + _PIECE].to(torch.int64)
        piece += 1
        piece *= factors[: piece.numel()]
        total = total * _M + piece.sum()
    return total


def hash_of(tensors: Iterable[torch.Tensor]) -> int:
    """A number of 62 bits, the same for the same bits in the same order."""
    totals: dict[torch.device, torch.Tensor] = {}
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        total = totals.get(tensor.device)
        if total is None:
            total = torch.ones((), dtype=torch.int64, device=tensor.device)
        totals[tensor.device] = _add(total, tensor)
    number = 0
    for device in totals:  # in the order of first use
        number = (number * _M + int(totals[device].item())) % (1 << 64)
    return (number ^ number >> 32) & ((1 << 62) - 1)


def _sentence(job: "Elastic", parts: list[bytes]) -> str:
    """Process 0: which processes differ from it, and in what."""
    names = [name for name, _ in job.model.named_parameters()]
    rows = [struct.unpack(f"<{len(part) // 8}q", part) for part in parts]
    others = [rank for rank, row in enumerate(rows) if row != rows[0]]
    row = rows[others[0]]
    wrong = [n for n, a, b in zip(names, rows[0], row) if a != b]
    first = f"{len(wrong)} of {len(names)} parameters, first '{wrong[0]}'"
    return (
        f"after step {job.step} the weights of process {others[0]} differ from those "
        f"of process 0 in {first} ({len(others)} of {len(rows)} processes differ)"
    )


def compare(job: "Elastic") -> None:
    """Collective: all processes have the same weights, or an error in each."""
    if job.place.nprocs == 1:
        return
    mine = hash_of(job.model.parameters())
    largest, smallest = job.group.max(mine), -job.group.max(-mine)
    if largest == smallest:
        return
    each = [hash_of([p]) for p in job.model.parameters()]
    parts = job.group.gather(struct.pack(f"<{len(each)}q", *each))
    if job.place.rank == 0:
        raise FirnError(_sentence(job, parts))
    raise FirnError(
        f"after step {job.step} the processes have different weights; process 0 says "
        "which"
    )
