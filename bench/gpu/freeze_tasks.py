"""freeze_tasks.py - the trainings that freeze_variance.py freezes.

| task | model | data | quality |
| --- | --- | --- | --- |
| resnet18 | ResNet18 as in resnet18-c | Fashion-MNIST, 32 x 32 | accuracy |
| resnet50 | ResNet50 as in resnet50-c | the same | accuracy |
| bert | encoder, 8 x 512, from random weights | masked words of package descriptions | accuracy at masked words |
| bert-tune | the same after `bert`, a linear layer on top | archive section of a package | accuracy |
| gpt | decoder, 8 x 512, from random weights | bytes of Python sources | minus the loss, nats a byte |

All data lie on the device. A task has a model, an optimizer, `length` T (the
iterations of a training without freezing), a batch made from sample numbers,
its loss, and a test. A layer is a leaf module with parameters, in order of
definition, as in jobs.py. The ResNets compute in fp32 (TF32 in convolutions,
PyTorch's default), the transformers in bf16 by autocast over fp32 weights.
"""
import gzip
import os
import struct

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from models import Basic, Block, Bottleneck, Words, resnet

MASK, MASKED = 2, 0.15


def leaves(model):
    """Layers that can be frozen, from the front."""
    return [m for m in model.modules() if not list(m.children())
            and any(True for _ in m.parameters(recurse=False))]


def read_idx(path):
    with gzip.open(path, "rb") as f:
        ndims = struct.unpack(">I", f.read(4))[0] & 0xFF
        dims = struct.unpack(f">{ndims}I", f.read(4 * ndims))
        return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).view(dims)


class Pictures:
    """Fashion-MNIST; training pictures are flipped and shifted at random."""

    batch, micro, rate, decay, adam = 256, 32, 0.05, 5e-4, False
    is_half = False

    def __init__(self, name, folder, device, tiny):
        self.length = 100 if tiny else 2400 if name == "resnet18" else 2000
        self.device = device
        part = {}
        for split in ("train", "t10k"):
            x = read_idx(os.path.join(folder, f"{split}-images-idx3-ubyte.gz"))
            y = read_idx(os.path.join(folder, f"{split}-labels-idx1-ubyte.gz"))
            n = 512 if tiny else len(x)
            part[split] = (F.pad(x[:n], (2, 2, 2, 2)).to(device),
                           y[:n].long().to(device))
        self.x, self.y = part["train"]
        self.test = part["t10k"]
        self.samples = len(self.x)
        self.side = torch.arange(32, device=device)
        kind, counts = ((Basic, (2, 2, 2, 2)) if name == "resnet18" else
                        (Bottleneck, (3, 4, 6, 3)))
        if tiny:
            counts = (1, 1)
        self.model = resnet(kind, counts, 10, 8 if tiny else 64, 1).to(device)

    def sample(self, numbers):
        x, n = self.x[numbers], len(numbers)
        flip = torch.rand(n, device=self.device) < 0.5
        x = torch.where(flip.view(-1, 1, 1), x.flip(2), x)
        by = torch.randint(-2, 3, (2, n, 1), device=self.device)
        rows, columns = (self.side + by[0]) % 32, (self.side + by[1]) % 32
        at = torch.arange(n, device=self.device).view(-1, 1, 1)
        return self.scale(x[at, rows.unsqueeze(2), columns.unsqueeze(1)]), \
            self.y[numbers]

    @staticmethod
    def scale(x):
        return ((x.float() / 255 - 0.286) / 0.353).unsqueeze(1)

    def loss(self, model, x, y):
        return F.cross_entropy(model(x), y)

    def tests(self, model):
        """(loss, right answers, answers) of each part of the test."""
        for x, y in zip(*(part.split(2500) for part in self.test)):
            out = model(self.scale(x))
            yield (F.cross_entropy(out, y, reduction="sum"),
                   (out.argmax(1) == y).sum(), len(y))


class Encoder(nn.Module):
    """Words to states; `top` gives words, or sections from their mean."""

    def __init__(self, vocab, length, width, nlayers, causal, classes=0):
        super().__init__()
        self.words = Words(vocab, length, width, 0.0)
        self.blocks = nn.Sequential(*(Block(width, max(1, width // 64), causal,
                                            0.0) for _ in range(nlayers)))
        self.norm = nn.LayerNorm(width)
        self.top = nn.Linear(width, classes or vocab)
        self.is_mean = classes > 0

    def forward(self, x):
        y = self.norm(self.blocks(self.words(x)))
        if self.is_mean:
            real = (x > 0).unsqueeze(2)
            y = (y * real).sum(1) / real.sum(1)
        return self.top(y)


class Text:
    """What the three tasks on text share."""

    decay, adam, is_half = 0.01, True, True

    def __init__(self, folder, device, tiny):
        self.device, self.tiny = device, tiny
        self.width, self.nlayers = (32, 2) if tiny else (512, 8)

    def words(self, folder):
        data = numpy.load(os.path.join(folder, "words.npz"))
        ids = torch.from_numpy(data["ids"].astype(numpy.int16))
        label = torch.from_numpy(data["label"]).long()
        test = torch.from_numpy(data["test"]).bool()
        return ids, label, test

    def loss(self, model, x, y):
        with torch.autocast(self.device, torch.bfloat16):
            out = model(x)
        return F.cross_entropy(out.float().flatten(0, -2), y.flatten(),
                               ignore_index=-1)

    def count(self, model, x, y):
        with torch.autocast(self.device, torch.bfloat16):
            out = model(x).float().flatten(0, -2)
        y = y.flatten()
        loss = F.cross_entropy(out, y, reduction="sum", ignore_index=-1)
        return loss, (out.argmax(1) == y).sum(), (y >= 0).sum()


class Masked(Text):
    """15 % of the words are hidden, new ones for each batch."""

    batch, micro, rate = 32, 4, 4e-4

    def __init__(self, name, folder, device, tiny):
        super().__init__(folder, device, tiny)
        self.length = 100 if tiny else 1600
        ids, _, test = self.words(folder)
        n = 400 if tiny else len(ids)
        rows = {k: ids[:n][test[:n] == k] for k in (False, True)}
        streams = {k: r[r > 0] for k, r in rows.items()}
        cut = {k: s[:len(s) // 128 * 128].view(-1, 128).to(device)
               for k, s in streams.items()}
        self.x = cut[False]
        self.samples = len(self.x)
        g = torch.Generator(device).manual_seed(5)
        self.test = self.hide(cut[True][:8 if tiny else 1024].long(), g)
        self.model = Encoder(8192, 128, self.width, self.nlayers,
                             False).to(device)

    def hide(self, x, generator=None):
        hidden = torch.rand(x.shape, device=self.device,
                            generator=generator) < MASKED
        return x.masked_fill(hidden, MASK), x.masked_fill(~hidden, -1)

    def sample(self, numbers):
        return self.hide(self.x[numbers].long())

    def tests(self, model):
        for x, y in zip(*(part.split(128) for part in self.test)):
            yield self.count(model, x, y)


class Tuned(Text):
    """Which of 20 archive sections a package is in, from its description."""

    batch, micro, rate = 64, 8, 1e-4

    def __init__(self, name, folder, device, tiny):
        super().__init__(folder, device, tiny)
        self.length = 100 if tiny else 1000
        ids, label, test = self.words(folder)
        n = 400 if tiny else len(ids)
        ids, label, test = ids[:n], label[:n], test[:n]
        self.x, self.y = ids[~test].to(device), label[~test].to(device)
        self.test = (ids[test].long().to(device), label[test].to(device))
        self.samples = len(self.x)
        self.model = Encoder(8192, 128, self.width, self.nlayers, False,
                             20).to(device)
        self.first = lambda: Masked("bert", folder, device, tiny)

    def sample(self, numbers):
        return self.x[numbers].long(), self.y[numbers]

    def start(self, trained):
        """Takes over the weights of a `bert` but for its last layer."""
        for (name, to), source in zip(self.model.named_parameters(),
                                      trained.parameters()):
            if not name.startswith("top"):
                to.data.copy_(source.data)

    def tests(self, model):
        for x, y in zip(*(part.split(1024) for part in self.test)):
            yield self.count(model, x, y)


class Bytes(Text):
    """The next byte of Python sources, 256 at a time."""

    batch, micro, rate = 32, 4, 5e-4

    def __init__(self, name, folder, device, tiny):
        super().__init__(folder, device, tiny)
        self.length = 100 if tiny else 1200
        data = numpy.load(os.path.join(folder, "bytes.npz"))
        train, test = (torch.from_numpy(data[k]) for k in ("train", "test"))
        self.x = train.to(device)
        self.samples = len(self.x) - 257
        n = 4 if tiny else 512
        step = (len(test) - 257) // n
        self.test = torch.stack([test[i * step:i * step + 257]
                                 for i in range(n)]).long().to(device)
        self.span = torch.arange(257, device=device)
        self.model = Encoder(256, 256, self.width, self.nlayers, True).to(device)

    def sample(self, numbers):
        x = self.x[numbers.unsqueeze(1) + self.span].long()
        return x[:, :-1], x[:, 1:]

    def tests(self, model):
        for x in self.test.split(128):
            yield self.count(model, x[:, :-1], x[:, 1:])


TASKS = {"resnet18": Pictures, "resnet50": Pictures, "bert": Masked,
         "bert-tune": Tuned, "gpt": Bytes}


def build(name, folder, device, seed, tiny):
    """A task with its weights by the seed."""
    torch.manual_seed(seed)
    task = TASKS[name](name, folder, device, tiny)
    task.name = name
    task.by_loss = name == "gpt"
    return task
