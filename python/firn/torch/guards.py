"""What Elastic refuses, each with a sentence, before anything is trained.

A mistake that DDP's users make when they change to Elastic must not end in
weights that are silently wrong. Three kinds of checks:

    at opening      model, optimiser, scheduler, data set and options are of a
                    kind that Elastic trains correctly (``check_*``)
    in every turn   the weights change in the step of the optimiser only, and a
                    backward pass leaves gradients behind (:class:`Turns`)
    now and then    all processes have the same weights (``firn.torch.hashing``)

Invariants:
(1) a check looks at types, names and version counters, never at values, so a
    turn costs a few microseconds and no synchronisation with a device;
(2) a class is recognised by the name of one of its bases: neither FSDP nor
    DeepSpeed nor Accelerate has to be installed, or is imported here;
(3) every sentence says what was found and what to do instead.
"""

from __future__ import annotations

import dataclasses
import difflib
import weakref
from typing import TYPE_CHECKING, Any, Mapping

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from firn import FirnError
from firn.torch.options import Options
from firn.torch.pack import pack

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic

_WRAPPERS = {
    "DistributedDataParallel": "DDP sums gradients itself",
    "DataParallel": "DataParallel splits batches itself",
    "FullyShardedDataParallel": "FSDP shards parameters and sums gradients itself",
    "FSDPModule": "fully_shard() shards parameters and sums gradients itself",
    "DeepSpeedEngine": "DeepSpeed sums gradients and takes steps itself",
}
_OPTIMIZERS = {
    "LBFGS": "LBFGS evaluates the loss several times in a step",
    "SparseAdam": "SparseAdam needs sparse gradients, and sums are dense",
    "ZeroRedundancyOptimizer": "its state is split over torch.distributed",
    "PostLocalSGDOptimizer": "it averages weights over torch.distributed",
    "AcceleratedOptimizer": "give the optimizer from before accelerator.prepare(), "
    "or use firn.accelerate",
}
_MEANT = {
    "num_workers": "workers",
    "collate_fn": "collate",
    "lr_scheduler": "scheduler",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "nthreads": "threads",
    "checkpoint_dir": "folder",
}
_NEVER = {
    "batch_sampler": "use sampler= and batch_size=",
    "worker_init_fn": "what it does to a process cannot travel with a thread",
    "generator": "use sampler_seed=",
}


def _bases(thing: Any) -> set[str]:
    """The names of its class and of all bases."""
    return {kind.__name__ for kind in type(thing).__mro__}


def options_of(given: Mapping[str, Any]) -> Options:
    """The options, or a sentence on one that does not exist."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in given:
        if name in _NEVER:
            raise FirnError(f"Elastic has no option '{name}': {_NEVER[name]}")
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = _MEANT.get(name) or (close[0] if close else "")
            more = f"; do you mean '{meant}'?" if meant else ""
            raise FirnError(f"Elastic has no option '{name}'{more}")
    options = Options(**given)
    for name, words in (
        ("on_stop", ("exit", "return")),
        ("scheduler_by", ("epoch", "step")),
        ("batch_at", ("step", "epoch")),
    ):
        if getattr(options, name) not in words:
            raise FirnError(
                f"{name} is {getattr(options, name)!r}, not "
                + " or ".join(repr(word) for word in words)
            )
    for name, least in (("epochs", 1), ("workers", 0), ("pool", 0), ("max_steps", 0)):
        if getattr(options, name) < least:
            raise FirnError(f"{name} is {getattr(options, name)}, less than {least}")
    return options


def check_model(model: Any) -> None:
    """A plain module, all of it here."""
    if not isinstance(model, nn.Module):
        raise FirnError(f"the model is a {type(model).__name__}, not an nn.Module")
    for name, module in model.named_modules():
        for kind in sorted(_bases(module) & _WRAPPERS.keys()):
            where = f"'{name}' of the model" if name else "the model"
            raise FirnError(
                f"{where} is wrapped in {kind}, but {_WRAPPERS[kind]}: "
                "give Elastic the module inside"
            )
    for name, p in model.named_parameters():
        if "UninitializedTensorMixin" in _bases(p):
            raise FirnError(f"parameter '{name}' has no shape yet: run a batch first")
        if "DTensor" in _bases(p):
            raise FirnError(
                f"parameter '{name}' is a DTensor, spread over processes: Elastic "
                "needs whole parameters in each process (firn.torch.parallel "
                "trains models that are spread)"
            )
        if p.device.type == "meta":
            raise FirnError(f"parameter '{name}' is on the meta device: it has no data")
        if p.requires_grad and p.is_complex():
            raise FirnError(f"parameter '{name}' is complex: its sums have no order")


def check_optimizer(optimizer: Any, model: nn.Module) -> None:
    """An optimiser of the model's parameters that takes one plain step."""
    kind = type(optimizer).__name__
    for name in sorted(_bases(optimizer) & _OPTIMIZERS.keys()):
        raise FirnError(f"the optimizer {kind} is not supported: {_OPTIMIZERS[name]}")
    for needed in ("step", "state_dict", "load_state_dict", "param_groups"):
        if not hasattr(optimizer, needed):
            raise FirnError(
                f"the optimizer is a {kind}, which has no {needed}: give a "
                "torch.optim.Optimizer"
            )
    held = [p for group in optimizer.param_groups for p in group["params"]]
    known = {id(p) for p in model.parameters()}
    foreign = sum(id(p) not in known for p in held)
    if foreign:
        raise FirnError(
            f"{foreign} of the {len(held)} tensors of the optimizer are not "
            "parameters of the model, so their gradients would not be summed: make "
            "the optimizer after the model is in its final form, and put modules "
            "that train together into one module"
        )


def check_layers(layers: Any, optimizer: Any) -> None:
    """Every parameter that is stepped is in a layer, hence in the sum."""
    inside = {id(p) for layer in layers for p in layer.params}
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad and id(p) not in inside:
                raise FirnError(
                    f"a parameter of shape {tuple(p.shape)} trains but is in no "
                    "layer of layers=, so its gradient would not be summed"
                )


def check_scheduler(scheduler: Any, optimizer: Any) -> None:
    """A scheduler that steps without being told a metric."""
    if scheduler is None:
        return
    kind = type(scheduler).__name__
    if "ReduceLROnPlateau" in _bases(scheduler):
        raise FirnError(
            "scheduler= cannot be ReduceLROnPlateau, whose step() needs a metric: "
            "step it in on_epoch= and keep it by also="
        )
    for needed in ("step", "state_dict", "load_state_dict"):
        if not callable(getattr(scheduler, needed, None)):
            raise FirnError(f"the scheduler is a {kind}, which has no {needed}()")
    own = getattr(scheduler, "optimizer", optimizer)
    if own is not optimizer:
        raise FirnError(f"the scheduler {kind} changes rates of another optimizer")


def check_dataset(dataset: Any) -> None:
    """Samples by number; streams are looked at by firn.torch.streams."""
    if isinstance(dataset, DataLoader):
        raise FirnError(
            "the third argument is a DataLoader: give its data set, and batch_size=, "
            "workers= and collate="
        )
    if isinstance(dataset, IterableDataset):
        return
    kind = type(dataset).__name__
    ways = ("__getitem__", "__getitems__")  # a sample, or a batch at a time
    missing = "" if hasattr(dataset, "__len__") else "__len__"
    if not any(callable(getattr(dataset, way, None)) for way in ways):
        missing = missing or "__getitem__ or __getitems__"
    if missing:
        raise FirnError(
            f"the data set is a {kind} without {missing}: threads draw samples by "
            "number; give a map-style data set, or an IterableDataset with a state"
        )
    if len(dataset) == 0:
        raise FirnError(f"the data set {kind} is empty")


def check_saved(job: "Elastic") -> None:
    """What cannot be put into a checkpoint is found before the first step."""
    o = job.options
    found = {"the optimizer": job.optimizer, "scheduler=": o.scheduler}
    found.update({f"also[{name!r}]": thing for name, thing in o.also.items()})
    for name, thing in found.items():
        if thing is None:
            continue
        for needed in ("state_dict", "load_state_dict"):
            if not callable(getattr(thing, needed, None)):
                raise FirnError(
                    f"{name} is a {type(thing).__name__}, which has no {needed}()"
                )
        if job.folder:
            pack(thing.state_dict(), name)


class Turns:
    """Watches that weights change in the step of the optimiser only."""

    def __init__(self, job: "Elastic") -> None:
        self._job = weakref.ref(job)
        self._versions = 0
        self._remove: Any = None
        self.is_update = False
        register = getattr(job.optimizer, "register_step_pre_hook", None)
        if register is not None:  # PyTorch 2.0 and later
            self._remove = register(self._before_step)

    def _before_step(self, *_: object) -> None:
        """The optimiser is about to step: is it Elastic's turn to?"""
        job = self._job()
        if job is not None and job._in_step and not self.is_update:
            raise FirnError(
                "optimizer.step() was called in the loop, before the gradients of all "
                "threads were summed: remove it (Elastic takes the step), or use "
                "update= to change gradients before the step"
            )

    def begin(self) -> None:
        """A turn begins."""
        self._versions = self._count()

    def _count(self) -> int:
        """Grows with every change of a parameter in place."""
        job = self._job()
        return sum(p._version for p in job.flat.params) if job is not None else 0

    def end(self) -> None:
        """A turn is over: the weights are as they were."""
        if self._count() != self._versions:
            raise FirnError(
                "weights changed during a turn of the loop: only the optimizer's step, "
                "which Elastic takes, may change them (look for a second optimizer, "
                "an embedding with max_norm, or weights clipped in the loop; update= "
                "is the place for it)"
            )

    def check_gradients(self) -> None:
        """After backward() at least one parameter has a gradient."""
        job = self._job()
        if job is None or job._nbackward == 0 or self._are_taken_early(job):
            return
        if all(p.grad is None for p in job.flat.live()):
            raise FirnError(
                "no parameter has a gradient after backward(): remove zero_grad() from "
                "the loop, or the loss does not depend on the model"
            )

    @staticmethod
    def _are_taken_early(job: "Elastic") -> bool:
        """A reducer may take gradients during the backward pass."""
        return bool(job.options.one_backward)

    def close(self) -> None:
        """The optimiser is the program's again."""
        if self._remove is not None:
            self._remove.remove()
            self._remove = None
