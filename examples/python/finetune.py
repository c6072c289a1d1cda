#!/usr/bin/python3
"""finetune.py - two tasks over one backbone: alone, one after the other, and
both at once.

    python3 finetune.py

A backbone learns what is in pictures of two kinds of stripes; then two related
tasks are tuned by LoRA. Prints how alike they are, the loss of the second task
in each epoch alone and merged, what the guard says of it, and how long a switch
to the second task takes with and without the pipeline.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from firn.torch import finetune


def stripes(
    n: int, seed: int, slanted: bool, classes: int, noise: float = 2.0
) -> TensorDataset:
    """Pictures of stripes; the class is how wide they are."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    at = torch.arange(12).float()
    phase = 6 * torch.rand(n, 1, 1, generator=g)
    across = at.view(1, 1, 12) + (at.view(1, 12, 1) if slanted else 0)
    waves = torch.sin(across * (0.5 + y.view(-1, 1, 1) * 0.35) + phase)
    x = waves.expand(n, 12, 12) + noise * torch.randn(n, 12, 12, generator=g)
    return TensorDataset(x.reshape(n, -1), y)


def backbone(steps: int) -> nn.Module:
    """Trained a little on both kinds of stripes."""
    torch.manual_seed(1)
    body = nn.Sequential(
        nn.Linear(144, 96), nn.GELU(), nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 32)
    )
    head = nn.Linear(32, 4)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
    data = torch.utils.data.ConcatDataset(
        [stripes(40 * steps, 1, False, 4), stripes(40 * steps, 2, True, 4)]
    )
    g = torch.Generator().manual_seed(3)
    for x, y in DataLoader(data, 80, shuffle=True, generator=g):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(body(x)), y).backward()
        optimizer.step()
    return body


def make_tasks(n: int) -> list[finetune.Task]:
    """A large task and a small one that is like it, but harder to see."""
    torch.manual_seed(5)
    return [
        finetune.Task("clear", stripes(n, 11, True, 3), nn.Linear(32, 3)),
        finetune.Task("faint", stripes(n // 3, 12, True, 3, 3.0), nn.Linear(32, 3)),
    ]


def tune(body: nn.Module, tasks: list, mode: str, epochs: int) -> list[float]:
    """The losses of the last task, by epoch."""
    body, tasks = copy.deepcopy(body), copy.deepcopy(tasks)
    torch.manual_seed(7)
    live = finetune.adapt(body, "lora", 4)
    live += [p for task in tasks for p in task.head.parameters()]
    tuner = finetune.Tuner(body, tasks, mode, epochs, 16, seed=2)
    return tuner.train(torch.optim.Adam(live, lr=3e-3))[tasks[-1].name]


def switch(body: nn.Module, task: finetune.Task) -> tuple[float, float]:
    """Seconds waited for the next task, without and with a pipeline."""
    with tempfile.NamedTemporaryFile() as file:
        torch.save(body.state_dict(), file.name)
        stages = {
            "loader": lambda: next(iter(DataLoader(task.dataset, 16))),
            "weights": lambda: torch.load(file.name),
        }
        _, plain = finetune.without_pipeline(stages)
        coming = finetune.Pipeline(stages)
        while not coming.ready:  # the present task computes meanwhile
            time.sleep(0.001)
        _, piped = coming.take()
    return plain.waited_s, piped.waited_s


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=900)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    body = backbone(max(4, args.samples // 30))
    tasks = make_tasks(args.samples)
    places = []
    for task in tasks:
        probe = copy.deepcopy(body)
        finetune.adapt(probe, "adapter", 4)
        places.append(finetune.embedding(probe, task))
    print(f"similarity of the tasks: {finetune.similarity(*places):.3f}")
    alone = tune(body, tasks[1:], "normal", args.epochs)
    print("alone    ", " ".join(f"{loss:.3f}" for loss in alone))
    for mode, epochs in (("temporal", 2 * args.epochs), ("spatial", args.epochs)):
        merged = tune(body, tasks, mode, epochs)
        verdict = finetune.judge(merged, alone)
        print(f"{mode:9}", " ".join(f"{x:.3f}" for x in merged), f"({verdict})")
    plain_s, piped_s = switch(body, tasks[1])
    print(f"switch: {plain_s * 1e3:.1f} ms in place, {piped_s * 1e3:.3f} ms piped")


if __name__ == "__main__":
    main()
