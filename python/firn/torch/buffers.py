"""The buffers of each thread (BatchNorm's and others), swapped without copying.

All buffers of a thread lie in one flat tensor for each kind of number, and the
module's buffers are made views of the thread's in turn: ``buffer.data`` is
set, so the tensor object that others may hold stays the same one. DDP's
``broadcast_buffers`` is then one copy per kind of number.
"""

from __future__ import annotations

from typing import Iterable

import torch
from torch import nn

_ALIGN = 64  # elements: views begin where an allocation of their own might


class Buffers:
    """The buffers of ``threads``, each starting as the module's are now."""

    def __init__(
        self, model: nn.Module, threads: Iterable[int], shared: Iterable[str] = ()
    ) -> None:
        skip = set(shared)
        self.named = {k: b for k, b in model.named_buffers() if k not in skip}
        self._flat: dict[int, dict] = {}
        self._views: dict[int, list[torch.Tensor]] = {}
        for thread in threads:
            self._lay_out(thread)
            for view, live in zip(self._views[thread], self.named.values()):
                view.copy_(live)

    def _lay_out(self, thread: int) -> None:
        """Flat tensors and views of a thread."""
        sizes: dict = {}
        places = []
        for live in self.named.values():
            kind = (live.device, live.dtype)
            at = sizes.get(kind, 0)
            places.append((kind, at, live))
            sizes[kind] = at + -(-live.numel() // _ALIGN) * _ALIGN
        flat = {k: torch.zeros(n, dtype=k[1], device=k[0]) for k, n in sizes.items()}
        self._flat[thread] = flat
        self._views[thread] = [
            flat[kind][at : at + live.numel()].view(live.shape)
            for kind, at, live in places
        ]

    def rehome(self, threads: Iterable[int], more: "Buffers") -> None:
        """The buffers of ``threads`` from now on: those that are here, and those
        of ``more``. The module has no thread's in place until the next enter()."""
        flat, views = {**more._flat, **self._flat}, {**more._views, **self._views}
        self._flat = {v: flat[v] for v in threads}
        self._views = {v: views[v] for v in threads}

    def enter(self, thread: int) -> None:
        """The module's buffers are this thread's from now on."""
        for live, view in zip(self.named.values(), self._views[thread]):
            live.data = view

    def detach(self, thread: int) -> None:
        """The module gets copies of a thread's buffers, for the end."""
        for live, view in zip(self.named.values(), self._views[thread]):
            live.data = view.clone()

    def of(self, thread: int) -> dict[str, torch.Tensor]:
        """A thread's buffers by name; views."""
        return dict(zip(self.named, self._views[thread]))

    def flat(self, thread: int) -> list[torch.Tensor]:
        """A thread's flat tensors, always in one order."""
        return list(self._flat[thread].values())

    def spread(self, source: list[torch.Tensor]) -> None:
        """Copies flat tensors to every thread that does not own them."""
        for thread in self._flat:
            for mine, theirs in zip(self.flat(thread), source):
                if mine is not theirs:
                    mine.copy_(theirs)
