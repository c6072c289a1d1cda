"""What threads cost: the time of a switch, and memory. With FIRN_SOAK only, for
it takes a quiet machine and some minutes. Models are those of bench/gpu."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
import unittest

import farm
import torch
from torch.nn.functional import cross_entropy

from firn.torch import Elastic

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "bench", "gpu"))


class Fixed:
    """Samples that cost nothing to draw."""

    def __init__(self, n: int, shape: tuple) -> None:
        self.x, self.y = torch.randn(8, *shape), torch.arange(8)
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[i % 8], self.y[i % 8]


GRADIENT_MIB = 42.6  # of ResNet18


def train(kind: str, threads: int, batch: int, steps: int, order: str = "tree") -> dict:
    """Peak memory, and CPU milliseconds of a turn and of a switch."""
    from models import Basic, cnn, resnet

    # Blocks of 1 MiB and more are given back at once, so that the peak is what
    # was in use and not what the allocator kept (M_MMAP_THRESHOLD is -3).
    ctypes.CDLL(None).mallopt(-3, 1 << 20)
    torch.manual_seed(1)
    if kind == "resnet18":
        model = resnet(Basic, (2, 2, 2, 2), 10, 64, 3, True)
        shape: tuple = (3, 32, 32)
    else:
        model, shape = cnn(), (1, 28, 28)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = Fixed(threads * batch * steps, shape)
    job = Elastic(
        model,
        optimizer,
        data,
        threads=threads,
        batch_size=batch,
        one_backward=True,
        sum=order,
    )
    switches: list[float] = []
    inner = job._enter

    def enter(thread: int) -> None:
        since = time.process_time()
        inner(thread)
        switches.append(time.process_time() - since)

    job._enter = enter
    since = time.process_time()
    for x, y in job:
        job.backward(cross_entropy(model(x), y))
    whole = (time.process_time() - since) / (threads * steps)
    job.close()
    switches.sort()
    return {
        "turn_ms": whole * 1e3,
        "switch_ms": sum(switches) / len(switches) * 1e3,
        "median_ms": switches[len(switches) // 2] * 1e3,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


@unittest.skipUnless(os.environ.get("FIRN_SOAK"), "FIRN_SOAK is not set")
class Costs(unittest.TestCase):
    """Measured in processes of their own."""

    def switch(self, kind: str, batch: int, most: float) -> None:
        found = farm.run(1, lambda: train(kind, 4, batch, 3))
        share = found["switch_ms"] / found["turn_ms"]
        print(f"{kind}: {found}, switch {100 * share:.2f} %", file=sys.stderr)
        self.assertLessEqual(share, most)

    def test_a_switch_of_the_small_cnn_takes_three_per_cent_at_most(self) -> None:
        self.switch("cnn", 32, 0.03)

    def test_a_switch_of_resnet18_takes_one_per_cent_at_most(self) -> None:
        self.switch("resnet18", 32, 0.01)

    def peaks(self, order: str) -> dict[int, float]:
        """MiB by V."""
        rss = {}
        for threads in (1, 2, 8):
            found = farm.run(
                1, lambda v=threads: train("resnet18", v, 32, 2, order)
            )
            rss[threads] = found["rss_mib"]
        print(f"{order}: peak MiB by V: {rss}", file=sys.stderr)
        return rss

    def test_a_chain_of_eight_takes_hardly_more_memory_than_one(self) -> None:
        rss = self.peaks("chain")
        self.assertLessEqual(rss[8], 1.1 * rss[1])
        self.assertLessEqual(rss[8], 1.03 * rss[2])

    def test_a_tree_of_eight_holds_two_gradients_more_than_a_chain(self) -> None:
        rss = self.peaks("tree")
        self.assertLessEqual(rss[8], 1.03 * rss[2] + 2 * GRADIENT_MIB)


if __name__ == "__main__":
    unittest.main()
