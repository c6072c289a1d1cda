"""ddp.py - the step time of fixed-order sums against plain DDP, over gloo.

    PYTHONPATH=python python3 bench/ddp.py [--procs 2] [--model resnet18|gpt]
        [--steps 3] [--rounds 9] [--batch 8]

Starts P processes on this host with one PyTorch thread each. All variants are
in the same processes and take turns, `steps` steps of each in every round, so
that a busy machine slows all of them alike. Printed: for each variant the
median over rounds of the time of a step, and the median over rounds of its
ratio to plain DDP of the same round. V = P: as many samples as DDP.

    ddp          DistributedDataParallel, its own all-reduce
    hook         the same with firn.torch.fixed_order_hook
    distributed  Elastic(through="distributed", one_backward=True)
    memory       Elastic(through="memory"): firn's shared memory
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import sys
import time
from typing import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from firn.torch import Elastic, fixed_order_hook


class Block(nn.Module):
    """Two convolutions of 3 x 3 and a way around them."""

    def __init__(self, nin: int, nout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(nin, nout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(nout),
            nn.ReLU(),
            nn.Conv2d(nout, nout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(nout),
        )
        self.around: nn.Module = nn.Identity()
        if stride != 1 or nin != nout:
            self.around = nn.Sequential(
                nn.Conv2d(nin, nout, 1, stride, bias=False), nn.BatchNorm2d(nout)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Their sum."""
        return torch.relu(self.body(x) + self.around(x))


def resnet18() -> nn.Module:
    """ResNet18 for pictures of 32 x 32: 11.2 million parameters."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 3, 1, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
    ]
    width = 64
    for nout, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, nout, stride), Block(nout, nout, 1)]
        width = nout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class GPT(nn.Module):
    """Six blocks of width 256 over 1024 words: 5.3 million parameters."""

    def __init__(self, nwords: int = 1024, width: int = 256, length: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(nwords, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        block = nn.TransformerEncoderLayer(
            width, 8, 4 * width, 0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, 6, enable_nested_tensor=False)
        self.head = nn.Linear(width, nwords, bias=False)
        mask = torch.full((length, length), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the next word."""
        return self.head(self.blocks(self.words(x) + self.places, self.mask))


class Pictures:
    """Random pictures, or words."""

    def __init__(self, kind: str) -> None:
        g = torch.Generator().manual_seed(1)
        if kind == "gpt":
            self.x = torch.randint(0, 1024, (256, 64), generator=g)
            self.y = torch.randint(0, 1024, (256, 64), generator=g)
        else:
            self.x = torch.randn(256, 3, 32, 32, generator=g)
            self.y = torch.randint(0, 10, (256,), generator=g)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[i], self.y[i]


def make(kind: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and its optimiser, the same every time."""
    torch.manual_seed(0)
    model = GPT() if kind == "gpt" else resnet18()
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Cross entropy of pictures or words."""
    return cross_entropy(model(x).flatten(0, -2), y.flatten())


def by_ddp(args: argparse.Namespace, hook: bool) -> Callable[[], None]:
    """One step of DDP."""
    model, optimizer = make(args.model)
    wrapped = DistributedDataParallel(model)
    if hook:
        wrapped.register_comm_hook(None, fixed_order_hook)
    data = Pictures(args.model)
    rank, at = dist.get_rank(), 0

    def step() -> None:
        nonlocal at
        some = [(at + i) % len(data) for i in range(args.batch)]
        at += args.batch
        x = torch.stack([data[(i + rank) % len(data)][0] for i in some])
        y = torch.stack([data[(i + rank) % len(data)][1] for i in some])
        optimizer.zero_grad()
        loss_of(wrapped, x, y).backward()
        optimizer.step()

    return step


def by_elastic(args: argparse.Namespace, **options: object) -> Callable[[], None]:
    """One step of an elastic job of as many threads as processes."""
    model, optimizer = make(args.model)
    job = Elastic(
        model,
        optimizer,
        Pictures(args.model),
        threads=args.procs,
        batch_size=args.batch,
        epochs=10**6,
        **options,
    )
    turns = iter(job)

    def step() -> None:
        x, y = next(turns)
        job.backward(loss_of(model, x, y))

    return step


def measure(rank: int, args: argparse.Namespace, port: int) -> None:
    """One process."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(args.procs),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        FIRN_JOB=f"bench-{port}",
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    steps = {
        "ddp": by_ddp(args, False),
        "hook": by_ddp(args, True),
        "distributed": by_elastic(args, through="distributed", one_backward=True),
    }
    os.environ["FIRN_JOB"] += "-memory"
    steps["memory"] = by_elastic(args, through="memory")
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(args.rounds + 1):
        names = list(steps)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            dist.barrier()
            since = time.perf_counter()
            for _ in range(args.steps):
                steps[name]()
            dist.barrier()
            if turn > 0:  # the first round warms up
                seconds[name].append((time.perf_counter() - since) / args.steps)
    if rank == 0:
        print(f"{args.model}, {args.procs} processes, batch {args.batch} each")
        for name, each in seconds.items():
            ratio = statistics.median(a / b for a, b in zip(each, seconds["ddp"]))
            print(
                f"  {name:12} {statistics.median(each) * 1e3:8.1f} ms a step"
                f"   {ratio:.3f} of ddp   (least {min(each) * 1e3:.1f} ms)"
            )
        sys.stdout.flush()
    dist.barrier()
    os._exit(0)


def main() -> None:
    """Starts the processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--procs", type=int, default=2)
    parser.add_argument("--model", choices=("resnet18", "gpt"), default="resnet18")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    print(f"PyTorch {torch.__version__}, {platform.machine()}, {os.cpu_count()} cores")
    mp.spawn(measure, (args, port), args.procs)


if __name__ == "__main__":
    main()
