"""Fine-tuning tasks over one backbone, alone or merged (Ymir).

The backbone is frozen; what trains is small: LoRA or adapters in its linear
layers, and a head for each task. Tasks are run

    normal     one task
    temporal   one after the other: the second starts from the adapters that
               the first one left
    spatial    both at once: every step belongs to a task that is drawn by
               annealed sampling, from proportional to nearly even

``embedding()`` and ``similarity()`` say how alike two tasks are (Task2Vec: the
diagonal of the Fisher information on a subset), ``judge()`` whether a merge has
paid after two epochs, and :class:`Pipeline` makes the next task ready while the
present one computes: its data loader first, then its weights.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch import nn
from torch.utils.data import DataLoader

from firn import FirnError
from firn._lib import SWITCH_PREPARE, SwitchStage, SwitchTimes, TaskGuard, TaskMix
from firn._lib import c_double, c_u64, c_void_p, call, lib
from firn.group import amount_of

MODES = ("normal", "temporal", "spatial")
VERDICTS = ("too early", "pays", "undo")


# --- what trains -------------------------------------------------------------


class LoRA(nn.Module):
    """A linear layer that stays, and a product of two thin ones beside it.

    Starts as the layer itself: the second factor is zero.
    """

    def __init__(self, base: nn.Linear, rank: int, alpha: float = 16.0) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, base.in_features, **like))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, **like))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """base(x) + scale * up(down(x))"""
        thin = nn.functional.linear(x, self.down)
        return self.base(x) + nn.functional.linear(thin, self.up) * self.scale


class Adapter(nn.Module):
    """A linear layer that stays, and a bottleneck behind it (Houlsby, 2019).

    Starts as the layer itself: the way back up is zero.
    """

    def __init__(self, base: nn.Linear, width: int) -> None:
        super().__init__()
        self.base = base
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Linear(base.out_features, width, **like)
        self.up = nn.Linear(width, base.out_features, **like)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """y + up(gelu(down(y))), y = base(x)"""
        y = self.base(x)
        return y + self.up(nn.functional.gelu(self.down(y)))


def adapt(
    backbone: nn.Module,
    kind: str = "lora",
    size: int = 8,
    match: Callable[[str], bool] = lambda name: True,
) -> list[nn.Parameter]:
    """Freezes a backbone and puts LoRA or adapters into its linear layers whose
    names match; the parameters that train."""
    makers = {"lora": LoRA, "adapter": Adapter}
    if kind not in makers:
        raise FirnError(f"'{kind}' is neither lora nor adapter")
    for p in backbone.parameters():
        p.requires_grad_(False)
    found = [
        (name, module)
        for name, module in backbone.named_modules()
        if type(module) is nn.Linear and match(name)
    ]
    if not found:
        raise FirnError("no linear layer of the backbone matches")
    for name, module in found:
        parent, _, last = name.rpartition(".")
        setattr(backbone.get_submodule(parent), last, makers[kind](module, size))
    return [p for p in backbone.parameters() if p.requires_grad]


# --- tasks ---------------------------------------------------------------------


@dataclass
class Task:
    """One task: its data, its head, its loss."""

    name: str
    dataset: Any
    head: nn.Module
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = (
        nn.functional.cross_entropy
    )


@dataclass(frozen=True)
class Mate:
    """A co-trained job: this program trains it as well (firn/mate.h)."""

    job: str
    attempt: int
    """The number of its attempt."""
    token: str
    folder: str
    """Where its checkpoints are, and are to go."""
    data: str
    """Its dataset, as its job file names it."""
    nthreads: int
    """0: not set."""
    argv: tuple[str, ...]
    """Its command; empty: not set."""
    frozen_max: float = 0.0
    """The share of its layers that may be frozen; 0: not set."""
    target_metric: float = 0.0
    """Its ``target.metric``; 0: not set."""

    @property
    def epoch(self) -> int:
        """The older name of ``attempt``."""
        return self.attempt


def mate(env: Mapping[str, str] = os.environ) -> Mate | None:
    """The co-trained job in FIRN_MATE_*; None: this job is trained alone."""

    def number(name: str) -> int:
        word = env.get(name, "")
        return int(word) if word.isascii() and word.isdigit() else 0

    job = env.get("FIRN_MATE_JOB", "")
    if not job:
        return None
    words = env.get("FIRN_MATE_ARGV", "")
    return Mate(
        job=job,
        attempt=number("FIRN_MATE_ATTEMPT") or number("FIRN_MATE_EPOCH"),
        token=env.get("FIRN_MATE_TOKEN", ""),
        folder=env.get("FIRN_MATE_DIR", ""),
        data=env.get("FIRN_MATE_DATA", ""),
        nthreads=number("FIRN_MATE_THREADS"),
        argv=tuple(words.split("\x1f")) if words else (),
        frozen_max=amount_of("FIRN_MATE_FREEZE_MAX", 1, env),
        target_metric=amount_of("FIRN_MATE_TARGET_METRIC", 1e12, env),
    )


@dataclass
class Turn:
    """A step that belongs to one task."""

    epoch: int
    step: int
    task: Task
    batch: Any


@dataclass
class Tuner:
    """The task constructor: which task each step belongs to, and its batch.

    The order of everything is a function of ``seed`` alone. Forward passes are
    ``task.head(backbone(x))``.
    """

    backbone: nn.Module
    tasks: Sequence[Task]
    mode: str = "normal"
    epochs: int = 2
    batch_size: int = 16
    seed: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise FirnError(f"'{self.mode}' is not a mode: {', '.join(MODES)}")
        if not self.tasks or (self.mode == "normal" and len(self.tasks) != 1):
            raise FirnError(f"{len(self.tasks)} tasks in mode {self.mode}")
        self._sizes = (c_u64 * len(self.tasks))(*(len(t.dataset) for t in self.tasks))
        self._mix = TaskMix(
            MODES.index(self.mode), len(self.tasks), self._sizes, self.epochs, self.seed
        )

    def shares(self, epoch: int) -> list[float]:
        """The chances of the tasks in an epoch."""
        out = (c_double * len(self.tasks))()
        call("firn_task_shares", ctypes.byref(self._mix), epoch, out)
        return list(out)

    def steps(self, epoch: int) -> int:
        """As many as the tasks that have a share in it have batches."""
        shares = self.shares(epoch)
        return sum(
            -(-len(task.dataset) // self.batch_size)
            for task, share in zip(self.tasks, shares)
            if share > 0
        )

    def _loader(self, number: int, epoch: int) -> Iterator[Any]:
        """Batches of a task without an end."""
        turn = 0
        while True:
            g = torch.Generator()
            g.manual_seed(((self.seed * 1009 + number) * 1009 + epoch) * 1009 + turn)
            yield from DataLoader(
                self.tasks[number].dataset, self.batch_size, shuffle=True, generator=g
            )
            turn += 1

    def epoch(self, epoch: int) -> Iterator[Turn]:
        """The steps of an epoch."""
        loaders: dict[int, Iterator[Any]] = {}
        for step in range(self.steps(epoch)):
            number = lib().firn_task_of_step(ctypes.byref(self._mix), epoch, step)
            if number not in loaders:
                loaders[number] = self._loader(number, epoch)
            yield Turn(epoch, step, self.tasks[number], next(loaders[number]))

    def train(
        self, optimizer: torch.optim.Optimizer, device: torch.device | None = None
    ) -> dict[str, list[float]]:
        """All epochs; mean training loss of each task in each epoch."""
        device = device or next(self.backbone.parameters()).device
        for epoch in range(self.epochs):
            seen: dict[str, list[torch.Tensor]] = {}
            for turn in self.epoch(epoch):
                x, y = (part.to(device) for part in turn.batch)
                optimizer.zero_grad(set_to_none=True)
                loss = turn.task.loss(turn.task.head(self.backbone(x)), y)
                loss.backward()
                optimizer.step()
                seen.setdefault(turn.task.name, []).append(loss.detach())
            for name, values in seen.items():
                mean = float(torch.stack(values).mean())
                self.losses.setdefault(name, []).append(mean)
        return self.losses


# --- how alike, and whether it pays -----------------------------------------------


def embedding(
    backbone: nn.Module, task: Task, nsamples: int = 64, batch_size: int = 4
) -> torch.Tensor:
    """The task's place: mean squared gradients of the backbone's parameters
    that train, on the first ``nsamples`` samples; doubles on the host."""
    params = [p for p in backbone.parameters() if p.requires_grad]
    n = sum(p.numel() for p in params)
    if n == 0:
        raise FirnError("nothing in the backbone trains: there is no embedding")
    fisher = torch.zeros(n, dtype=torch.float64)
    device = params[0].device
    was = backbone.training
    backbone.eval()
    subset = torch.utils.data.Subset(
        task.dataset, range(min(nsamples, len(task.dataset)))
    )
    for x, y in DataLoader(subset, batch_size):
        loss = task.loss(task.head(backbone(x.to(device))), y.to(device))
        grads = torch.autograd.grad(loss, params, allow_unused=True)
        flat = torch.cat(
            [
                (torch.zeros_like(p) if g is None else g).reshape(-1)
                for p, g in zip(params, grads)
            ]
        )
        flat = flat.float().cpu()
        lib().firn_task_fisher_add(fisher.data_ptr(), flat.data_ptr(), n)
    backbone.train(was)
    return fisher


def similarity(left: torch.Tensor, right: torch.Tensor) -> float:
    """Of two embeddings, in [0, 1]."""
    if left.shape != right.shape or left.dtype != torch.float64:
        raise FirnError("embeddings of different backbones cannot be compared")
    return lib().firn_task_similarity(left.data_ptr(), right.data_ptr(), left.numel())


def judge(
    merged: Sequence[float],
    alone: Sequence[float],
    margin: float = 0.05,
    epochs: int = 2,
) -> str:
    """Did a merge pay, by the losses with and without it? "too early", "pays"
    or "undo"."""
    n = min(len(merged), len(alone))
    guard = TaskGuard(margin, epochs)
    a, b = (c_double * n)(*merged[:n]), (c_double * n)(*alone[:n])
    return VERDICTS[lib().firn_task_judge(ctypes.byref(guard), a, b, n)]


# --- the pipeline switch -----------------------------------------------------------


@dataclass(frozen=True)
class SwitchCost:
    """Seconds: of all stages, of each, and what the switch had to wait."""

    prepare_s: float
    waited_s: float
    stage_s: dict[str, float]


class Pipeline:
    """Prepares the next task in a thread while the present one computes.

        next_up = Pipeline({"loader": make_loader, "weights": load_weights})
        ... steps of the present task ...
        made, cost = next_up.take()     # made["loader"], made["weights"]

    Stages run one after the other; take() waits for what is left.
    """

    def __init__(self, stages: Mapping[str, Callable[[], Any]]) -> None:
        self._names = list(stages)
        self._made: dict[str, Any] = {}
        self._failed: BaseException | None = None
        self._functions = [
            SWITCH_PREPARE(self._stage(name, make)) for name, make in stages.items()
        ]
        array = (SwitchStage * len(stages))(
            *(
                SwitchStage(name.encode(), function, None)
                for name, function in zip(stages, self._functions)
            )
        )
        self._handle = c_void_p()
        call("firn_switch_start", ctypes.byref(self._handle), array, len(stages))

    def _stage(self, name: str, make: Callable[[], Any]) -> Callable:
        """A stage as the library calls it: what it raises is kept."""

        def run(_: int, __: Any) -> int:
            try:
                self._made[name] = make()
                return 0
            except BaseException as error:  # raised again by take()
                self._failed = error
                return 4

        return run

    @property
    def ready(self) -> bool:
        """Would take() wait for nothing?"""
        return lib().firn_switch_ready(self._handle)

    def take(self) -> tuple[dict[str, Any], SwitchCost]:
        """What the stages made; the first failure of one is raised."""
        handle, self._handle = self._handle, c_void_p()
        times = SwitchTimes()
        try:
            call("firn_switch_take", handle, ctypes.byref(times))
        except FirnError:
            raise self._failed or FirnError("a stage failed") from None
        each = {name: times.stage_s[i] for i, name in enumerate(self._names)}
        return self._made, SwitchCost(times.prepare_s, times.waited_s, each)


def without_pipeline(
    stages: Mapping[str, Callable[[], Any]],
) -> tuple[dict[str, Any], SwitchCost]:
    """The same stages in place, for comparison: all of it is waited for."""
    made, each = {}, {}
    for name, make in stages.items():
        since = time.perf_counter()
        made[name] = make()
        each[name] = time.perf_counter() - since
    total = sum(each.values())
    return made, SwitchCost(total, total, each)
