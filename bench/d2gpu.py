#!/usr/bin/env python3
"""What determinism costs on a GPU, and what it gives: docs/determinism.md.

Two models, a CNN of convolutions and a Transformer of matrix products, are
trained for a few steps under three settings:

  fast    what PyTorch does by itself: TF32, the fastest kernels by trial
  D1      deterministic algorithms, no trials, no TF32, a fixed workspace
  plain   D1 without cuDNN and without fused attention: the kernels that are
          left are ATen's and cuBLAS's

For each it prints the milliseconds of a step (the least of several blocks) and
a digest of the weights after twenty steps, twice: the same digest is the same
bits. The setting of cuBLAS's workspace is an argument, for it is read once.
"""

import hashlib
import os
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = sys.argv[1] if len(sys.argv) > 1 else ":4096:8"

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def block(n: int, m: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(n, m, 3, stride, 1, bias=False),
        nn.BatchNorm2d(m),
        nn.ReLU(),
        nn.Conv2d(m, m, 3, 1, 1, bias=False),
        nn.BatchNorm2d(m),
        nn.ReLU(),
    )


def cnn() -> nn.Module:
    sizes = [(3, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    return nn.Sequential(
        *[block(*s) for s in sizes],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(512, 8, 2048, 0.1, batch_first=True)
        self.embed = nn.Embedding(8192, 512)
        self.body = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(512, 8192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(x))).flatten(0, 1)


def settle(how: str) -> None:
    exact = how != "fast"
    torch.use_deterministic_algorithms(exact)
    torch.backends.cudnn.benchmark = not exact
    torch.backends.cudnn.deterministic = exact
    torch.backends.cudnn.enabled = how != "plain"
    torch.backends.cuda.matmul.allow_tf32 = not exact
    torch.backends.cudnn.allow_tf32 = not exact
    torch.backends.cuda.enable_flash_sdp(how != "plain")
    torch.backends.cuda.enable_mem_efficient_sdp(how != "plain")


def train(kind: str, steps: int) -> tuple[float, str]:
    torch.manual_seed(1)
    if kind == "cnn":
        model, x = cnn(), torch.randn(256, 3, 32, 32)
        y = torch.randint(10, (256,))
    else:
        model, x = Transformer(), torch.randint(8192, (32, 256))
        y = torch.randint(8192, (32 * 256,))
    model, x, y = model.cuda(), x.cuda(), y.cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)
    least, digest = float("inf"), ""
    for i in range(steps + 60):
        if i >= steps and (i - steps) % 20 == 0:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if i + 1 == steps:
            sha = hashlib.sha256()
            for p in model.state_dict().values():
                sha.update(p.cpu().numpy().tobytes())
            digest = sha.hexdigest()[:12]
        if i >= steps and (i - steps) % 20 == 19:
            torch.cuda.synchronize()
            least = min(least, (time.perf_counter() - begin) / 20)
    return 1000 * least, digest


def main() -> None:
    print(torch.__version__, torch.version.cuda, torch.cuda.get_device_name())
    print("workspace", os.environ["CUBLAS_WORKSPACE_CONFIG"])
    print("model setting step_ms digest again")
    for kind in ("cnn", "transformer"):
        for how in ("fast", "D1", "plain"):
            settle(how)
            ms, first = train(kind, 20)
            _, second = train(kind, 20)
            print(kind, how, f"{ms:.2f}", first, second, flush=True)


if __name__ == "__main__":
    main()
