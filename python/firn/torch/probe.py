"""The place of a fine-tuning task (Task2Vec), from its first gradients.

Tasks are alike if the same parameters matter to them, and a parameter matters
if the gradient of the loss with respect to it is large. So the mean squared
gradients of the first ``PROBES`` turns of this process, at or near the weights
that all jobs of the base begin with, are the task's embedding
(firn_transfer_score in firn/transfer.h). Parameters are put into ``EMBEDDING``
bins of neighbours, which fits into a report. A job that was resumed, or began
with another job's weights, is not at those weights and has none.
"""

from __future__ import annotations

import math
from typing import Sequence

import torch

from firn._lib import EMBEDDING

PROBES = 8


class Probe:
    """Squared gradients of the parameters that the jobs of a base share."""

    def __init__(self, params: Sequence[torch.Tensor]) -> None:
        self._params = [p for p in params if p.requires_grad]
        n = sum(p.numel() for p in self._params)
        self._width = -(-n // EMBEDDING)
        self._left = PROBES if n > 0 else 0
        self._sum: torch.Tensor | None = None

    def stop(self) -> None:
        """The weights are not those of the base."""
        self._left, self._sum = 0, None

    @torch.no_grad()
    def take(self) -> None:
        """A turn's gradients, before they are taken from the parameters."""
        if self._left == 0:
            return
        flat = [
            (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1).float()
            for p in self._params
        ]
        squares = torch.cat(flat).double().square()
        padded = torch.nn.functional.pad(
            squares, (0, EMBEDDING * self._width - squares.numel())
        )
        bins = padded.view(EMBEDDING, self._width).mean(1)
        self._sum = bins if self._sum is None else self._sum + bins
        self._left -= 1

    def embedding(self) -> list[float]:
        """Empty until all turns were taken."""
        if self._left > 0 or self._sum is None:
            return []
        found = (self._sum / PROBES).tolist()
        return found if all(math.isfinite(x) for x in found) else []
