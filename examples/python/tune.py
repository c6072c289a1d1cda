#!/usr/bin/python3
"""tune.py - a fine-tuning job that can be co-trained with another (ymir).

    python3 tune.py --angle 0.2 --samples 400 --epochs 5
    firn submit -f job.yaml        # finetune: {base: stripes, dataset: ...}

The backbone knows how to tell wide stripes from narrow ones in pictures of any
direction. A task is to tell them apart in pictures of one direction (--angle,
in radians); its LoRA adapters and its head are trained. Tasks with close angles
are related. After every epoch the accuracy on pictures that were not trained on
is the job's metric.

Started by a scheduler that merged two such jobs (FIRN_MATE_*), the program
trains both; if the job is to begin with another job's weights (FIRN_AFTER), it
does. Prints a line for each job at its end.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Callable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from firn.torch import finetune
from firn.torch.partners import Tuned, Work, run

SIDE, CLASSES, WIDTH = 12, 4, 32


def stripes(n: int, angle: float | None, noise: float, seed: int) -> TensorDataset:
    """Pictures of stripes; the class is how wide they are. None: any angle."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    turned = math.pi * torch.rand(n, 1, 1, generator=g)
    if angle is not None:
        turned = torch.full((n, 1, 1), angle)
    at = torch.arange(SIDE).float() - (SIDE - 1) / 2
    across = at.view(1, 1, -1) * turned.cos() + at.view(1, -1, 1) * turned.sin()
    phase = 6 * torch.rand(n, 1, 1, generator=g)
    waves = torch.sin(across * (0.5 + y.view(-1, 1, 1) * 0.35) + phase)
    x = waves + noise * torch.randn(n, SIDE, SIDE, generator=g)
    return TensorDataset(x.reshape(n, -1), y)


def foundation(steps: int) -> nn.Module:
    """The backbone, trained on stripes of all directions; the same bits in
    every process."""
    torch.manual_seed(1)
    body = nn.Sequential(
        nn.Linear(SIDE * SIDE, 96),
        nn.GELU(),
        nn.Linear(96, 64),
        nn.GELU(),
        nn.Linear(64, WIDTH),
    )
    head = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
    data = stripes(64 * max(1, steps), None, 0.5, 1)
    for x, y in DataLoader(data, 64) if steps else []:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(body(x)), y).backward()
        optimizer.step()
    return body


def accuracy_on(test: TensorDataset, device: torch.device) -> Callable[[nn.Module], float]:
    """The metric: the share of pictures that a model tells apart."""
    x, y = (part.to(device) for part in test.tensors)

    def accuracy(model: nn.Module) -> float:
        return float((model(x).argmax(1) == y).float().mean())

    return accuracy


def make(words: list[str]) -> Work:
    """A job from its command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--angle", type=float, default=0.2, help="the task")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--noise", type=float, default=1.5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--rank", type=int, default=4, help="of LoRA")
    parser.add_argument("--base-steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0, help="seconds a step waits")
    args = parser.parse_args(words)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    body = foundation(args.base_steps)
    torch.manual_seed(100 + args.seed)
    finetune.adapt(body, "lora", args.rank)
    model = Tuned(body, nn.Linear(WIDTH, CLASSES)).to(device)
    live = [p for p in model.parameters() if p.requires_grad]
    seed = 1000 + int(1000 * args.angle) * 10 + args.seed

    def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        time.sleep(args.pace)
        return nn.functional.cross_entropy(out, y)

    return Work(
        model,
        torch.optim.Adam(live, lr=args.lr),
        lambda: stripes(args.samples, args.angle, args.noise, seed),
        loss,
        accuracy_on(stripes(500, args.angle, args.noise, 7 + seed), device),
        dict(batch_size=args.batch, epochs=args.epochs, seed=args.seed),
    )


def main() -> None:
    """Alone, or with a partner."""
    torch.set_num_threads(1)
    for job in run(make):
        if job.place.rank == 0:
            print(
                f"job {job.name}: accuracy {job.metric:.3f}, {job.step} steps",
                flush=True,
            )


if __name__ == "__main__":
    main()
