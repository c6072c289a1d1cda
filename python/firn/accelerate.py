"""Elastic training in a loop of Hugging Face's Accelerate.

    from firn.accelerate import Accelerator                         # 1
    accelerator = Accelerator(threads=4, epochs=3)                   # 2
    model, optimizer, loader, scheduler = accelerator.prepare(...)
    for epoch in range(3):
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

The loop stays as it is. ``prepare()`` with a model, its optimiser and the
training loader opens an elastic job; a batch is that of one thread, and

    optimizer.step()      ends the turn; after the last thread of this process the
                          gradients are summed, clipped and the step is taken
    clip_grad_norm_()     is done on the mean gradients, before the step; it
                          returns the norm of the step before
    scheduler.step()      steps once for each step of the optimiser (in the loop),
                          or once for each epoch (after the loop); in the loop it
                          counts steps of the submitted batch, also where the
                          scheduler ordered another one
    zero_grad()           does nothing: gradients are None when a turn begins
    sync_gradients        is True in the turn that a step follows

Where processes may join and leave while it trains (docs/resize.md), each process is
alone to Accelerate: process 0 is the main process, and a loader that is prepared for
an evaluation gives the whole data set to each.

A resumed job gives no batches in epochs that are done. Checkpoints are firn's
(FIRN_DIR, or folder=); ``end_training()`` closes the job. What is drawn between a
step and the next batch, for an evaluation say, changes no bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Iterator

import accelerate
import torch
from torch.utils.data import DataLoader

from firn import FirnError
from firn.group import complete_environment, is_hidden, number_of
from firn.torch.driver import Driver, options_of_loader, place_in_accelerate
from firn.torch.elastic import Elastic
from firn.torch.options import Options

complete_environment()  # before Accelerate sets up torch.distributed


class _Batches:
    """The training loader: each iteration is an epoch."""

    def __init__(self, owner: "Accelerator", stock: DataLoader) -> None:
        self._owner, self.stock = owner, stock
        self.dataset = stock.dataset

    def __len__(self) -> int:
        """Turns of this process in an epoch."""
        job = self._owner.elastic
        return job.steps_per_epoch * len(job.mine)

    def __iter__(self) -> Iterator[Any]:
        owner = self._owner
        for batch in owner._driver.epoch():
            owner.gradient_state.sync_gradients = owner._driver.is_last_turn
            owner._stepped, owner._in_loop = False, True
            yield accelerate.utils.send_to_device(batch, owner.device)
        owner._in_loop = False


class _Optimizer:
    """Steps when the gradients of all threads are there."""

    def __init__(self, owner: "Accelerator", stock: torch.optim.Optimizer) -> None:
        self._owner, self.optimizer = owner, stock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    def step(self, closure: Any = None) -> None:
        """Ends the turn."""
        if closure is not None:
            raise FirnError("optimizer.step() with a closure is not elastic")
        self._owner._stepped = self._owner._driver.end_turn()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients are None when a turn begins."""


class _Scheduler:
    """Steps with the optimiser, or once for an epoch."""

    def __init__(self, owner: "Accelerator", stock: Any) -> None:
        self._owner, self.scheduler = owner, stock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scheduler, name)

    def step(self, *given: Any, **named: Any) -> None:
        """In the loop: if the optimiser has stepped. After it: if the epoch was
        trained now, and not before a stop."""
        owner = self._owner
        if owner._in_loop:
            times = owner.elastic.rate_steps if owner._stepped else 0
        else:
            times = int(not owner._driver.is_skipped)
        for _ in range(times):
            self.scheduler.step(*given, **named)


class Accelerator(accelerate.Accelerator):
    """accelerate.Accelerator whose training loop is elastic. Takes the options
    of firn's Elastic beside its own."""

    def __init__(self, *given: Any, **options: Any) -> None:
        names = {field.name for field in dataclasses.fields(Options)}
        self._options = {k: options.pop(k) for k in list(options) if k in names}
        super().__init__(*given, **options)
        if is_hidden():
            place_in_accelerate(number_of("RANK", 0, 0, 4095))
        kinds = accelerate.DistributedType
        if self.distributed_type in (kinds.DEEPSPEED, kinds.FSDP, kinds.MEGATRON_LM):
            raise FirnError(f"{self.distributed_type} shards or sums by itself")
        self._driver: Any = None
        self._in_loop = self._stepped = False
        self._max_norm: float | None = None
        self._clipped: Any = ()
        self._norm = torch.tensor(float("nan"))
        self._count_threads()

    def _count_threads(self) -> None:
        """The accumulation of gradients is done by threads."""
        asked, self.gradient_accumulation_steps = self.gradient_accumulation_steps, 1
        given = self._options.get("threads")
        given = given or number_of("FIRN_THREADS", 0, 1, 1 << 20)
        if given and asked > 1:
            raise FirnError(
                f"gradient_accumulation_steps is {asked} and the number of threads "
                f"{given}: each thread accumulates one batch of a step, so set the "
                "former to 1"
            )
        processes = number_of("WORLD_SIZE", 1, 1, 4096)
        self._options["threads"] = given or asked * processes

    @property
    def elastic(self) -> Elastic:
        """The elastic job."""
        if self._driver is None:
            raise FirnError("there is no elastic job before prepare()")
        return self._driver.job

    def prepare(self, *things: Any, **more: Any) -> Any:
        """With an optimiser: opens the elastic job. Else as Accelerate's."""
        optimizers = [t for t in things if isinstance(t, torch.optim.Optimizer)]
        if not optimizers:
            return super().prepare(*things, **more)
        models = [t for t in things if isinstance(t, torch.nn.Module)]
        loaders = [t for t in things if isinstance(t, DataLoader)]
        if len(optimizers) != 1 or len(models) != 1 or not loaders:
            raise FirnError(
                f"prepare() was given {len(models)} models, {len(optimizers)} "
                f"optimizers and {len(loaders)} loaders: an elastic job needs one "
                "model, its optimizer and the training loader in one call"
            )
        if self._driver is not None:
            raise FirnError("prepare() was called twice with an optimizer")
        prepared: dict[int, Any] = {}
        for thing in things:
            if thing is models[0]:
                prepared[id(thing)] = self.prepare_model(thing, evaluation_mode=True)
            elif thing is optimizers[0]:
                prepared[id(thing)] = _Optimizer(self, thing)
            elif thing is loaders[0]:
                prepared[id(thing)] = _Batches(self, thing)
            elif isinstance(thing, DataLoader):
                prepared[id(thing)] = super().prepare(thing)
            elif hasattr(thing, "step") and hasattr(thing, "state_dict"):
                prepared[id(thing)] = _Scheduler(self, thing)
            else:
                prepared[id(thing)] = thing
        self._open(models[0], optimizers[0], loaders[0], things)
        found = tuple(prepared[id(thing)] for thing in things)
        return found if len(found) > 1 else found[0]

    def _open(self, model: Any, optimizer: Any, loader: Any, things: tuple) -> None:
        """The job; it resumes here."""
        also = dict(self._options.pop("also", {}))
        known = (model, optimizer)
        others = [t for t in things if hasattr(t, "state_dict") and t not in known]
        others = [t for t in others if not isinstance(t, DataLoader)]
        for i, thing in enumerate([*others, *self._custom_objects]):
            also[f"prepared{i}"] = thing
        if self.scaler is not None:
            also["scaler"] = self.scaler
        options = {**options_of_loader(loader), **self._options}
        job = Elastic(
            model, optimizer, loader.dataset, update=self._update, also=also, **options
        )
        if is_hidden():
            job.after_resize.append(lambda j: place_in_accelerate(j.place.rank))
        self._driver = Driver(job)

    @contextlib.contextmanager
    def accumulate(self, *models: Any) -> Iterator[None]:
        """Threads accumulate: sync_gradients was set with the batch."""
        yield

    def backward(self, loss: torch.Tensor, **more: Any) -> None:
        """The backward pass of a thread."""
        super().backward(loss, **more)
        if self._driver is not None and self._in_loop:
            self._driver.job.note_loss(loss)

    def clip_grad_norm_(
        self, parameters: Any, max_norm: float, norm_type: float = 2
    ) -> torch.Tensor:
        """Noted for the next step; returns the norm of the step before."""
        self._clipped = list(parameters)
        self._max_norm, self._norm_type = float(max_norm), norm_type
        return self._norm

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Not elastic as it is: each thread's gradients would be clipped."""
        raise FirnError("clip_grad_value_() is not supported: use clip_grad_norm_()")

    def _update(self) -> None:
        """The mean gradients are there."""
        optimizer = self._driver.job.optimizer
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        if self._max_norm is not None:
            self._norm = torch.nn.utils.clip_grad_norm_(
                self._clipped, self._max_norm, self._norm_type
            )
            self._max_norm = None
        if self.scaler is not None:
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            optimizer.step()

    def load_state(self, *_: Any, **__: Any) -> None:
        """Refused: an elastic job resumes in prepare()."""
        raise FirnError(
            "load_state(): an elastic job resumes by itself in prepare(), from the "
            "newest checkpoint in FIRN_DIR or folder="
        )

    def end_training(self) -> None:
        """Closes the job."""
        if self._driver is not None:
            self._driver.close()
        super().end_training()
