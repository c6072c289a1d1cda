#!/usr/bin/python3
"""bert.py - a small BERT-like encoder that learns to fill in hidden words,
elastic, in passes.

    python3 bert.py --threads 4 --steps 60
    torchrun --nproc-per-node 2 bert.py --threads 4 --steps 60   # the same bits
    FIRN_PASSES=4 python3 bert.py --threads 4    # each batch in four passes

The text is made by a little grammar, so that nothing has to be fetched. The
words to hide are drawn when a sample is looked at, from the thread's own
generators.
"""

from __future__ import annotations

import argparse
import hashlib
import random

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from firn.torch import Elastic

VOCAB, LENGTH, HIDDEN = 64, 24, 0


class Sentences(torch.utils.data.Dataset):
    """Sentences in which each word says much about the next."""

    def __init__(self, n: int) -> None:
        rng = random.Random(3)
        rows = []
        for _ in range(n):
            word, row = rng.randrange(1, VOCAB), []
            for _ in range(LENGTH):
                row.append(word)
                word = 1 + (word * 5 + rng.randrange(2)) % (VOCAB - 1)
            rows.append(row)
        self.words = torch.tensor(rows)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        words = self.words[i]
        hide = torch.rand(LENGTH) < 0.15
        hide[random.randrange(LENGTH)] = True  # at least one
        return words.masked_fill(hide, HIDDEN), words.masked_fill(~hide, -100)


class Encoder(nn.Module):
    """Embedding, layers, words."""

    def __init__(self, width: int, nlayers: int) -> None:
        super().__init__()
        self.word = nn.Embedding(VOCAB, width)
        self.place = nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, 0.1, "gelu", batch_first=True
            )
            for _ in range(nlayers)
        )
        self.head = nn.Linear(width, VOCAB)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of all words at all places."""
        x = self.word(words) + self.place(torch.arange(words.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Trains and prints the loss now and then."""
    args = arguments()
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    torch.manual_seed(0)
    model = Encoder(args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def update() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    elastic = Elastic(
        model,
        optimizer,
        Sentences(args.threads * args.batch * args.steps),
        threads=args.threads,
        batch_size=args.batch,
        update=update,
        report_every=20,
    )
    printed = -1
    for words, hidden in elastic:
        for x, y, weight in elastic.passes(words, hidden):
            loss = cross_entropy(model(x).reshape(-1, VOCAB), y.reshape(-1))
            elastic.backward(loss * weight)
        if elastic.step % 20 == 0 and elastic.step != printed and not elastic.place.rank:
            printed = elastic.step
            print(f"step {printed}: loss {float(loss.detach()):.4f}", flush=True)
    elastic.close()
    hashed = hashlib.sha256()
    for p in model.parameters():
        hashed.update(p.detach().numpy().tobytes())
    if elastic.place.rank == 0:
        print(f"weights {hashed.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
