"""The options of an elastic job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from firn.freezer import Decided, Options as FreezeOptions

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic
    from firn.torch.freeze import Layer


@dataclass
class Options:
    """The options of an elastic job. Environment variables (firn/train.h)
    fill in what is None."""

    batch_size: int = 1
    """Samples of one thread's batch; a step takes V of these."""
    threads: int | None = None
    """V; None: FIRN_THREADS, else the number of processes."""
    epochs: int = 1
    seed: int = 0
    """Thread v's generators are seeded with seed + v."""
    layout: Sequence[int] | None = None
    """The process of each thread; None: FIRN_LAYOUT, else even runs."""
    shuffle: bool = True
    drop_last: bool = False
    sampler_seed: int = 0
    collate: Callable | None = None
    workers: int = 0
    """Virtual data workers of each thread, as num_workers of each rank."""
    pool: int = 0
    """Processes that do their work for all threads here; 0: up to two."""
    scheduler: Any = None
    scheduler_by: str = "epoch"
    """When the learning-rate scheduler steps: "epoch" or "step"."""
    update: Callable[[], None] | None = None
    """Instead of optimizer.step(): to clip gradients before it, say."""
    broadcast_buffers: bool = True
    """As DDP's: thread 0's buffers go to all before each step."""
    shared_buffers: Sequence[str] = ()
    """Names of buffers that never change, so that one copy is enough."""
    layers: Sequence[Layer] | None = None
    freeze: FreezeOptions | str | None = None
    replay: Sequence[Decided] = ()
    """The decision log of an earlier run, to be taken instead of deciding."""
    chain: bool = False
    """Constant memory between processes too; neighbouring threads only."""
    one_backward: bool = False
    """One process: every turn has exactly one backward pass and uses every
    parameter, so its gradients may be added to the sum as they come. No second
    gradient is then held; ``p.grad`` is the sum so far, not the turn's own."""
    offload: bool = False
    """From CUDA: gradients go to the host by copies of their own stream."""
    folder: str | None = None
    """Of checkpoints; None: FIRN_DIR; neither: none are written."""
    every_steps: int = 0
    keep: int = 2
    resume: bool = True
    also: Mapping[str, Any] = field(default_factory=dict)
    """Further objects with state_dict() that belong into checkpoints."""
    report_every: int = 10
    on_epoch: Callable[["Elastic"], None] | None = None
    """Called at the end of every epoch, between two steps."""
    partner: Any = None
    """A co-trained job (``finetune.mate()``): this session trains that job, with
    its name, folder, threads and reports (firn.torch.partners)."""
    begins_with: Callable[[str], bool] | None = None
    """Which parameters a job takes from the ended job of FIRN_AFTER, by name;
    None: all that have the same name, shape and type there."""
    on_stop: str = "exit"
    """When ordered to stop: "exit" with status 83, or "return" from the loop."""
    ablate: Sequence[str] = ()
    """For tests: parts that are left out on purpose ("rng", "buffers",
    "sampler", "sum")."""
