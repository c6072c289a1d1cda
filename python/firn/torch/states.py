"""The random generators of a process: torch's, CUDA's, numpy's and Python's.

``take()`` and ``give()`` are the switch of a thread and have to be cheap;
``encode()`` and ``decode()`` make bytes of it for checkpoints and data
workers: fixed layouts, no pickle, so that a hostile file can do no harm.
"""

from __future__ import annotations

import ctypes
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
_NUMPY = struct.Struct("<2500s?d")


class _Numpy:
    """numpy's global generator, without the 80 us of its own getter and setter.

    A state is (key and position as bytes, is a second normal deviate kept,
    that deviate). The bytes are read and written in place. The deviate can only
    be asked for through get_state(); but when none was kept and the bytes are
    as they were, none is kept now.
    """

    def __init__(self) -> None:
        self._at = 0
        self._seen: tuple[bytes, bool, float] = (b"", True, 0.0)
        kind, keys, at, _, _ = numpy.random.get_state()
        if kind != "MT19937":
            raise FirnError(f"numpy's global generator is a {kind}")
        generator = numpy.random.mtrand._rand._bit_generator
        where = int(generator.ctypes.state_address)
        if ctypes.string_at(where, 2500) == keys.tobytes() + struct.pack("=i", at):
            self._at = where

    def take(self) -> tuple[bytes, bool, float]:
        """The state now."""
        if self._at:
            now = ctypes.string_at(self._at, 2500)
            if now == self._seen[0] and not self._seen[1]:
                return self._seen
        _, keys, at, has, kept = numpy.random.get_state()
        self._seen = (keys.tobytes() + struct.pack("=i", at), bool(has), kept)
        return self._seen

    def give(self, state: tuple[bytes, bool, float]) -> None:
        """Puts a state in place."""
        raw, has, kept = state
        clean = self._at and not has and not self._seen[1]
        if clean and ctypes.string_at(self._at, 2500) == self._seen[0]:
            ctypes.memmove(self._at, raw, 2500)
        else:
            keys = numpy.frombuffer(raw[:2496], dtype=numpy.uint32)
            (at,) = struct.unpack("=i", raw[2496:])
            numpy.random.set_state(("MT19937", keys, at, int(has), kept))
        self._seen = state


_numpy = _Numpy() if numpy is not None else None


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
        _numpy.take() if _numpy is not None else None,
        cuda,
    )


def give(states: States, device: torch.device | None = None) -> None:
    """Puts them in place."""
    torch.set_rng_state(states.torch)
    random.setstate(states.python)
    if states.numpy is not None and _numpy is not None:
        _numpy.give(states.numpy)
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


def _decode_numpy(data: bytes) -> Any:
    """Of bytes; a position outside of the key would be read out of bounds."""
    if not data:
        return None
    raw, has, kept = _NUMPY.unpack(data)
    if not 0 <= struct.unpack("=i", raw[2496:])[0] <= 624:
        raise ValueError("numpy's generator is at no place of its key")
    return raw, has, kept


def encode(states: States) -> dict[str, bytes]:
    """By the names that sections of a checkpoint have."""
    parts = {
        "torch": states.torch.numpy().tobytes(),
        "python": _encode_python(states.python),
        "numpy": _NUMPY.pack(*states.numpy) if states.numpy else b"",
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
