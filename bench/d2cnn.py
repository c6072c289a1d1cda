#!/usr/bin/python3
"""d2cnn.py - what matrix products with fixed bits cost a small CNN.

Trains 3 convolutions (16, 32, 64 channels), batch normalisation, dropout and
2 linear layers on random pictures of 28 x 28, batch 32, oneDNN off. Prints
processor milliseconds per iteration (best and median) and the first digits
of a hash of all weights and buffers: equal hashes are equal bits.

    LD_LIBRARY_PATH=<folder of an OpenBLAS> bench/d2cnn.py
    LD_PRELOAD=build/libfirn_d2.so bench/d2cnn.py

Arguments: iterations (40), threads (1).
"""

import hashlib
import sys
import time

import torch
from torch import nn


def make_net() -> nn.Module:
    """The sample CNN, built from one seed."""
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    for nin, nout in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(nin, nout, 3, padding=1), nn.BatchNorm2d(nout)]
        layers += [nn.ReLU()]
        if nout < 64:
            layers += [nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * 49, 128)]
    layers += [nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers)


def digest(net: nn.Module) -> str:
    """A hash of all weights and buffers."""
    hashed = hashlib.sha256()
    for tensor in net.state_dict().values():
        hashed.update(tensor.numpy().tobytes())
    return hashed.hexdigest()[:12]


def main() -> None:
    """Trains, measures and prints one line."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    torch.backends.mkldnn.enabled = False
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(32, 1, 28, 28)
    labels = torch.randint(0, 10, (32,))
    spent: list[float] = []
    for _ in range(count):
        since = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(pictures), labels)
        loss.backward()
        optimizer.step()
        spent.append((time.process_time() - since) * 1e3)
    spent.sort()
    print(f"best {spent[0]:.2f} ms, median {spent[count // 2]:.2f} ms, ", end="")
    print(f"bits {digest(net)}")


if __name__ == "__main__":
    main()
