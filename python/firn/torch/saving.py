"""Checkpoints of an elastic job: one file, whatever the number of processes.

    train/progress    i64: version, step, ordinary, due, threads, elements,
                      layers, steps that were measured
    train/sum         "tree" or "chain": the order of sums; absent: chain
    train/decisions   the freezer: log, variances, what is owed
    train/both        i64: steps of this job's lead and of its partner, if they
                      are co-trained (firn.torch.partners)
    train/meansq      f64 by layer: squares of mean gradients, for the variance
    train/batch       i64: what epochs are counted from since the batch changed,
                      and a thread's batch; absent if it never changed
    model/<name>      parameters, and the buffers that threads share
    optim/...         tensors of the optimiser; optim/state has the rest
    also/<name>/...   scheduler and other objects with a state_dict()
    thread/<v>/...    torch, python, numpy, cuda: generators; buffers/<name>;
                      loader; squares; losses (f64: sum and count of the epoch)
    train/backbone    i64: hash, elements, count of the parameters that do not
                      train and are left out (save_frozen=False)
    train/finished    i64: 1 if the training was ended early

Process 0 writes it; the contexts of threads come to it from the processes that
have them. Every process reads the same file, and all agree on whether it could.
Nothing in it is pickled.
"""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any, Container, Iterable, Iterator, Sequence

import torch

from firn import FirnError
from firn._lib import EIO, call
from firn.ckpt import Checkpoint, View, Writer
from firn.group import number_of
from firn.torch import hashing, states
from firn.torch.pack import DTYPE, KIND, of_stored, pack, to_stored, unpack

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic

VERSION = 1


def _section(name: str, tensor: torch.Tensor) -> tuple:
    """A tensor as a section; kinds that files do not know are bytes."""
    host = to_stored(tensor.detach().cpu().contiguous())
    kind = KIND[host.dtype]
    shape = tuple(host.shape)
    if len(shape) > 8:
        raise FirnError(f"{name}: {host.dtype} of {len(shape)} dimensions in a file")
    if host.dim() == 0:
        host, shape = host.reshape(1), ()
    raw = host.view(torch.uint8).numpy().tobytes() if host.numel() else b""
    return name, kind, shape, raw


def _tensor(view: View) -> torch.Tensor:
    """A section as a tensor of its own."""
    if view.kind not in DTYPE:
        raise FirnError(f"section '{view.name}' is no tensor")
    held = getattr(view, "tensor", None)
    if held is not None:  # in memory, from another process (joining.py)
        return held
    data = bytearray(view.bytes())
    if not data:
        return torch.empty(view.shape, dtype=DTYPE[view.kind])
    flat = torch.frombuffer(data, dtype=torch.uint8).view(DTYPE[view.kind])
    return flat.view(view.shape)


# --- threads -------------------------------------------------------------------


def _thread_sections(job: "Elastic", thread: int) -> list:
    """The context of one thread."""
    at = f"thread/{thread}"
    found = [
        (f"{at}/{part}", "u8", (len(data),), data)
        for part, data in states.encode(job.rng[thread]).items()
        if data
    ]
    for name, tensor in job.buffers.of(thread).items():
        found.append(_section(f"{at}/buffers/{name}", tensor))
    loader = job.source.save(job._data_place(thread))
    if loader:
        found.append((f"{at}/loader", "u8", (len(loader),), loader))
    losses = torch.tensor(job.losses.row(thread), dtype=torch.float64)
    found.append(_section(f"{at}/losses", losses))
    squares = job.freezing.profile.threads.get(thread)
    if squares is not None:
        found.append(_section(f"{at}/squares", squares))
    return found


def _to_bytes(sections: list) -> bytes:
    """Sections on their way to process 0."""
    head = [[name, kind, list(at), len(data)] for name, kind, at, data in sections]
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(s[3] for s in sections)


def _of_bytes(data: bytes) -> list:
    """And there."""
    (n,) = struct.unpack_from("<Q", data)
    at, found = 8 + n, []
    for name, kind, shape, size in json.loads(data[8:at]):
        found.append((name, kind, tuple(shape), data[at : at + size]))
        at += size
    return found


def _give_thread(job: "Elastic", ckpt: Checkpoint, thread: int) -> None:
    """A thread goes on where it was."""
    at = f"thread/{thread}"
    names = [n for n in ("torch", "python", "numpy", "cuda") if f"{at}/{n}" in ckpt]
    job.rng[thread] = states.decode({n: ckpt[f"{at}/{n}"].bytes() for n in names})
    if job._cuda_device() is not None and "cuda" not in names:
        raise FirnError(f"thread {thread} has no CUDA generator in the checkpoint")
    for name, tensor in job.buffers.of(thread).items():
        _copy(ckpt, f"{at}/buffers/{name}", tensor)
    if f"{at}/losses" in ckpt:  # files of older versions have none
        job.losses.load(thread, _tensor(ckpt[f"{at}/losses"]).tolist())
    if f"{at}/squares" in ckpt:
        squares = _tensor(ckpt[f"{at}/squares"])
        job.freezing.profile.threads[thread] = squares.to(job.device)


def _copy(ckpt: Checkpoint, name: str, tensor: torch.Tensor) -> None:
    """A section into a tensor of the same shape and type."""
    found = of_stored(_tensor(ckpt[name]), tensor.dtype)
    if found.shape != tensor.shape or found.dtype != tensor.dtype:
        raise FirnError(
            f"'{name}' is {found.dtype} {tuple(found.shape)} in the checkpoint, "
            f"{tensor.dtype} {tuple(tensor.shape)} in the model"
        )
    with torch.no_grad():
        tensor.copy_(found)


# --- what is shared --------------------------------------------------------------


def _backbone(job: "Elastic") -> dict[str, torch.Tensor]:
    """The parameters that never train, by the name of their section."""
    trained = {id(p) for p in job.flat.params}
    named = job.model.named_parameters()
    return {f"model/{name}": p for name, p in named if id(p) not in trained}


def _identity(job: "Elastic") -> list[int]:
    """train/backbone"""
    tensors = _backbone(job).values()
    return [hashing.hash_of(tensors), sum(p.numel() for p in tensors), len(tensors)]


def _check_backbone(job: "Elastic", ckpt: Checkpoint) -> None:
    """A file without the backbone goes on with the same backbone only."""
    theirs = _tensor(ckpt["train/backbone"]).tolist()
    mine = _identity(job)
    if theirs[1:] != mine[1:]:
        raise FirnError(
            f"the checkpoint was made with a frozen backbone of {theirs[1]} numbers in "
            f"{theirs[2]} parameters; this model has {mine[1]} in {mine[2]}"
        )
    if theirs != mine:
        raise FirnError(
            "the checkpoint holds no backbone, and the frozen parameters of this model "
            "have other values than those it was trained with: load the same backbone"
        )


def _shared(
    job: "Elastic", skip: Container[str] = ()
) -> Iterable[tuple[str, torch.Tensor]]:
    """Parameters, and buffers that are not the threads' own."""
    for name, p in job.model.named_parameters():
        if f"model/{name}" not in skip:
            yield f"model/{name}", p
    for name, b in job.model.named_buffers():
        if name not in job.buffers.named:
            yield f"model/{name}", b


def _objects(job: "Elastic") -> dict[str, Any]:
    """What has a state_dict(), by the name of its group."""
    found = {"optim": job.optimizer}
    if job.options.scheduler is not None:
        found["also/scheduler"] = job.options.scheduler
    for name, thing in job.options.also.items():
        found[f"also/{name}"] = thing
    return found


def _progress(job: "Elastic") -> list[int]:
    """train/progress"""
    return [
        VERSION,
        job.step,
        job.ordinary,
        job._due,
        job.place.nthreads,
        job.flat.n,
        len(job.layers),
        job.freezing.profile.nsteps,
    ]


def shared_sections(
    job: "Elastic",
) -> "Iterator[tuple[str, bytes | torch.Tensor]]":
    """All that is the same in every process, by the name of its section."""
    yield "train/progress", torch.tensor(_progress(job), dtype=torch.int64)
    yield "train/sum", job.sums.order.encode()
    yield "train/decisions", job.freezer.save()
    if job.paired:
        yield "train/both", torch.tensor(job.both)
    yield "train/meansq", job.freezing.profile.means
    batch = job.saved_batch()
    if batch is not None:
        yield "train/batch", torch.tensor(batch)
    skip: Container[str] = ()
    if not job.options.save_frozen:
        skip = _backbone(job)
        yield "train/backbone", torch.tensor(_identity(job), dtype=torch.int64)
    if job.finished:
        yield "train/finished", torch.ones(1, dtype=torch.int64)
    yield from _shared(job, skip)
    for name, thing in _objects(job).items():
        text, tensors = pack(thing.state_dict(), name)
        yield f"{name}/state", text.encode()
        yield from tensors.items()


def _write(job: "Elastic", threads: list[bytes]) -> None:
    """Process 0 writes the file."""
    os.makedirs(job.folder, exist_ok=True)
    writer = Writer(job.folder, job.name, job.step)
    try:
        for name, value in shared_sections(job):
            if isinstance(value, bytes):
                writer.put(name, value)
            else:
                _put(writer, _section(name, value))
        sections = [s for part in threads for s in _of_bytes(part)]
        for section in sorted(sections, key=lambda s: int(s[0].split("/")[1])):
            _put(writer, section)
    except BaseException:
        writer.drop()
        raise
    writer.commit(job.options.keep)


def _put(writer: Writer, section: tuple) -> None:
    """A section with its shape."""
    name, kind, shape, data = section
    writer.put(name, data, kind, shape)


def save(job: "Elastic") -> None:
    """Collective: all send their threads, process 0 writes, all hear of it."""
    mine = [s for thread in job.mine for s in _thread_sections(job, thread)]
    gathered = job.group.gather(_to_bytes(mine))
    failure: FirnError | None = None
    if job.place.rank == 0:
        try:
            _write(job, gathered)
        except (FirnError, OSError) as error:
            failure = FirnError(str(error), EIO)
    if job.group.max(failure is not None):
        raise failure or FirnError("process 0 could not write a checkpoint", EIO)


def _check(job: "Elastic", progress: list[int]) -> None:
    """Is it a checkpoint of this job?"""
    mine = _progress(job)
    if len(progress) != len(mine) or progress[0] != VERSION:
        raise FirnError("a checkpoint of another version")
    for place, what in ((4, "threads"), (5, "elements"), (6, "layers")):
        if progress[place] != mine[place]:
            raise FirnError(
                f"a checkpoint of {progress[place]} {what} cannot go on with "
                f"{mine[place]}"
            )


def _take(job: "Elastic", ckpt: Checkpoint) -> None:
    """All of a checkpoint, into the job."""
    progress = _tensor(ckpt["train/progress"]).tolist()
    _check(job, progress)
    named = ckpt["train/sum"].bytes().decode() if "train/sum" in ckpt else "chain"
    order, message = job.sums.take(named)
    job.reducer.set_sum(order)
    job.message = job.message or message
    skip: Container[str] = ()
    if "train/backbone" in ckpt:
        _check_backbone(job, ckpt)
        skip = _backbone(job)
    for name, tensor in _shared(job, skip):
        _copy(ckpt, name, tensor)
    for name, thing in _objects(job).items():
        inside = f"{name}/"
        tensors = {
            v.name: _tensor(v)
            for v in ckpt
            if v.name.startswith(inside) and v.kind in DTYPE
        }
        state = unpack(ckpt[f"{name}/state"].bytes().decode(), tensors)
        thing.load_state_dict(state)
    job.freezer.load(ckpt["train/decisions"].bytes())
    for thread in job.mine:
        _give_thread(job, ckpt, thread)
    job.step, job.ordinary, job._due = progress[1:4]
    job.finished = "train/finished" in ckpt
    both = _tensor(ckpt["train/both"]).tolist() if "train/both" in ckpt else [-1, -1]
    job.both = (both[0], both[1])
    job._decided_at = job.step
    profile = job.freezing.profile
    profile.nsteps = progress[7]
    profile.means = _tensor(ckpt["train/meansq"]).to(profile.means.device)
    if "train/batch" in ckpt:
        job.take_batch(_tensor(ckpt["train/batch"]).tolist())
    give_data(job, ckpt, job.mine)


def give_data(job: "Elastic", ckpt: Checkpoint, threads: "Sequence[int]") -> None:
    """The data of threads go on where they were."""
    epoch, batch = job._data_at()
    if batch > 0 or getattr(job.source, "crosses_epochs", False):
        for thread in threads:
            at = f"thread/{thread}/loader"
            data = ckpt[at].bytes() if at in ckpt else b""
            job.source.load(job._data_place(thread), epoch, batch, data)


def begin_anew(job: "Elastic") -> None:
    """Process 0 removes the job's checkpoints, once, if it is to begin anew
    (FIRN_ANEW; see firn/ckpt.h)."""
    attempt = number_of("FIRN_ANEW", 0, 0, 1 << 30)
    if attempt > 0 and job.options.partner is None:
        folder, name = job.folder.encode(), job.name.encode()
        call("firn_ckpt_anew", folder, name, attempt)


def _file(job: "Elastic", step: int) -> str:
    """The path of the checkpoint after a step."""
    return os.path.join(job.folder, f"{job.name}-{step:012d}.ckpt")


def _open(job: "Elastic", at: int | None) -> "Checkpoint | None":
    """The checkpoint that process 0 finds newest, or the one after step ``at``,
    in all processes."""
    ckpt, step = None, -1
    if job.place.rank == 0 and at is not None:
        if os.path.exists(_file(job, at)):
            ckpt, step = Checkpoint.open(_file(job, at)), at
    elif job.place.rank == 0:
        begin_anew(job)
        ckpt, refused = Checkpoint.newest(job.folder, job.name)
        if refused:
            job.message = f"passed over: {refused}"
        step = ckpt.step if ckpt is not None else -1
    newest = torch.tensor([step], dtype=torch.int64)
    job.bcast(newest)
    if job.place.rank != 0 and int(newest) >= 0:
        ckpt = Checkpoint.open(_file(job, int(newest)))
    return ckpt


def resume(job: "Elastic", at: int | None = None) -> bool:
    """Collective: goes on from the newest whole checkpoint, or from the one after
    step ``at``, if there is one."""
    failure: Exception | None = None
    ckpt = None
    try:
        ckpt = _open(job, at)
        if ckpt is not None:
            _take(job, ckpt)
    except FirnError as error:
        failure = error
    finally:
        if ckpt is not None:
            ckpt.close()
    if job.group.max(failure is not None):
        raise failure or FirnError("another process could not resume", EIO)
    return ckpt is not None
