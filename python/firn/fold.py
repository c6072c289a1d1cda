"""Sums in one fixed order, by address (see firn/fold.h).

Callers give addresses and counts, so any array library will do:
``tensor.data_ptr()`` or ``array.ctypes.data``.
"""

from __future__ import annotations

from typing import Sequence

from firn._lib import c_size, c_void_p, lib


def fold_f32(out: int, operands: Sequence[int], n: int, divisor: float = 1.0) -> None:
    """out[i] = ((x0[i] + x1[i]) + ...) / divisor, for n floats."""
    pointers = (c_void_p * len(operands))(*operands)
    lib().firn_fold_f32(out, pointers, len(operands), n, divisor)


def tree_f32(
    out: int,
    operands: Sequence[int],
    n: int,
    divisor: float = 1.0,
    first: Sequence[int] | None = None,
) -> None:
    """The sum by the tree, by divisor, of n floats. ``first``: the first thread
    of each operand, and V behind them; None: operand i is thread i."""
    pointers = (c_void_p * len(operands))(*operands)
    threads = (c_size * len(first))(*first) if first is not None else None
    lib().firn_fold_tree_f32(out, pointers, threads, len(operands), n, divisor)


def ring_f32(out: int, operands: Sequence[int], n: int) -> None:
    """What gloo's ring all-reduce makes of these operands."""
    pointers = (c_void_p * len(operands))(*operands)
    lib().firn_fold_ring_f32(out, pointers, len(operands), n)


def add_f32(total: int, operand: int, n: int) -> None:
    """total[i] += operand[i]"""
    lib().firn_fold_add_f32(total, operand, n)


def scale_f32(total: int, n: int, divisor: float) -> None:
    """total[i] /= divisor"""
    lib().firn_fold_scale_f32(total, n, divisor)


def flatten(flat: int, tensors: Sequence[int], nbytes: Sequence[int]) -> None:
    """Copies tensors one behind the other."""
    n = len(tensors)
    lib().firn_fold_flatten(flat, (c_void_p * n)(*tensors), (c_size * n)(*nbytes), n)


__all__ = ["add_f32", "flatten", "fold_f32", "ring_f32", "scale_f32", "tree_f32"]
