"""Checkpoints of split models: written in parts, read by any other plan.

    <folder>/<job>-<step, 12 digits>.parts/
        part-00000.bin ...   raw bytes, one file of each process
        index.json           what is where; its last line is a checksum

A tensor is a box of numbers; a process holds a smaller box of it, and so does
each piece of a file. A process that reads with another (t, d) takes from every
piece the numbers that its own box has in common with it. Nothing is pickled.

Invariants:
1. A folder of that name is complete: parts are written and synced under a
   hidden name, process 0 checks that all are there, writes the index, syncs and
   renames. A cut write leaves the older checkpoint; the next writer removes the
   remains. The newest ``keep`` stay.
2. Every piece has a CRC-32, checked whenever it is read. A damaged checkpoint is
   skipped with a sentence, and the one before it is read.
3. All processes agree: if one of them fails, all get the same sentence, which
   names the process.
4. A box that is held by several processes is written by one of them; replicas
   take turns, parameter by parameter.

Cost: each process writes the model and optimiser divided by t d; it reads the
pieces that overlap its boxes.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from firn._lib import FirnError
from firn.torch.parallel_plan import Plan

VERSION = 1
INDEX = "index.json"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


@dataclass(frozen=True)
class Box:
    """Part of a tensor: from ``start``, ``size`` numbers, in each dimension."""

    start: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def count(self) -> int:
        """Numbers in it."""
        return math.prod(self.size)

    def common(self, other: "Box") -> "Box | None":
        """What both have."""
        start, size = [], []
        for a, n, b, m in zip(self.start, self.size, other.start, other.size):
            low, high = max(a, b), min(a + n, b + m)
            if high <= low:
                return None
            start.append(low)
            size.append(high - low)
        return Box(tuple(start), tuple(size))

    def within(self, outer: "Box") -> tuple[slice, ...]:
        """Its place in a tensor that holds ``outer``."""
        return tuple(
            slice(a - b, a - b + n)
            for a, n, b in zip(self.start, self.size, outer.start)
        )


def chunk(total: int, parts: int, which: int) -> tuple[int, int]:
    """Start and size of a part, as torch.chunk and DTensor divide."""
    size = -(-total // parts)
    start = min(which * size, total)
    return start, min(size, total - start)


def box_of(shape: Sequence[int], dim: int | None, plan: Plan) -> Box:
    """What this process holds of a parameter: split along ``dim`` by the
    tensor-parallel group, then along 0 by the replicas if they are sharded."""
    start, size = [0] * len(shape), list(shape)
    if dim is not None:
        start[dim], size[dim] = chunk(shape[dim], plan.tensor, plan.tensor_rank)
    if plan.sharded and shape:
        begin, count = chunk(size[0], plan.replicas, plan.replica)
        start[0], size[0] = start[0] + begin, count
    return Box(tuple(start), tuple(size))


@dataclass
class Item:
    """A tensor of a checkpoint, as this process has it."""

    name: str
    shape: tuple[int, ...]  # of the whole
    original: tuple[int, ...]  # the same numbers, as the model was built
    box: Box
    local: torch.Tensor
    is_writer: bool


# --- processes that agree ----------------------------------------------------


def _gather(text: str, plan: Plan) -> list[str]:
    """A text of each process, at all of them."""
    if plan.nprocs == 1:
        return [text]
    raw = torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)
    sizes = torch.zeros(plan.nprocs, dtype=torch.int64)
    sizes[plan.rank] = raw.numel()
    dist.all_reduce(sizes)
    most = int(sizes.max())
    mine = torch.zeros(most, dtype=torch.uint8)
    mine[: raw.numel()] = raw
    all_of_them = [torch.empty(most, dtype=torch.uint8) for _ in range(plan.nprocs)]
    dist.all_gather(all_of_them, mine)
    texts = (
        bytes(t[:n].tolist()).decode() for t, n in zip(all_of_them, sizes.tolist())
    )
    return ["" if word == " " else word for word in texts]


def agree(plan: Plan, work: Callable[[], str]) -> list[str]:
    """Does the work in all processes: what each returned, or the same
    FirnError in all."""
    try:
        mine = "+" + work()
    except (FirnError, OSError, ValueError, RuntimeError) as error:
        mine = "-" + (str(error) or type(error).__name__)
    words = _gather(mine, plan)
    for rank, word in enumerate(words):
        if word.startswith("-"):
            by = f"process {rank}: " if plan.nprocs > 1 else ""
            raise FirnError(by + word[1:])
    return [word[1:] for word in words]


# --- writing -----------------------------------------------------------------


def _raw(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor, on the host."""
    host = tensor.detach().cpu().contiguous()
    return memoryview(host.reshape(-1).view(torch.uint8).numpy())


def _sync_folder(path: str) -> None:
    """Names in the folder are on disk when this returns."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def path_of(folder: str, job: str, step: int) -> str:
    """Where the checkpoint of a step is."""
    if not _NAME.fullmatch(job):
        raise FirnError(f"'{job[:40]}' cannot be a part of a file's name")
    return os.path.join(folder, f"{job}-{step:012d}.parts")


def steps_in(folder: str, job: str) -> list[int]:
    """Steps of the job's complete checkpoints, the newest first."""
    found = []
    pattern = re.compile(re.escape(job) + r"-(\d{12})\.parts")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            found.append(int(match.group(1)))
    return sorted(found, reverse=True)


def _write_part(path: str, items: Sequence[Item]) -> str:
    """This process's file; its pieces as JSON."""
    pieces = []
    at = 0
    with open(path, "xb") as file:
        for item in items:
            if not item.is_writer or item.box.count == 0:
                continue
            raw = _raw(item.local)
            file.write(raw)
            pieces.append(
                {
                    "name": item.name,
                    "dtype": str(item.local.dtype).removeprefix("torch."),
                    "shape": item.shape,
                    "original": item.original,
                    "start": item.box.start,
                    "size": item.box.size,
                    "at": at,
                    "crc": zlib.crc32(raw),
                }
            )
            at += len(raw)
        file.flush()
        os.fsync(file.fileno())
    return json.dumps({"bytes": at, "pieces": pieces})


def _write_index(path: str, parts: list[str], header: dict) -> None:
    """The index of all parts, after a look at each file."""
    tensors: dict[str, dict] = {}
    for rank, part in enumerate(parts):
        told = json.loads(part)
        file = os.path.join(path, f"part-{rank:05d}.bin")
        try:
            size = os.stat(file).st_size
        except FileNotFoundError:
            raise FirnError(
                f"process 0 does not see {file}, which process {rank} wrote: the "
                "folder of checkpoints must be on a file system that all nodes share"
            ) from None
        if size != told["bytes"]:
            raise FirnError(f"{file} has {size} bytes, not {told['bytes']}")
        for piece in told["pieces"]:
            tensor = tensors.setdefault(
                piece["name"],
                {
                    "dtype": piece["dtype"],
                    "shape": piece["shape"],
                    "original": piece["original"],
                    "pieces": [],
                },
            )
            tensor["pieces"].append(
                [rank, piece["at"], piece["crc"], piece["start"], piece["size"]]
            )
    index = {"version": VERSION, **header, "parts": len(parts), "tensors": tensors}
    text = json.dumps(index, sort_keys=True, allow_nan=False).encode()
    with open(os.path.join(path, INDEX), "xb") as file:
        file.write(text + b"\n" + b"%08x\n" % zlib.crc32(text))
        file.flush()
        os.fsync(file.fileno())


def write(
    folder: str,
    job: str,
    step: int,
    plan: Plan,
    items: Sequence[Item],
    header: dict,
    keep: int = 2,
) -> str:
    """Writes a checkpoint; collective. Returns its path."""
    final = path_of(folder, job, step)
    hidden = os.path.join(folder, f".{job}-{step:012d}.writing")

    def begin() -> str:
        if plan.rank == 0:
            os.makedirs(folder, exist_ok=True)
            for name in os.listdir(folder):
                if name.startswith(f".{job}-") and name.endswith(".writing"):
                    shutil.rmtree(os.path.join(folder, name))
            os.mkdir(hidden)
        return ""

    def part() -> str:
        return _write_part(os.path.join(hidden, f"part-{plan.rank:05d}.bin"), items)

    def commit() -> str:
        if plan.rank == 0:
            _write_index(hidden, parts, {"step": step, "plan": str(plan), **header})
            _sync_folder(hidden)
            if os.path.exists(final):  # damaged, or the same numbers
                shutil.rmtree(final)
            os.rename(hidden, final)
            _sync_folder(folder)
            for old in steps_in(folder, job)[keep:]:
                shutil.rmtree(path_of(folder, job, old), ignore_errors=True)
        return ""

    try:
        agree(plan, begin)
        parts = agree(plan, part)
        agree(plan, commit)
    except FirnError as error:
        if plan.rank == 0:
            shutil.rmtree(hidden, ignore_errors=True)
        raise FirnError(f"no checkpoint of step {step} in {folder}: {error}") from None
    return final


# --- reading -----------------------------------------------------------------


def _expect(holds: bool, path: str, what: str) -> None:
    """Refuses a damaged index."""
    if not holds:
        raise FirnError(f"{path} is damaged: {what}")


def _check_tensor(path: str, name: str, tensor: dict, nparts: int) -> None:
    """An index's entry is what it should be."""
    shape = tensor["shape"]
    _expect(tensor["dtype"] in _DTYPES, path, f"'{name}' has an unknown type")
    _expect(
        len(shape) <= 8
        and math.prod(shape) == math.prod(tensor["original"])
        and all(isinstance(n, int) and n >= 0 for n in shape),
        path,
        f"'{name}' has a wrong shape",
    )
    for part, at, crc, start, size in tensor["pieces"]:
        inside = all(
            isinstance(a, int) and isinstance(n, int) and 0 <= a and 0 < n <= m - a
            for a, n, m in zip(start, size, shape)
        )
        _expect(
            inside
            and len(start) == len(size) == len(shape)
            and 0 <= part < nparts
            and at >= 0
            and isinstance(crc, int),
            path,
            f"a piece of '{name}' is not within it",
        )


class Reader:
    """A complete checkpoint, open for reading by any plan."""

    def __init__(self, path: str) -> None:
        self.path = path
        index = os.path.join(path, INDEX)
        with open(index, "rb") as file:
            text, _, rest = file.read().rpartition(b"\n")[0].rpartition(b"\n")
        _expect(rest == b"%08x" % zlib.crc32(text), index, "its checksum is wrong")
        try:
            self.header = json.loads(text)
            self.tensors: dict[str, dict] = self.header.pop("tensors")
            version = self.header["version"]
            if version != VERSION:
                raise FirnError(f"{index} has version {version}, not {VERSION}")
            for name, tensor in self.tensors.items():
                _check_tensor(index, name, tensor, self.header["parts"])
        except (ValueError, KeyError, TypeError) as error:
            raise FirnError(f"{index} is damaged: {error}") from None
        self._files: dict[int, Any] = {}

    def _piece(self, dtype: torch.dtype, part: int, at: int, crc: int, box: Box) -> Any:
        """A piece as a tensor, after a look at its checksum."""
        name = f"part-{part:05d}.bin"
        if part not in self._files:
            self._files[part] = open(os.path.join(self.path, name), "rb")
        file = self._files[part]
        nbytes = box.count * torch.empty((), dtype=dtype).element_size()
        left = os.fstat(file.fileno()).st_size - at
        _expect(nbytes <= left, self.path, f"{name} is too short")
        file.seek(at)
        raw = bytearray(file.read(nbytes))
        _expect(zlib.crc32(raw) == crc, self.path, f"{name}: wrong checksum at {at}")
        return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).view(box.size)

    def read(self, name: str, shape: Sequence[int], box: Box, dtype: Any) -> Any:
        """The numbers of a box of a tensor, on the host."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise FirnError(f"{self.path} has no '{name}'")
        if tuple(tensor["shape"]) != tuple(shape):
            raise FirnError(
                f"'{name}' is {tuple(tensor['shape'])} in {self.path}, and "
                f"{tuple(shape)} in this model"
            )
        saved = _DTYPES[tensor["dtype"]]
        if dtype is not None and saved != dtype:
            raise FirnError(
                f"'{name}' is {saved} in {self.path}, and {dtype} in this model: "
                "the precision of a job cannot change"
            )
        out = torch.empty(box.size, dtype=saved)
        missing = box.count
        for part, at, crc, start, size in tensor["pieces"]:
            piece = Box(tuple(start), tuple(size))
            common = box.common(piece) if box.count else None
            if common is not None:
                data = self._piece(saved, part, at, crc, piece)
                out[common.within(box)] = data[common.within(piece)]
                missing -= common.count
        _expect(missing == 0, self.path, f"'{name}' has a hole of {missing} numbers")
        return out

    def whole(self, name: str) -> torch.Tensor:
        """A tensor in one piece, in the shape that the model was built with."""
        tensor = self.tensors[name]
        shape = tuple(tensor["shape"])
        box = Box((0,) * len(shape), shape)
        return self.read(name, shape, box, None).view(tensor["original"])

    def close(self) -> None:
        """Closes its files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def weights(path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and whole weights of a checkpoint, as the model was built: for one
    process, without torch.distributed. Tied weights come once."""
    with Reader(path) as reader:
        for name in reader.tensors:
            if name.startswith("model/"):
                yield name.removeprefix("model/"), reader.whole(name)
