"""train_tta.py - time to accuracy with frozen layers, at equal budgets.

Writes tta.csv: one row for each epoch of each run on Fashion-MNIST, with the
seconds trained so far (evaluation apart) and the accuracy on the test set:

  vanilla        all layers, E epochs
  penalty        IceFrog's tuner after 3 epochs; what a frozen step is worth
                 less is paid back by extra steps, so E effective epochs
  freezeout      Brock's schedule (t0 = 0.8, cubic, scaled)
  vanilla-short  all layers, as many epochs as fit into the penalty run's time:
                 the budget that freezing has to beat

and tta_summary.csv: seconds to reach some accuracies, interpolated between
epochs. A ResNet-18 for small pictures, 4 threads of 64, SGD with momentum, one
cosine over the run's own length.

    python3 train_tta.py --data DIR --out DIR       # the four idx .gz files
    python3 train_tta.py --device cpu --tiny --data DIR --out DIR --seconds 60
"""
import gzip
import math
import os
import struct
import time

import trainkit
import torch
import torch.nn.functional as F
from models import Basic, cnn, resnet

from firn.torch import Elastic
from firn.torch.freeze import Options, layers_of, param_groups

TARGETS = (0.88, 0.90, 0.91, 0.92, 0.93)


def read_idx(path):
    """An idx file, packed or not, as a tensor of bytes."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        ndims = struct.unpack(">I", f.read(4))[0] & 0xFF
        dims = struct.unpack(f">{ndims}I", f.read(4 * ndims))
        return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).view(dims)


class Pictures:
    """Fashion-MNIST on the device; training pictures are flipped and shifted by
    the thread's own generator."""

    def __init__(self, folder, part, device, n):
        names = [f"{part}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
        paths = [os.path.join(folder, name) for name in names]
        paths = [p if os.path.exists(p) else p + ".gz" for p in paths]
        x, y = (read_idx(p)[:n or None] for p in paths)
        self.x = ((x.float() / 255 - 0.286) / 0.353).unsqueeze(1).to(device)
        self.y = y.long().to(device)
        self.train = part == "train"

    def __len__(self):
        return len(self.x)

    def __getitems__(self, indices):
        at = torch.as_tensor(indices, device=self.x.device)
        x = self.x[at]
        if self.train:
            flip = torch.rand(len(at)) < 0.5
            x = torch.where(flip.to(x.device).view(-1, 1, 1, 1), x.flip(3), x)
            dx, dy = torch.randint(-2, 3, (2,)).tolist()
            x = x.roll((dx, dy), (2, 3))
        return x, self.y[at]


class Run:
    """One training run that keeps a row for each epoch."""

    def __init__(self, kind, epochs, seed, args, data):
        self.kind, self.seed, self.args = kind, seed, args
        self.train, self.test = data
        torch.manual_seed(100 + seed)
        self.model = (cnn() if args.tiny else
                      resnet(Basic, (2, 2, 2, 2), 10, 64, 1, True))
        self.model.to(args.device).train()
        layers = layers_of(self.model)
        groups = param_groups(layers, args.lr, momentum=0.9, weight_decay=5e-4)
        self.optimizer = torch.optim.SGD(groups, lr=args.lr)
        rule = "off" if kind.startswith("vanilla") else kind
        warmup = 1 if args.tiny else 3
        self.elastic = Elastic(
            self.model, self.optimizer, self.train, layers=layers, threads=4,
            batch_size=8 if args.tiny else 64, epochs=epochs, seed=1000 * seed,
            sampler_seed=seed, drop_last=True, collate=trainkit.whole,
            freeze=Options(rule=rule, warmup_epochs=warmup),
            update=self.update, on_epoch=self.epoch_is_over)
        self.rows, self.trained_s = [], 0.0
        self.since = 0.0

    def update(self):
        """One cosine over the run; FreezeOut has its own."""
        if self.kind != "freezeout":
            done = self.elastic.progress
            for group in self.optimizer.param_groups:
                group["lr"] = self.args.lr * (1 + math.cos(math.pi * done)) / 2
        self.optimizer.step()

    def epoch_is_over(self, elastic):
        trainkit.wait(self.args.device)
        self.trained_s += time.perf_counter() - self.since
        right = 0
        with elastic.evaluating():
            for i in range(0, len(self.test), 1000):
                out = self.model(self.test.x[i:i + 1000])
                right += int((out.argmax(1) == self.test.y[i:i + 1000]).sum())
        self.rows.append((self.kind, self.seed, elastic.epoch, elastic.step,
                          self.trained_s, right / len(self.test),
                          elastic.freezer.nfrozen, len(elastic.layers),
                          elastic.freezer.psi))
        trainkit.wait(self.args.device)
        self.since = time.perf_counter()

    def go(self):
        """Trains to the end, or until there is no time left."""
        trainkit.wait(self.args.device)
        self.since = time.perf_counter()
        for x, y in self.elastic:
            if self.elastic.step % 20 == 0 and time.time() > self.args.deadline:
                print("out of time in", self.kind, "seed", self.seed, flush=True)
                break
            self.elastic.backward(F.cross_entropy(self.model(x), y))
        self.elastic.close()
        return self.rows


def time_to(rows, target):
    """Seconds to an accuracy, linear between epochs; empty: never."""
    before_s, before = 0.0, 0.0
    for row in rows:
        now_s, now = row[4], row[5]
        if now >= target:
            share = (target - before) / (now - before) if now > before else 1.0
            return before_s + share * (now_s - before_s)
        before_s, before = now_s, now
    return ""


def main():
    args = trainkit.arguments(
        __doc__.split("\n")[0], 540, data="/usr/share/datasets/fashion-mnist",
        epochs=8, seeds=2, lr=0.05)
    if args.device == "cpu":
        torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    small = 512 if args.tiny else 0
    epochs = 4 if args.tiny else args.epochs
    data = (Pictures(args.data, "train", args.device, small),
            Pictures(args.data, "t10k", args.device, small))
    warm = Run("vanilla", 1, 99, args, data)  # kernels are chosen here
    turns = iter(warm.elastic)
    for _ in range(40):
        x, y = next(turns)
        warm.elastic.backward(F.cross_entropy(warm.model(x), y))
    warm.elastic.close()
    table = trainkit.Table(
        os.path.join(args.out, "tta.csv"),
        ["run", "seed", "epoch", "steps", "trained_s", "accuracy", "frozen",
         "layers", "psi"], args)
    summary = []
    for seed in range(1, args.seeds + 1):
        lengths = {"vanilla": epochs, "penalty": epochs, "freezeout": epochs}
        spent = {}
        for kind in ("vanilla", "penalty", "freezeout", "vanilla-short"):
            if time.time() > args.deadline:
                print("out of time before", kind, seed, flush=True)
                break
            if kind == "vanilla-short":
                per = spent["vanilla"] / epochs
                lengths[kind] = max(1, round(spent["penalty"] / per))
            rows = Run(kind, lengths[kind], seed, args, data).go()
            for row in rows:
                table.row(*row)
            if not rows:
                break
            spent[kind] = rows[-1][4]
            summary.append((kind, seed, lengths[kind], rows[-1][4], rows[-1][5],
                            *(time_to(rows, t) for t in TARGETS)))
    table.close()
    table = trainkit.Table(
        os.path.join(args.out, "tta_summary.csv"),
        ["run", "seed", "epochs", "trained_s", "accuracy",
         *(f"s_to_{round(100 * t)}" for t in TARGETS)], args)
    for row in summary:
        table.row(*row)
    table.close()


if __name__ == "__main__":
    main()
