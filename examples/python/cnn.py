#!/usr/bin/python3
"""cnn.py - a small CNN on Fashion-MNIST, elastic: the same bits on any number
of processes.

    python3 cnn.py --threads 4 --epochs 2
    torchrun --nproc-per-node 3 cnn.py --threads 4 --epochs 2   # the same bits
    FIRN_DIR=ckpt python3 cnn.py ...    # kill -USR1 it, start it again anywhere
    FIRN_FREEZE=penalty python3 cnn.py --epochs 6               # freezes layers
    python3 cnn.py --device cuda                                # on its GPU

The last line printed is a hash of the weights. Pictures are those of Debian's
dataset-fashion-mnist, or made up where it is not there.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import struct
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from firn.torch import Elastic

FOLDER = "/usr/share/datasets/fashion-mnist"


def read_idx(path: str) -> torch.Tensor:
    """An idx file as a tensor of bytes."""
    with gzip.open(path, "rb") as file:
        ndims = struct.unpack(">I", file.read(4))[0] & 0xFF
        dims = struct.unpack(f">{ndims}I", file.read(4 * ndims))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(dims)


class Pictures(torch.utils.data.Dataset):
    """Fashion-MNIST, flipped at random when it trains."""

    def __init__(self, part: str, n: int, flip: bool) -> None:
        images = os.path.join(FOLDER, f"{part}-images-idx3-ubyte.gz")
        if os.path.exists(images):
            self.x = read_idx(images)[:n].unsqueeze(1).float() / 255
            labels = os.path.join(FOLDER, f"{part}-labels-idx1-ubyte.gz")
            self.y = read_idx(labels)[:n].long()
        else:
            g = torch.Generator().manual_seed(len(part))
            self.y = torch.randint(0, 10, (n,), generator=g)
            self.x = torch.rand(n, 1, 28, 28, generator=g) / 2
            self.x[torch.arange(n), 0, self.y * 2, 4:24] += 0.5
        self._flip = flip

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.x[i]
        return x.flip(2) if self._flip and torch.rand(()) < 0.5 else x, self.y[i]


def network() -> nn.Module:
    """Three convolutions and two linear layers."""
    parts: list[nn.Module] = []
    for nin, nout in ((1, 16), (16, 32), (32, 64)):
        parts += [nn.Conv2d(nin, nout, 3, padding=1), nn.BatchNorm2d(nout), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if nout < 64 else []
    parts += [nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * 49, 128), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(128, 10))


def accuracy(model: nn.Module, data: Pictures) -> float:
    """Of a model in evaluation mode."""
    right, device = 0, next(model.parameters()).device
    for i in range(0, len(data), 500):
        guess = model(data.x[i : i + 500].to(device)).argmax(1).cpu()
        right += int((guess == data.y[i : i + 500]).sum())
    return right / len(data)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0, help="s of rest a batch")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    return parser.parse_args()


def main() -> None:
    """Trains and prints one line for each epoch."""
    args = arguments()
    torch.set_num_threads(1)  # part of the job's bits: the same everywhere
    torch.backends.mkldnn.enabled = False
    torch.manual_seed(0)
    device = torch.device(args.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK") or 0))
        torch.use_deterministic_algorithms(True)
    model = network().to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4
    )
    test = Pictures("t10k", max(100, args.samples // 6), False)

    def over(job: Elastic) -> None:
        with job.evaluating():
            right = accuracy(model, test)
        if job.place.rank == 0:
            frozen = f", {job.freezer.nfrozen} layers frozen"
            print(f"epoch {job.epoch}: accuracy {right:.4f}{frozen}", flush=True)

    elastic = Elastic(
        model,
        optimizer,
        Pictures("train", args.samples, True),
        threads=args.threads,
        batch_size=args.batch,
        epochs=args.epochs,
        workers=args.workers,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs),
        on_epoch=over,
    )
    for x, y in elastic:
        elastic.backward(cross_entropy(model(x.to(device)), y.to(device)))
        time.sleep(args.pace)
    elastic.close()
    hashed = hashlib.sha256()
    for p in model.parameters():
        hashed.update(p.detach().cpu().numpy().tobytes())
    if elastic.place.rank == 0:
        print(f"weights {hashed.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
