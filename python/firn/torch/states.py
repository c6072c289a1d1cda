"""The random generators of a process: torch's, CUDA's, numpy's and Python's.

``take()`` and ``give()`` are the switch of a thread and have to be cheap;
``encode()`` and ``decode()`` make bytes of it for checkpoints and data
workers: fixed layouts, no pickle, so that a hostile file can do no harm.
"""

from __future__ import annotations

import random
import struct
from typing import Any, NamedTuple

import torch

from firn import FirnError

try:
    import numpy
except ImportError:  # numpy is optional for torch
    numpy = None

_PYTHON = struct.Struct("<625I?d")
_NUMPY = struct.Struct("<624Iiid")


class States(NamedTuple):
    """One state of all generators; numpy and cuda may be missing."""

    torch: torch.Tensor
    python: tuple
    numpy: Any
    cuda: torch.Tensor | None


def take(device: torch.device | None = None) -> States:
    """The states as they are now."""
    cuda = None
    if device is not None and device.type == "cuda":
        cuda = torch.cuda.get_rng_state(device)
    return States(
        torch.get_rng_state(),
        random.getstate(),
        numpy.random.get_state() if numpy is not None else None,
        cuda,
    )


def give(states: States, device: torch.device | None = None) -> None:
    """Puts them in place."""
    torch.set_rng_state(states.torch)
    random.setstate(states.python)
    if states.numpy is not None and numpy is not None:
        numpy.random.set_state(states.numpy)
    if states.cuda is not None and device is not None:
        torch.cuda.set_rng_state(states.cuda, device)


def seed(number: int, numpy_seed: Any = None) -> None:
    """Seeds all generators as a process of its own would be."""
    random.seed(number)
    torch.manual_seed(number)
    if numpy is not None:
        numpy.random.seed(number % 2**32 if numpy_seed is None else numpy_seed)


def _encode_python(state: tuple) -> bytes:
    """Version 3 of Python's generator, the only one there is."""
    _, words, gauss = state
    return _PYTHON.pack(*words, gauss is not None, gauss or 0.0)


def _decode_python(data: bytes) -> tuple:
    """And back."""
    *words, has, gauss = _PYTHON.unpack(data)
    return (3, tuple(words), gauss if has else None)


def _encode_numpy(state: Any) -> bytes:
    """MT19937; nothing where numpy is not there."""
    if state is None:
        return b""
    _, keys, at, has, cached = state
    return _NUMPY.pack(*keys.tolist(), at, has, cached)


def _decode_numpy(data: bytes) -> Any:
    """And back."""
    if not data or numpy is None:
        return None
    *keys, at, has, cached = _NUMPY.unpack(data)
    return ("MT19937", numpy.array(keys, dtype=numpy.uint32), at, has, cached)


def encode(states: States) -> dict[str, bytes]:
    """By the names that sections of a checkpoint have."""
    parts = {
        "torch": states.torch.numpy().tobytes(),
        "python": _encode_python(states.python),
        "numpy": _encode_numpy(states.numpy),
    }
    if states.cuda is not None:
        parts["cuda"] = states.cuda.numpy().tobytes()
    return parts


def _tensor(data: bytes) -> torch.Tensor:
    """Bytes as a tensor that owns them."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def decode(parts: dict[str, bytes]) -> States:
    """What encode() gave."""
    try:
        return States(
            _tensor(parts["torch"]),
            _decode_python(parts["python"]),
            _decode_numpy(parts.get("numpy", b"")),
            _tensor(parts["cuda"]) if "cuda" in parts else None,
        )
    except (struct.error, KeyError, ValueError) as error:
        raise FirnError(f"no random states: {error}") from None


def to_bytes(states: States) -> bytes:
    """All in one, for the queue of data workers."""
    parts = encode(states)
    words = [parts[name] for name in ("torch", "python", "numpy")]
    return struct.pack("<3I", *map(len, words)) + b"".join(words)


def of_bytes(data: bytes) -> States:
    """And back."""
    if len(data) < 12 or sum(struct.unpack_from("<3I", data)) != len(data) - 12:
        raise FirnError("no random states of a data worker")
    sizes, at, words = struct.unpack_from("<3I", data), 12, []
    for size in sizes:
        words.append(data[at : at + size])
        at += size
    return decode(dict(zip(("torch", "python", "numpy"), words)))
