"""State of optimisers and schedulers as JSON and tensors, and back.

Dictionaries with keys of any kind, tuples and counters are kept exactly;
floats too, for Python prints them so that they read back the same. Tensors are
put beside, by name. Functions (a scheduler may hold some) are left out: they
are in the object that is being restored already. Nothing is pickled.
"""

from __future__ import annotations

import collections
import json
from typing import Any

import torch

from firn import FirnError

KIND = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
}
DTYPE = {kind: dtype for dtype, kind in KIND.items()}
_LEFT_OUT = object()
# Kinds of numbers that files do not know: their bytes are stored, as u8 with one
# more dimension if an element has several of them.
RAW = {
    str(dtype).split(".")[1]: dtype
    for dtype in (
        getattr(torch, name, None)
        for name in (
            *("bool", "int8", "int16", "uint16", "uint32", "uint64"),
            *("complex32", "complex64", "complex128"),
            *("float8_e4m3fn", "float8_e5m2"),
            *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
        )
    )
    if dtype is not None
}


def to_stored(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a kind that files know, with the same bits."""
    if tensor.dtype in KIND:
        return tensor
    if tensor.dtype not in RAW.values():
        raise FirnError(f"{tensor.dtype} cannot be put in a checkpoint")
    if tensor.element_size() == 1:
        return tensor.contiguous().view(torch.uint8)
    return tensor.contiguous().unsqueeze(-1).view(torch.uint8)


def of_stored(stored: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What to_stored() was given, if it was of ``dtype``; else ``stored``."""
    if dtype in KIND or stored.dtype != torch.uint8:
        return stored
    size = torch.empty((), dtype=dtype).element_size()
    if size == 1:
        return stored.view(dtype)
    if stored.dim() == 0 or stored.shape[-1] != size:
        return stored
    return stored.contiguous().view(dtype).squeeze(-1)


def _pack(tree: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """A tree of JSON's own types."""
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    if isinstance(tree, torch.Tensor):
        tensors[name] = to_stored(tree)
        if tree.dtype not in KIND:
            return {"tensor": [name, str(tree.dtype).split(".")[1]]}
        return {"tensor": name}
    if isinstance(tree, dict):
        pairs = []
        for key, value in tree.items():
            inner = _pack(value, f"{name}/{key}", tensors)
            if inner is not _LEFT_OUT:
                pairs.append([_pack(key, name, tensors), inner])
        kind = "counter" if isinstance(tree, collections.Counter) else "dict"
        return {kind: pairs}
    if isinstance(tree, (list, tuple)):
        items = [_pack(v, f"{name}/{i}", tensors) for i, v in enumerate(tree)]
        items = [item for item in items if item is not _LEFT_OUT]
        return {"list" if isinstance(tree, list) else "tuple": items}
    if callable(tree):
        return _LEFT_OUT
    if hasattr(tree, "item"):
        return tree.item()
    raise FirnError(f"{name}: a {type(tree).__name__} cannot be put in a checkpoint")


def pack(tree: Any, name: str) -> tuple[str, dict[str, torch.Tensor]]:
    """A state as JSON text, and the tensors in it."""
    tensors: dict[str, torch.Tensor] = {}
    return json.dumps(_pack(tree, name, tensors)), tensors


def _unpack(tree: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """And back."""
    if not isinstance(tree, dict):
        return tree
    ((kind, inner),) = tree.items()
    if kind == "tensor" and isinstance(inner, list):
        return of_stored(tensors[inner[0]], RAW[inner[1]])
    if kind == "tensor":
        return tensors[inner]
    if kind in ("dict", "counter"):
        found = {_unpack(k, tensors): _unpack(v, tensors) for k, v in inner}
        return collections.Counter(found) if kind == "counter" else found
    items = [_unpack(item, tensors) for item in inner]
    return tuple(items) if kind == "tuple" else items


def unpack(text: str, tensors: dict[str, torch.Tensor]) -> Any:
    """What pack() gave; FirnError for what it never gives."""
    try:
        return _unpack(json.loads(text), tensors)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FirnError(f"a damaged state: {error}") from None
