"""The options of an elastic job.

The sentence below each option is its documentation: ``python/list_options.py``
writes the table of docs/training.md from it.
"""

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
    """V, the number of threads; None: FIRN_THREADS, else the number of processes."""
    epochs: int = 1
    """Passes over the data set, in ordinary steps."""
    max_steps: int = 0
    """The number of ordinary steps of batch_size after which the training ends, if
    that is before the last epoch's end; 0: no limit."""
    seed: int = 0
    """Thread v's generators are seeded with seed + v."""
    layout: Sequence[int] | None = None
    """The process of each thread; None: FIRN_LAYOUT, else even runs."""
    shuffle: bool = True
    """Samples are drawn in a new random order in each epoch, as by
    DistributedSampler(shuffle=True)."""
    drop_last: bool = False
    """Leaves out the last samples that do not fill a batch of each thread; False:
    some samples are taken twice, as by DistributedSampler."""
    sampler_seed: int = 0
    """The seed of the order of samples."""
    sampler: Any = None
    """A sampler of the whole data set, instead of shuffle=: its order in each epoch
    is divided among the threads. It must draw from its own generator or from
    torch's, numpy's or Python's, which are seeded for each epoch."""
    steps_per_epoch: int = 0
    """For an IterableDataset: the steps that count as an epoch. 0 is for data sets
    with a length."""
    collate: Callable | None = None
    """Makes a batch of a list of samples; None: PyTorch's default_collate."""
    workers: int = 0
    """Virtual data workers of each thread, as num_workers of each rank."""
    pool: int = 0
    """Processes that do their work for all threads here; 0: up to two."""
    scheduler: Any = None
    """A learning-rate scheduler of the optimiser; it is stepped by Elastic and kept
    in checkpoints."""
    scheduler_by: str = "epoch"
    """When the learning-rate scheduler steps: "epoch" or "step" (of batch_size
    samples in each thread, also where another batch was ordered)."""
    update: Callable[[], None] | None = None
    """Called instead of optimizer.step(), with the mean gradients in place: to clip
    them before the step, for example."""
    broadcast_buffers: bool = True
    """As DDP's: thread 0's buffers go to all before each step."""
    shared_buffers: Sequence[str] = ()
    """Names of buffers that never change, so that one copy is enough."""
    layers: Sequence[Layer] | None = None
    """The layers that may be frozen, nearest to the input first; None: the blocks
    of the module in the order of definition."""
    freeze: FreezeOptions | str | None = None
    """The rule that freezes layers: "off", "penalty", "freezeout", or Options of
    firn.torch.freeze; None: FIRN_FREEZE."""
    replay: Sequence[Decided] = ()
    """The decision log of an earlier run, to be taken instead of deciding."""
    sum: str | None = None
    """The order in which gradients are summed: "tree" or "chain" (firn.tree).
    None: FIRN_SUM, else that of the checkpoint, else the tree."""
    through: str | None = None
    """How gradients go between processes: "distributed" (torch.distributed:
    NCCL or gloo), "memory" (firn's own: shared memory, TCP between hosts).
    None: FIRN_THROUGH, else "distributed" where every process has a GPU of its
    own, else "memory". All give the same bits."""
    bucket_mb: float = 25.0
    """"distributed": MiB of gradients that are sent together, as DDP's
    bucket_cap_mb."""
    peer_timeout_s: float = 0.0
    """Seconds for which a process waits for another; 0: FIRN_PEER_TIMEOUT_S,
    else 300."""
    chain: bool = False
    """"memory": no slots of shared memory, but sums that are made as gradients
    come: log2 V vectors a process in the tree. In the chain one vector, where
    every process has neighbouring threads."""
    one_backward: bool = False
    """Every turn has exactly one backward pass and uses every parameter, so its
    gradients may be added to the sum as they come (no second gradient is then
    held; ``p.grad`` is the sum so far, not the turn's own) and, between
    processes ("distributed"), sent while the backward pass goes on."""
    offload: bool = False
    """From CUDA: gradients go to the host by copies of their own stream."""
    compare_every: int = 100
    """Steps between two comparisons of a hash of the weights across all processes,
    which is also made before each checkpoint; a difference is an error. 0: no
    comparison."""
    folder: str | None = None
    """The folder of checkpoints; None: FIRN_DIR; neither: none are written."""
    every_steps: int = 0
    """Steps between two checkpoints; 0: they are written only at the end, at a
    stop, after decisions and by FIRN_CKPT_EVERY_S."""
    keep: int = 2
    """Checkpoint files that are kept; older ones are removed."""
    save_frozen: bool = True
    """False: parameters that do not train (the backbone under adapters) are left
    out of checkpoints; a resumed job must have a backbone of the same bits, which
    is checked by a hash."""
    resume: bool = True
    """Begins with the newest complete checkpoint in the folder, if there is one."""
    also: Mapping[str, Any] = field(default_factory=dict)
    """Further objects with state_dict() that belong into checkpoints."""
    warm_up: Callable[["Elastic"], None] | None = None
    """Called in a process that joins a running job, before it says that it is
    ready: a forward and backward pass on made-up data there takes the time of a
    first step out of the pause (docs/resize.md)."""
    report_every: int = 10
    """Steps between two reports to the scheduler."""
    batch_orders: bool = True
    """Take orders of another batch, with the learning rate of the job's rule
    (see :mod:`firn.torch.batching`); False: decline them."""
    batch_at: str = "step"
    """When an ordered batch takes effect: "step", at the next step; "epoch", at the
    next epoch."""
    can: Sequence[str] | None = None
    """Orders that the loop obeys, words of firn.report.CAN; None: what
    :meth:`Elastic.can` finds out."""
    on_step: Callable[["Elastic"], None] | None = None
    """Called as on_step(elastic) after every step, in every process."""
    on_epoch: Callable[["Elastic"], None] | None = None
    """Called as on_epoch(elastic) at the end of every epoch, between two steps, in
    every process: elastic.epoch is the number of epochs done, elastic.epoch_loss
    the mean loss of the epoch over all threads (None if elastic.backward() was not
    used)."""
    partner: Any = None
    """A co-trained job (``finetune.mate()``): this session trains that job, with
    its name, folder, threads and reports (firn.torch.partners)."""
    begins_with: Callable[[str], bool] | None = None
    """Which parameters a job takes from the ended job of FIRN_AFTER, by name;
    None: all that have the same name, shape and type there."""
    embeds: Callable[[str], bool] | None = None
    """Of a fine-tuning job: the parameters, by name, that all jobs of its base
    have; their first gradients are reported as the task's embedding
    (firn.torch.probe). None: none is. Not with ``one_backward``."""
    on_stop: str = "exit"
    """When ordered to stop: "exit" with status 83, or "return" from the loop."""
    ablate: Sequence[str] = ()
    """For tests: parts that are left out on purpose ("rng", "buffers",
    "sampler", "sum")."""
