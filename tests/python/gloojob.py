"""gloojob.py - plain DDP over gloo that can be stopped and go on elsewhere.

The environment is torchrun's. Asked to stop (SIGUSR1) all ranks agree on the
step, the first one saves, and they end with the status that says so: the first
start goes no further than half way before it is asked. Each rank prints where
it ran and from which step to which.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 40
BATCH = 12  # over all ranks
asked = torch.zeros(1)


def say(text: str) -> None:
    """One line, in one piece: all ranks write to the same file."""
    os.write(1, f"{text}\n".encode())


def ask(number: int, frame: object) -> None:
    """SIGUSR1: after this step."""
    asked[0] = 1


def train(model: nn.Module, path: str) -> int:
    """From the last checkpoint on; the step that it came to."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 0
    if os.path.exists(path):
        kept = torch.load(path)
        first = kept["step"]
        model.load_state_dict(kept["model"])
    ddp = DistributedDataParallel(model)
    rank, world = dist.get_rank(), dist.get_world_size()
    step = first
    if rank == 0:
        say(f"step {step} begins")
    while step < STEPS:
        g = torch.Generator().manual_seed(step)
        x = torch.randn(BATCH, 16, generator=g)
        part = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
        optimizer.zero_grad()
        (ddp(x[part]) - x[part].sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()
        step += 1
        stop = asked.clone()
        dist.all_reduce(stop, dist.ReduceOp.MAX)
        while first == 0 and step == STEPS // 2 and stop.item() == 0:
            time.sleep(0.05)
            stop = asked.clone()
            dist.all_reduce(stop, dist.ReduceOp.MAX)
        if stop.item() > 0 and step < STEPS:
            break
    node = os.environ["SLURMD_NODENAME"]
    say(f"rank {rank} of {world} on {node}: {first} to {step}")
    if rank == 0:
        torch.save({"step": step, "model": model.state_dict()}, path + ".next")
        os.replace(path + ".next", path)
    return step


def main() -> None:
    """Ends without gloo's own end, which sometimes hangs."""
    signal.signal(signal.SIGUSR1, ask)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    step = train(model, os.path.join(os.environ["FIRN_DIR"], "ddp.pt"))
    hashed = hashlib.sha256()
    for p in model.parameters():
        hashed.update(p.detach().numpy().tobytes())
    say(f"step {step}: weights {hashed.hexdigest()[:16]}")
    dist.barrier()
    os._exit(0 if step == STEPS else 83)


if __name__ == "__main__":
    main()
