"""Checkpoint files (see firn/ckpt.h): named sections with a type and a shape.

A section's data are bytes here; the layer above makes tensors of them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Iterator, Sequence

from firn._lib import ENOENT, Difference, Error, FirnError, Section, TELL, c_u64
from firn._lib import c_void_p, call, lib

TYPES = ("bytes", "f32", "f64", "f16", "bf16", "i64", "i32", "u8")
_NUMBER = {name: i + 1 for i, name in enumerate(TYPES)}
KINDS = ("", "only left", "only right", "other shape", "other bits")


class Writer:
    """One checkpoint being written; nothing is in place before commit()."""

    def __init__(self, folder: str, name: str, step: int) -> None:
        self._handle = c_void_p()
        call(
            "firn_ckpt_create",
            ctypes.byref(self._handle),
            folder.encode(),
            name.encode(),
            step,
        )

    def put(
        self,
        name: str,
        data: bytes,
        kind: str = "bytes",
        shape: Sequence[int] | None = None,
    ) -> None:
        """A section of these bytes; without a shape it is one row."""
        size = lib().firn_ckpt_type_bytes(_NUMBER[kind])
        row = (len(data) // size,)
        at = ctypes.cast(ctypes.c_char_p(data), c_void_p).value or 0
        self.put_at(name, at, len(data), kind, row if shape is None else shape)

    def put_at(
        self, name: str, at: int, nbytes: int, kind: str, shape: Sequence[int]
    ) -> None:
        """A section by the address of its data."""
        section = Section(
            name=name.encode(),
            type=_NUMBER[kind],
            ndims=len(shape),
            dims=(c_u64 * 8)(*shape),
            data=at,
            nbytes=nbytes,
        )
        call("firn_ckpt_put", self._handle, ctypes.byref(section))

    def commit(self, keep: int = 0) -> None:
        """Ends the file: synced and in place when this returns."""
        handle, self._handle = self._handle, c_void_p()
        call("firn_ckpt_commit", handle, keep)

    def drop(self) -> None:
        """Abandons the checkpoint."""
        if self._handle:
            lib().firn_ckpt_drop(self._handle)
            self._handle = c_void_p()


@dataclass(frozen=True)
class View:
    """A section of an open checkpoint; good until it is closed."""

    name: str
    kind: str
    shape: tuple[int, ...]
    address: int
    nbytes: int

    def bytes(self) -> bytes:
        """A copy of its data."""
        return ctypes.string_at(self.address, self.nbytes) if self.nbytes else b""


def _view(section: Section) -> View:
    """A section as Python has it."""
    return View(
        section.name.decode(),
        TYPES[section.type - 1],
        tuple(section.dims[: section.ndims]),
        section.data or 0,
        section.nbytes,
    )


class Checkpoint:
    """A whole checkpoint, open for reading. A context manager."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle

    @staticmethod
    def open(path: str) -> "Checkpoint":
        """The file of this path; FirnError when it is not whole."""
        handle = c_void_p()
        call("firn_ckpt_open", ctypes.byref(handle), path.encode())
        return Checkpoint(handle)

    @staticmethod
    def newest(folder: str, name: str) -> tuple["Checkpoint | None", str]:
        """The newest whole one, and a sentence on a newer damaged one."""
        handle, refused = c_void_p(), Error()
        try:
            call(
                "firn_ckpt_open_newest",
                ctypes.byref(handle),
                folder.encode(),
                name.encode(),
                ctypes.byref(refused),
            )
        except FirnError as error:
            if error.status != ENOENT:
                raise
            return None, refused.sentence()
        return Checkpoint(handle), refused.sentence()

    @property
    def step(self) -> int:
        """Of its name."""
        return lib().firn_ckpt_step(self._handle)

    def __len__(self) -> int:
        return lib().firn_ckpt_count(self._handle)

    def __iter__(self) -> Iterator[View]:
        for i in range(len(self)):
            yield _view(lib().firn_ckpt_at(self._handle, i).contents)

    def __contains__(self, name: str) -> bool:
        return bool(lib().firn_ckpt_find(self._handle, name.encode()))

    def __getitem__(self, name: str) -> View:
        found = lib().firn_ckpt_find(self._handle, name.encode())
        if not found:
            raise FirnError(f"the checkpoint has no section '{name}'", ENOENT)
        return _view(found.contents)

    def close(self) -> None:
        """Frees it and all views."""
        if self._handle:
            lib().firn_ckpt_close(self._handle)
            self._handle = c_void_p()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Differs:
    """How two sections of one name differ."""

    name: str
    kind: str
    nelements: int
    ndiffer: int
    first: int
    left: float
    right: float
    largest: float


def compare(left: str, right: str) -> list[Differs]:
    """What differs between two files; empty: the same bits."""
    found: list[Differs] = []

    def tell(_: int, difference: "ctypes._Pointer[Difference]") -> None:
        d = difference.contents
        found.append(
            Differs(
                d.name.decode(),
                KINDS[d.kind],
                d.nelements,
                d.ndiffer,
                d.first,
                d.left,
                d.right,
                d.largest,
            )
        )

    with Checkpoint.open(left) as a, Checkpoint.open(right) as b:
        lib().firn_ckpt_compare(a._handle, b._handle, TELL(tell), None)
    return found
