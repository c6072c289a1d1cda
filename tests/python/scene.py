"""scene.py - the training that the tests repeat in all ways: a small network
with BatchNorm and dropout, data that draw from all generators, and its runs as
DDP and as elastic jobs."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch
from farm import digest
from torch import nn
from torch.nn.functional import cross_entropy

from firn.torch import Elastic, fixed_order_hook, states

BATCH, SEED = 3, 11
_kept: list = []  # gloo's end sometimes hangs: the process ends without it


class Noisy:
    """Random pictures; each is changed by Python's, numpy's and torch's
    generators when it is looked at."""

    def __init__(self, n: int = 48) -> None:
        g = torch.Generator().manual_seed(5)
        self.x = torch.randn(n, 1, 8, 8, generator=g)
        self.y = torch.randint(0, 4, (n,), generator=g)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.x[i]
        if random.random() < 0.5:
            x = x.flip(2)
        noise = 0.05 * torch.randn(1) + 0.1 * float(numpy.random.randn())
        return x + noise, self.y[i]


def network() -> nn.Module:
    """The same weights every time."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(96, 16),
        nn.ReLU(),
        nn.Linear(16, 4),
    )


def optimizer_of(model: nn.Module, kind: str = "sgd") -> torch.optim.Optimizer:
    """SGD with momentum and weight decay, or Adam."""
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01)
    return torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3
    )


def _shared(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Hashes of what all threads share."""
    state = optimizer.state_dict()["state"]
    tensors = [
        value if isinstance(value, torch.Tensor) else str(value).encode()
        for number in sorted(state)
        for _, value in sorted(state[number].items())
        if value is not None
    ]
    return {"weights": digest(*model.parameters()), "optimizer": digest(*tensors)}


def _context(v: int, buffers: Any, state: states.States) -> dict[str, str]:
    """Hashes of a thread's private state."""
    found = {f"buffers {v}": digest(*buffers)}
    for part, data in states.encode(state).items():
        found[f"{part} {v}"] = digest(data)
    return found


def ddp(
    rank: int, nprocs: int, *, epochs: int = 2, kind: str = "sgd", **options: Any
) -> dict[str, str]:
    """One rank of the reference: stock DDP with the hook, stock loader."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=nprocs)
    model = network()
    wrapped = nn.parallel.DistributedDataParallel(model, **options)
    wrapped.register_comm_hook(None, fixed_order_hook)
    optimizer = optimizer_of(model, kind)
    data = Noisy()
    sampler = torch.utils.data.DistributedSampler(data, nprocs, rank)
    loader = torch.utils.data.DataLoader(data, BATCH, sampler=sampler)
    states.seed(SEED + rank)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(wrapped(x), y).backward()
            optimizer.step()
    found = _shared(model, optimizer)
    found.update(_context(rank, model.buffers(), states.take()))
    dist.barrier()
    _kept.extend((wrapped, dist.group.WORLD))
    return found


def elastic(
    *,
    threads: int = 4,
    epochs: int = 2,
    kind: str = "sgd",
    stop_at: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """One process of an elastic job; ordered to stop at a step, if given."""
    import os
    import signal

    model = network()
    optimizer = optimizer_of(model, kind)
    job = Elastic(
        model,
        optimizer,
        Noisy(),
        threads=threads,
        batch_size=BATCH,
        epochs=epochs,
        seed=SEED,
        **options,
    )
    for x, y in job:
        if stop_at and job.step == stop_at and job.place.rank == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        job.backward(cross_entropy(model(x), y))
    found: dict[str, Any] = _shared(model, optimizer)
    for v in job.mine:
        found.update(_context(v, job.buffers.of(v).values(), job.rng[v]))
    found["steps"] = job.step
    job.close()
    return found
