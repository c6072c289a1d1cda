"""Memory of another process of this host, read without its help.

A process offers tensors by their addresses; another one opens the offer before it
needs the data and copies from it when both agree that it is time. Nothing goes
through files or memory in between:

    on a GPU    CUDA's handles for memory of other processes (cuIpc*), of the same
                GPU or of one that it can reach; the copy is made by the device
    on a CPU    process_vm_readv(), where the kernel lets this user read that process

An offer has a few random bytes too. A reader first reads these and refuses the
offer if they differ, so an address is never taken for one of another machine,
container or GPU. Where an offer cannot be made or opened, ``OfferError`` says why
and the caller sends the data by another way.

Cost: opening maps each piece of the allocator's memory once (CUDA); a copy costs
what the memory's own speed allows.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

TOKEN = 64
_LAZY_PEER_ACCESS = 1


class OfferError(Exception):
    """Memory that cannot be offered or opened."""


class _Handle(ctypes.Structure):
    """CUipcMemHandle"""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class _Vector(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("at", ctypes.c_void_p), ("n", ctypes.c_size_t)]


class _Driver:
    """The calls of CUDA's driver that are needed."""

    def __init__(self) -> None:
        try:
            self._lib = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise OfferError(str(error)) from None

    def call(self, name: str, *args: Any) -> None:
        """OfferError for all but success."""
        code = getattr(self._lib, name)(*args)
        if code != 0:
            raise OfferError(f"{name} gave error {code}")

    def range_of(self, address: int) -> tuple[int, int]:
        """Start and size of the allocation with an address."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        at = ctypes.c_uint64(address)
        self.call(
            "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), at
        )
        return base.value, size.value

    def handle_of(self, base: int) -> bytes:
        """What another process opens the allocation with."""
        handle = _Handle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(base))
        return bytes(memoryview(handle).cast("B"))

    def open(self, handle: bytes) -> int:
        """The address of another process's allocation here."""
        base, raw = ctypes.c_uint64(), _Handle.from_buffer_copy(handle)
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(base), raw, _LAZY_PEER_ACCESS)
        return base.value

    def close(self, base: int) -> None:
        """Unmaps it."""
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(base))

    def copy(self, to: int, at: int, n: int) -> None:
        """From device memory to device memory, behind what is under way."""
        self.call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(to),
            ctypes.c_uint64(at),
            ctypes.c_size_t(n),
            ctypes.c_void_p(),
        )


def _nbytes(tensor: torch.Tensor) -> int:
    """Of its elements."""
    return tensor.numel() * tensor.element_size()


def is_dense(tensor: torch.Tensor) -> bool:
    """Are its elements one piece of memory, in whatever order?"""
    n = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride != n:
                return False
            n *= size
    return True


class Offer:
    """Tensors of this process that others may read; the owner keeps it while they
    do. ``facts`` are for JSON."""

    def __init__(self, tensors: dict[str, torch.Tensor], device: torch.device) -> None:
        token = os.urandom(TOKEN)
        self._token = torch.frombuffer(bytearray(token), dtype=torch.uint8).to(device)
        held = {n: t for n, t in tensors.items() if t.device == device and is_dense(t)}
        self.tensors = {
            name: [t.data_ptr(), _nbytes(t), list(t.stride())]
            for name, t in held.items()
        }
        self.facts: dict[str, Any] = {
            "kind": device.type,
            "pid": os.getpid(),
            "token": token.hex(),
            "at": self._token.data_ptr(),
            "tensors": self.tensors,
        }
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.synchronize()
                self.facts["pieces"] = self._pieces()
        elif device.type != "cpu":
            raise OfferError(f"no way to read memory of a {device.type} device")

    def _pieces(self) -> list:
        """The allocations that hold the tensors: [start, size, handle]."""
        driver, found = _Driver(), {}
        places = [at for at, n, _ in self.tensors.values() if n > 0]
        for address in [self._token.data_ptr(), *places]:
            if any(base <= address < base + size for base, size, _ in found.values()):
                continue
            base, size = driver.range_of(address)
            found[base] = [base, size, driver.handle_of(base).hex()]
        return list(found.values())

    def has(self, name: str, tensor: torch.Tensor) -> bool:
        """Is this tensor still where the offer says?"""
        now = [tensor.data_ptr(), _nbytes(tensor), list(tensor.stride())]
        return self.tensors.get(name) == now


class Reader:
    """Another process's offer, open."""

    def __init__(self, facts: dict, device: torch.device) -> None:
        if facts.get("kind") != device.type:
            raise OfferError(f"memory of a {facts.get('kind')} device")
        self._facts, self._device = facts, device
        self._pid = facts["pid"]
        self._driver = _Driver() if device.type == "cuda" else None
        self._mapped: list[tuple[int, int, int]] = []
        try:
            self._open()
            self._check()
        except OfferError:
            self.close()
            raise

    def _open(self) -> None:
        """Maps all pieces."""
        if self._driver is None:
            return
        with torch.cuda.device(self._device):
            torch.cuda.synchronize()  # and this thread has a context
            for base, size, handle in self._facts["pieces"]:
                here = self._driver.open(bytes.fromhex(handle))
                self._mapped.append((base, size, here))

    def _check(self) -> None:
        """The random bytes are there."""
        token = torch.zeros(TOKEN, dtype=torch.uint8, device=self._device)
        self._copy(token, self._facts["at"], TOKEN)
        self.settle()
        if bytes(token.cpu().tolist()).hex() != self._facts["token"]:
            raise OfferError("the memory is not the one that was offered")

    def _copy(self, into: torch.Tensor, address: int, n: int) -> None:
        """Bytes at an address of the other process."""
        if n == 0:
            return
        if self._driver is None:
            _read(self._pid, address, into.data_ptr(), n)
            return
        for base, size, here in self._mapped:
            if base <= address and address + n <= base + size:
                with torch.cuda.device(self._device):
                    self._driver.copy(into.data_ptr(), here + address - base, n)
                return
        raise OfferError("an address outside of what was offered")

    def fits(self, name: str, tensor: torch.Tensor) -> bool:
        """Can a tensor of this process take the bytes of that one?"""
        found = self._facts["tensors"].get(name)
        mine = [_nbytes(tensor), list(tensor.stride())]
        return found is not None and found[1:] == mine

    def strides(self, name: str) -> list[int]:
        """Of a tensor of the other process."""
        return self._facts["tensors"][name][2]

    def copy(self, name: str, into: torch.Tensor) -> None:
        """The tensor of that name as it is now; settle() waits for it."""
        address, n, _ = self._facts["tensors"][name]
        self._copy(into, address, n)

    def settle(self) -> None:
        """All copies are made."""
        if self._driver is not None:
            torch.cuda.synchronize(self._device)

    def close(self) -> None:
        """Unmaps all."""
        for _, _, here in self._mapped:
            with torch.cuda.device(self._device):
                self._driver.close(here)
        self._mapped = []


def _read(pid: int, address: int, into: int, n: int) -> None:
    """process_vm_readv(), all of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    done = 0
    while done < n:
        mine = _Vector(into + done, n - done)
        theirs = _Vector(address + done, n - done)
        got = libc.process_vm_readv(
            pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, ctypes.c_ulong(0)
        )
        if got <= 0:
            raise OfferError(os.strerror(ctypes.get_errno()))
        done += got
