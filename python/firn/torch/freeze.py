"""Freezing front layers while training (IceFrog), for any module.

A layer is a block of the module in the order of definition, which should be
that of the forward pass: containers are opened, normalisations join the block
before them. Freezing the first k of them means: no gradient at all (a gradient
of zeros would still move them by momentum and weight decay), BatchNorm in
evaluation mode, nothing of them reduced.

How many freeze is decided at the end of an epoch by process 0, from the
variance of each layer's gradient across threads and from measured times, or by
FreezeOut's schedule, or by a function of yours. A decision is an input for all
that follows: logged, checkpointed, sent to all processes, and replayed when
``replay`` holds the log of an earlier run.

    elastic = Elastic(model, optimizer, dataset, freeze="penalty", ...)
    elastic = Elastic(..., freeze=Options(rule=lambda known: known.epoch // 2))
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Iterable, Sequence

import torch
from torch import nn

from firn._lib import FreezeOut, c_size, lib
from firn.freezer import Decided, Freezer, Known, Options
from firn.torch.reduce import Flat

_NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
)
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass
class Layer:
    """Modules that freeze together."""

    name: str
    modules: list[nn.Module] = field(default_factory=list)
    params: list[nn.Parameter] = field(default_factory=list)

    @property
    def nelements(self) -> int:
        """How many numbers train in it."""
        return sum(p.numel() for p in self.params)


def _blocks(module: nn.Module, name: str) -> Iterable[tuple[str, nn.Module]]:
    """The children in order, containers opened."""
    for key, child in module.named_children():
        path = f"{name}.{key}" if name else key
        if isinstance(child, _CONTAINERS):
            yield from _blocks(child, path)
        else:
            yield path, child


def layers_of(model: nn.Module) -> list[Layer]:
    """The layers of a module, that nearest to the input first.

    A parameter that several layers share belongs to the last of them, for it
    has a gradient as long as one of them trains. Parameters of the module
    itself, outside of any block, belong to the first layer. Only what requires
    a gradient now is in a layer; a layer without parameters is none.
    """
    last: dict[int, int] = {}
    blocks = list(_blocks(model, "")) or [("model", model)]
    for i, (_, block) in enumerate(blocks):
        for p in block.parameters():
            last[id(p)] = i
    layers: list[Layer] = []
    for i, (name, block) in enumerate(blocks):
        own = [p for p in block.parameters() if last[id(p)] == i and p.requires_grad]
        joins = layers and (isinstance(block, _NORMS) or not own)
        if not joins:
            layers.append(Layer(name))
        layers[-1].modules.append(block)
        layers[-1].params.extend(own)
    rest = [p for p in model.parameters() if id(p) not in last and p.requires_grad]
    layers[0].params[:0] = rest
    return _without_empty(layers)


def _without_empty(layers: list[Layer]) -> list[Layer]:
    """A front without parameters goes into the layer behind it."""
    found: list[Layer] = []
    waiting: list[nn.Module] = []
    for layer in layers:
        if layer.params:
            layer.modules[:0] = waiting
            waiting = []
            found.append(layer)
        else:
            waiting += layer.modules
    return found


def param_groups(layers: Sequence[Layer], lr: float, **options: object) -> list[dict]:
    """Groups for an optimiser, one for each layer: FreezeOut gives each layer
    a learning rate of its own."""
    return [
        {"params": layer.params, "lr": lr, "layer": i, "base_lr": lr, **options}
        for i, layer in enumerate(layers)
    ]


class Profile:
    """Per-layer gradient variance of an epoch, from sums of squares.

    Across V >= 2 threads: (sum_v |g_v|^2 - V |mean|^2) / (V - 1), for which no
    process needs the gradients of another. With one thread: half the squared
    difference of successive means. Both summed over a layer's elements and
    averaged over steps, in double.
    """

    def __init__(self, flat: Flat, layers: Sequence[Layer], nthreads: int) -> None:
        self._flat, self._nthreads = flat, nthreads
        self.nlayers = len(layers)
        self._layer = [i for i, layer in enumerate(layers) for _ in layer.params]
        self.threads: dict[int, torch.Tensor] = {}
        self.means = torch.zeros(self.nlayers, dtype=torch.float64)
        self.nsteps = 0
        self.before: list[torch.Tensor] | None = None

    def _add(self, sums: torch.Tensor, grads: Sequence[torch.Tensor]) -> torch.Tensor:
        """Squares of these gradients by layer; on CUDA without waiting."""
        if grads and grads[0].is_cuda:
            sums = sums.to(grads[0].device)
            norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads]
            layer = torch.tensor(self._layer[-len(grads) :], device=sums.device)
            return sums.index_add_(0, layer, torch.stack(norms).square_())
        one = (c_size * 2)()
        for layer, g in zip(self._layer[-len(grads) :], grads):
            if g.dtype != torch.float32:
                sums[layer] += g.double().square().sum()
                continue
            whole, one[1] = g.contiguous(), g.numel()
            out = ctypes.cast(
                sums.data_ptr() + 8 * layer, ctypes.POINTER(ctypes.c_double)
            )
            lib().firn_gradstat_squares(out, whole.data_ptr(), one, 1, 0)
        return sums

    def thread(self, thread: int, grads: Sequence[torch.Tensor]) -> None:
        """A thread's gradients of this step."""
        if self._nthreads > 1:
            sums = self.threads.get(thread)
            if sums is None:
                sums = torch.zeros(self.nlayers, dtype=torch.float64)
            self.threads[thread] = self._add(sums, grads)

    def mean(self) -> None:
        """The mean gradient of this step, in the parameters."""
        grads = [p.grad for p in self._flat.live()]
        if self._nthreads > 1:
            self.means = self._add(self.means, grads)
            self.nsteps += 1
            return
        before, self.before = self.before, [g.clone() for g in grads]
        if before is None or len(before) != len(grads):
            return
        change = [now - then for now, then in zip(grads, before)]
        self.means = self._add(self.means, change)
        self.nsteps += 1
        self.before = None

    def variance(self, squares: dict[int, Sequence[float]]) -> list[float] | None:
        """Of the epoch, from all threads' sums; None: nothing was seen."""
        if self.nsteps == 0:
            return None
        means, n, v = self.means.tolist(), self.nsteps, self._nthreads
        if v == 1:
            return [m / 2 / n for m in means]
        totals = [0.0] * self.nlayers
        for thread in sorted(squares):
            totals = [t + s for t, s in zip(totals, squares[thread])]
        return [max(t - v * m, 0.0) / (v - 1) / n for t, m in zip(totals, means)]

    def reset(self) -> None:
        """A new epoch."""
        self.threads = {}
        self.means = torch.zeros(self.nlayers, dtype=torch.float64)
        self.nsteps = 0


class Freezing:
    """The layers of a model as they are frozen now."""

    def __init__(
        self, layers: Sequence[Layer], flat: Flat, options: Options, nthreads: int
    ) -> None:
        self.layers, self.options = list(layers), options
        self._flat = flat
        self.freezer = Freezer(options, [layer.nelements for layer in layers])
        self.profile = Profile(flat, layers, nthreads)
        self.decides = self.freezer.rule != "off"
        self.measures = self.freezer.rule in ("penalty", "user")
        self.nfrozen = 0
        self._norms: list[nn.Module] = []

    def looks(self, step: int) -> bool:
        """Is this a step whose gradients are looked at? With one thread two
        neighbouring steps are needed."""
        every = max(1, self.options.measure_every)
        return self.measures and (step % every == 0 or self.profile.before is not None)

    def apply(self) -> None:
        """Makes the model what the freezer says."""
        n = self.freezer.nfrozen
        for i, layer in enumerate(self.layers):
            for p in layer.params:
                p.requires_grad_(i >= n)
                p.grad = None
        thawed = self._norms
        self._norms = [
            m
            for layer in self.layers[:n]
            for block in layer.modules
            for m in block.modules()
            if isinstance(m, nn.modules.batchnorm._NormBase)
        ]
        for m in thawed:
            m.train(m not in self._norms)
        self._flat.freeze(n)
        self.nfrozen = n
        self.profile.before = None
        self.settle()

    def settle(self) -> None:
        """Frozen BatchNorm in evaluation mode, whatever model.train() did."""
        for m in self._norms:
            m.eval()

    def learning_rates(self, optimizer: torch.optim.Optimizer, done: float) -> None:
        """FreezeOut's rates, for groups that param_groups() made. Layers that
        may not be frozen train to the end, as the last one does."""
        if self.freezer.rule != "freezeout":
            return
        o, last = self.options, len(self.layers) - 1
        rule = FreezeOut(o.first, o.cubic, o.scaled)
        for group in optimizer.param_groups:
            if "layer" in group:
                layer = group["layer"]
                if layer >= self.freezer.most:
                    layer = last
                factor = lib().firn_freezeout_lr(
                    ctypes.byref(rule), len(self.layers), layer, done
                )
                group["lr"] = group["base_lr"] * factor


__all__ = [
    "Decided",
    "Freezer",
    "Freezing",
    "Known",
    "Layer",
    "Options",
    "Profile",
    "layers_of",
    "param_groups",
]
