"""The scheduler's plan of a language model, and each process's part of a batch.

A plan is t x d: each layer is split over t GPUs, and there are d replicas of
the whole. Process r is the (r mod t)-th of the GPUs of its replica, r div t:
neighbouring processes, which share a node, hold one layer together. With
``sharded`` the d replicas divide the weights among themselves (FSDP).

Of the environment:

    FIRN_TENSOR, FIRN_REPLICAS, FIRN_SHARDED    the plan
    FIRN_STAGES                                 refused when above 1
    FIRN_RECOMPUTE                              1: activations of layers are
                                                computed again, whatever
                                                FIRN_CHECKPOINTING says
    FIRN_MODEL                                  the job file's ``model:``, JSON
    FIRN_PRECISION, FIRN_OPTIMIZER, FIRN_ATTENTION, FIRN_CHECKPOINTING
                                                how the job file says it trains
    FIRN_BATCH, FIRN_PASSES                     samples of a step; passes of it

Invariants:
1. t d is the number of processes.
2. The samples of a step are those of the global batch, each once, whatever the
   plan: ``shares`` gives each replica a contiguous run.
3. All replicas make the same number of passes, as FSDP needs: a replica with
   fewer samples repeats one with weight 0.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from firn._lib import FirnError
from firn.group import number_of

PRECISIONS = ("megatron", "amp", "bf16", "fp32")
OPTIMIZERS = ("adamw", "sgd", "sgd-plain")
ATTENTIONS = ("eager", "sdpa")
CHECKPOINTINGS = ("off", "layers")


@dataclass(frozen=True)
class Plan:
    """t x d processes, and which of them this one is."""

    tensor: int = 1
    replicas: int = 1
    sharded: bool = False
    rank: int = 0

    def __post_init__(self) -> None:
        if self.tensor < 1 or self.replicas < 1:
            raise FirnError(
                f"a plan of {self.tensor} GPUs a layer and {self.replicas} "
                "replicas: both must be at least 1"
            )
        if not 0 <= self.rank < self.nprocs:
            raise FirnError(
                f"RANK is {self.rank}, but the plan has {self.nprocs} processes"
            )

    @property
    def nprocs(self) -> int:
        """Processes of the job, one a GPU."""
        return self.tensor * self.replicas

    @property
    def tensor_rank(self) -> int:
        """Which of the GPUs of its layers this process has."""
        return self.rank % self.tensor

    @property
    def replica(self) -> int:
        """Which of the replicas this process belongs to."""
        return self.rank // self.tensor

    def __str__(self) -> str:
        kind = ", sharded" if self.sharded else ""
        return f"t={self.tensor} d={self.replicas}{kind}"

    @staticmethod
    def of_environment() -> "Plan":
        """FIRN_TENSOR, FIRN_REPLICAS, FIRN_SHARDED, RANK, WORLD_SIZE."""
        nprocs = number_of("WORLD_SIZE", 1, 1, 1 << 16)
        stages = number_of("FIRN_STAGES", 1, 1, 1 << 16)
        if stages > 1:
            raise FirnError(
                f"FIRN_STAGES is {stages}: firn.torch.parallel has no pipeline "
                "stages; it needs a plan of FIRN_TENSOR and FIRN_REPLICAS"
            )
        tensor = number_of("FIRN_TENSOR", 1, 1, 1 << 16)
        if nprocs % tensor != 0:
            raise FirnError(
                f"FIRN_TENSOR is {tensor}, which does not divide the "
                f"{nprocs} processes of the job (WORLD_SIZE)"
            )
        replicas = number_of("FIRN_REPLICAS", nprocs // tensor, 1, 1 << 16)
        if tensor * replicas != nprocs:
            raise FirnError(
                f"FIRN_TENSOR x FIRN_REPLICAS is {tensor} x {replicas}, but the "
                f"job has {nprocs} processes (WORLD_SIZE)"
            )
        sharded = number_of("FIRN_SHARDED", 0, 0, 1) == 1
        return Plan(tensor, replicas, sharded, number_of("RANK", 0, 0, nprocs - 1))


def _word(name: str, known: tuple[str, ...], default: str) -> str:
    """A word of the environment out of a list."""
    word = os.environ.get(name) or default
    if word not in known:
        raise FirnError(f"{name} is '{word[:40]}', not one of {', '.join(known)}")
    return word


@dataclass(frozen=True)
class Training:
    """How the job file says that the model trains."""

    model: dict[str, Any] = field(default_factory=dict)
    precision: str = "megatron"
    optimizer: str = "adamw"
    attention: str = "eager"
    checkpointing: str = "off"
    batch: int = 0  # of a step, over all replicas; 0: not said
    passes: int = 1  # of a step, of each replica

    @staticmethod
    def of_environment() -> "Training":
        """FIRN_MODEL and the variables beside it."""
        text = os.environ.get("FIRN_MODEL", "")
        model: Any = {}
        if text:
            try:
                model = json.loads(text)
            except ValueError:
                model = None
            if not isinstance(model, dict):
                raise FirnError(f"FIRN_MODEL is '{text[:60]}', not a JSON object")
        said = _word("FIRN_CHECKPOINTING", CHECKPOINTINGS, "off")
        recomputes = number_of("FIRN_RECOMPUTE", 0, 0, 1) == 1
        return Training(
            model=model,
            precision=_word("FIRN_PRECISION", PRECISIONS, "megatron"),
            optimizer=_word("FIRN_OPTIMIZER", OPTIMIZERS, "adamw"),
            attention=_word("FIRN_ATTENTION", ATTENTIONS, "eager"),
            checkpointing="layers" if recomputes else said,
            batch=number_of("FIRN_BATCH", 0, 0, 10**9),
            passes=number_of("FIRN_PASSES", 1, 1, 1 << 20),
        )

    def number(self, key: str, default: int) -> int:
        """A whole number of FIRN_MODEL, such as 'hidden'."""
        value = self.model.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FirnError(f"'{key}' of FIRN_MODEL is {value!r}, not a number from 1")
        return value


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass of one replica."""

    samples: tuple[int, ...]  # positions in the global batch
    share: float  # of the global batch; 0: made for company only


def _run(total: int, parts: int, which: int) -> range:
    """Part ``which`` of ``total`` things in ``parts`` runs, larger ones first."""
    size, more = divmod(total, parts)
    begin = which * size + min(which, more)
    return range(begin, begin + size + (which < more))


def shares(batch: int, plan: Plan, micro: int = 0, passes: int = 1) -> list[Pass]:
    """The passes of this process's replica for one step.

    ``micro`` is the most samples of a pass; 0: as many as ``passes`` passes
    need. The shares of all passes of all replicas add up to 1.
    """
    if batch < plan.replicas:
        raise FirnError(
            f"a batch of {batch} samples for {plan.replicas} replicas: "
            "each replica needs a sample"
        )
    most = -(-batch // plan.replicas)
    npasses = -(-most // micro) if micro > 0 else min(passes, most)
    mine = _run(batch, plan.replicas, plan.replica)
    found = []
    for which in range(npasses):
        part = _run(len(mine), npasses, which)
        samples = tuple(mine[i] for i in part)
        found.append(Pass(samples or (mine[0],), len(samples) / batch))
    return found
