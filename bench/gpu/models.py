"""models.py - the models that the training scripts measure, of torch.nn alone.

resnet18 and resnet50 (224 x 224 pictures, or smaller), bert-base (an encoder of
12 layers, masked words, sequences of 128), gpt2-small (a decoder of 12 layers,
sequences of 256) and a small CNN. `tiny` keeps the shape and takes the size
away, for a smoke test on a CPU. Data are random and lie on the device: no
input pipeline is measured.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Basic(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, nin, n, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(nin, n, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n)
        self.conv2 = nn.Conv2d(n, n, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n)
        self.short = shortcut(nin, n, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 and a shortcut."""

    expansion = 4

    def __init__(self, nin, n, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(nin, n, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n)
        self.conv2 = nn.Conv2d(n, n, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n)
        self.conv3 = nn.Conv2d(n, 4 * n, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * n)
        self.short = shortcut(nin, 4 * n, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.short(x))


def shortcut(nin, nout, stride):
    if nin == nout and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(nin, nout, 1, stride, bias=False),
                         nn.BatchNorm2d(nout))


def resnet(block, counts, classes=1000, width=64, channels=3, small=False):
    """A ResNet as a sequence of blocks; `small`: for pictures of 32 x 32."""
    stem = [nn.Conv2d(channels, width, 3 if small else 7, 1 if small else 2,
                      1 if small else 3, bias=False),
            nn.BatchNorm2d(width), nn.ReLU()]
    if not small:
        stem.append(nn.MaxPool2d(3, 2, 1))
    nin, blocks = width, []
    for i, count in enumerate(counts):
        for j in range(count):
            n = width * 2**i
            blocks.append(block(nin, n, 2 if i > 0 and j == 0 else 1))
            nin = n * block.expansion
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(nin, classes))


class Attention(nn.Module):
    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2)
                   for p in self.qkv(x).split(w, dim=2))
        drop = self.dropout if self.training else 0.0
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=drop,
                                               is_causal=self.causal)
        else:
            a = q @ k.transpose(2, 3) / (w // self.heads) ** 0.5
            if self.causal:
                hide = torch.ones(t, t, device=x.device).triu(1).bool()
                a = a.masked_fill(hide, float("-inf"))
            y = F.dropout(a.softmax(3), drop) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    """Attention and a feed-forward part, normalised before each."""

    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal, dropout)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.feed(self.norm2(x)))


class Words(nn.Module):
    """Token and position embeddings."""

    def __init__(self, vocab, length, width, dropout):
        super().__init__()
        self.word = nn.Embedding(vocab, width)
        self.place = nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        nn.init.normal_(self.word.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)

    def forward(self, words):
        at = torch.arange(words.shape[1], device=words.device)
        return self.drop(self.word(words) + self.place(at))


def transformer(vocab, length, width, nlayers, causal, dropout=0.1):
    """Embedding, blocks, a norm and a linear layer to tokens, as a sequence."""
    heads = max(1, width // 64)
    return nn.Sequential(
        Words(vocab, length, width, dropout),
        *(Block(width, heads, causal, dropout) for _ in range(nlayers)),
        nn.LayerNorm(width), nn.Linear(width, vocab, bias=False))


def cnn(classes=10):
    """Three convolutions and two linear layers, for pictures of 28 x 28."""
    parts = []
    for nin, nout in ((1, 16), (16, 32), (32, 64)):
        parts += [nn.Conv2d(nin, nout, 3, padding=1), nn.BatchNorm2d(nout),
                  nn.ReLU()] + ([nn.MaxPool2d(2)] if nout < 64 else [])
    return nn.Sequential(*parts, nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(64 * 49, 128), nn.ReLU(),
                         nn.Linear(128, classes))


# name: (maker, tiny maker, samples of a batch)
MODELS = {
    "resnet18": (lambda: resnet(Basic, (2, 2, 2, 2)),
                 lambda: resnet(Basic, (1, 1), 10, 4, 3, True), 64),
    "resnet50": (lambda: resnet(Bottleneck, (3, 4, 6, 3)),
                 lambda: resnet(Bottleneck, (1, 1), 10, 4, 3, True), 32),
    "bert-base": (lambda: transformer(30522, 128, 768, 12, False),
                  lambda: transformer(97, 8, 16, 2, False), 32),
    "gpt2-small": (lambda: transformer(50257, 256, 768, 12, True),
                   lambda: transformer(97, 8, 16, 2, True), 8),
}


class RandomData:
    """Samples on the device, handed out a batch at a time; an epoch takes each
    of them `times` times."""

    def __init__(self, name, n, device, tiny, times=1):
        g = torch.Generator().manual_seed(7)
        self.times = times
        self.is_text = name in ("bert-base", "gpt2-small")
        if self.is_text:
            length = 8 if tiny else 128 if name == "bert-base" else 256
            vocab = 97 if tiny else 30522 if name == "bert-base" else 50257
            self.x = torch.randint(0, vocab, (n, length), generator=g).to(device)
            self.y = self.x if name == "bert-base" else self.x.roll(-1, 1)
        else:
            side = 16 if tiny else 224
            self.x = torch.randn(n, 3, side, side, generator=g).to(device)
            self.y = torch.randint(0, 10 if tiny else 1000, (n,),
                                   generator=g).to(device)

    def __len__(self):
        return len(self.x) * self.times

    def __getitems__(self, indices):
        at = torch.as_tensor(indices, device=self.x.device) % len(self.x)
        return self.x[at], self.y[at]


def loss_of(out, y):
    """Cross entropy of classes or tokens."""
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def build(name, tiny, device, seed=1):
    """A model by name, its weights by the seed."""
    torch.manual_seed(seed)
    maker, small, batch = MODELS[name]
    return (small if tiny else maker)().to(device).train(), 4 if tiny else batch
