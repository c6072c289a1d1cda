"""Elastic training with the Trainer of Lightning.

    from firn.lightning import ElasticStrategy                               # 1
    trainer = Trainer(strategy=ElasticStrategy(threads=4), max_epochs=3)     # 2
    trainer.fit(module, loader, validation_loader)

A batch of ``training_step()`` is that of one thread. Lightning accumulates over
the threads of this process; where it would step the optimiser, the gradients of
all threads of all processes are summed in order, clipped, and the step is taken.
``trainer.global_step`` counts steps, on any number of processes.

To Lightning every process is alone (world size 1), so each of them validates on
the whole validation set and has the same metrics; only process 0 writes logs and
Lightning's own checkpoints. A job resumes by itself from firn's checkpoint
(FIRN_DIR or folder=): epoch, step, rates and the state of callbacks are set.

How it hangs in Lightning (2.2 and later):

    process_dataloader()   replaces the training loader; the job is opened there
    backward()             Lightning has divided the loss by the n threads of this
                           process; a gradient of n at its root undoes that
                           exactly, for n / n is 1
    optimizer_step()       ends the turn of the last thread; the precision plugin
                           clips and steps when the sum is there

What cannot hold is refused with a sentence: manual optimisation, several
optimisers, limit_train_batches, accumulate_grad_batches, no max_epochs. Training
metrics (``self.log`` in training_step) are those of this process's threads: let
EarlyStopping and ReduceLROnPlateau monitor validation metrics only.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch
from torch import Tensor

try:
    import lightning.pytorch as pl
    from lightning.pytorch.strategies import SingleDeviceStrategy
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    import pytorch_lightning as pl  # type: ignore[no-redef]
    from pytorch_lightning.strategies import SingleDeviceStrategy  # type: ignore
    from pytorch_lightning.utilities import rank_zero_only  # type: ignore

from firn import FirnError
from firn.group import number_of
from firn.torch.driver import Driver, options_of_loader
from firn.torch.elastic import Elastic


def _own_device() -> torch.device:
    """This process's GPU, or the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", number_of("LOCAL_RANK", 0, 0, 4095))
    return torch.device("cpu")


class _Batches:
    """The training loader: each iteration is an epoch."""

    def __init__(self, driver: Driver, stock: Any) -> None:
        self._driver, self.stock = driver, stock
        self.dataset, self.batch_size = stock.dataset, stock.batch_size

    def __len__(self) -> int:
        """Turns of this process that are left in the epoch."""
        job = self._driver.job
        if job.done:
            return 0
        left = job.course.left(job.ordinary)
        return min(left, job.total_steps - job.ordinary) * len(job.mine)

    def look_ahead(self) -> None:
        """Orders are obeyed before the length is asked for."""
        self._driver.look_ahead()

    def __iter__(self) -> Iterator[Any]:
        return self._driver.epoch()


class _Callbacks:
    """The state of Lightning's callbacks, for checkpoints."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict:
        every = self._trainer.callbacks
        return {c.state_key: c.state_dict() for c in every if c.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        for callback in self._trainer.callbacks:
            if callback.state_key in state:
                callback.load_state_dict(state[callback.state_key])


class _Epochs(pl.Callback):
    """Tells Lightning how long the epoch is, which is shorter after a resume."""

    def __init__(self, batches: _Batches) -> None:
        self._batches = batches

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._batches.look_ahead()
        loop, n = trainer.fit_loop, len(self._batches)
        loop._combined_loader.limits = [n]
        loop.max_batches = n
        if isinstance(trainer.val_check_interval, float):
            trainer.val_check_batch = max(1, int(n * trainer.val_check_interval))


class ElasticStrategy(SingleDeviceStrategy):
    """V threads on P processes; the options are those of Elastic."""

    strategy_name = "firn_elastic"

    def __init__(self, device: Any = None, **options: Any) -> None:
        super().__init__(device=device or _own_device())
        self._options = options
        self._driver: Any = None
        self._loss: Any = None
        self._undo: Any = None
        self.global_rank = number_of("RANK", 0, 0, 1 << 20)
        self.local_rank = number_of("LOCAL_RANK", 0, 0, 4095)

    @property
    def is_global_zero(self) -> bool:
        """Process 0 writes logs and models."""
        return self.global_rank == 0

    @property
    def elastic(self) -> Elastic:
        """The elastic job."""
        if self._driver is None:
            raise FirnError("there is no elastic job before fit()")
        return self._driver.job

    # --- opening -------------------------------------------------------------

    def process_dataloader(self, dataloader: Any) -> Any:
        """The training loader opens the job; others stay."""
        trainer = self.lightning_module.trainer
        if not trainer.training or self._driver is not None:
            return dataloader
        self._check(trainer)
        self._driver = Driver(self._open(trainer, dataloader))
        self._driver._nepochs = self.elastic.epoch
        trainer.accumulate_grad_batches = len(self.elastic.mine)
        batches = _Batches(self._driver, dataloader)
        trainer.callbacks.insert(0, _Epochs(batches))
        self.elastic.after_resize.append(lambda _: self._resized(trainer, batches))
        return batches

    def _resized(self, trainer: Any, batches: _Batches) -> None:
        """In the middle of an epoch this process has other threads, hence another
        number of turns; process 0 may be another process."""
        self.global_rank = rank_zero_only.rank = self.elastic.place.rank
        trainer.accumulate_grad_batches = len(self.elastic.mine)
        loop = trainer.fit_loop
        fetcher = loop._data_fetcher
        if fetcher is None or fetcher.length is None:
            return  # between two epochs: the next one begins with its own length
        n = fetcher.fetched + len(batches)
        fetcher.length = loop.max_batches = n
        loop._combined_loader.limits = [n]

    def _check(self, trainer: Any) -> None:
        """What cannot be elastic."""
        if not self.lightning_module.automatic_optimization:
            raise FirnError("manual optimisation: use firn.torch.Elastic in a plain loop")
        if len(self.optimizers) != 1:
            raise FirnError(f"{len(self.optimizers)} optimizers: an elastic job has one")
        if trainer.accumulate_grad_batches != 1:
            raise FirnError(
                f"accumulate_grad_batches is {trainer.accumulate_grad_batches}: each "
                "thread accumulates one batch of a step, so use more threads instead"
            )
        if trainer.limit_train_batches != 1.0 or trainer.overfit_batches:
            raise FirnError("limit_train_batches and overfit_batches are not supported")
        if trainer.reload_dataloaders_every_n_epochs:
            raise FirnError("reload_dataloaders_every_n_epochs is not supported")
        if trainer.max_epochs is None or trainer.max_epochs < 1:
            raise FirnError("an elastic job needs max_epochs")

    def _open(self, trainer: Any, dataloader: Any) -> Elastic:
        """The job, resumed if there is a checkpoint."""
        schedulers = [config.scheduler for config in self.lr_scheduler_configs]
        also = {"callbacks": _Callbacks(trainer), **self._options.pop("also", {})}
        also.update({f"scheduler{i}": s for i, s in enumerate(schedulers)})
        scaler = getattr(self.precision_plugin, "scaler", None)
        if scaler is not None:
            also["scaler"] = scaler
        options = dict(
            epochs=trainer.max_epochs,
            max_steps=max(0, trainer.max_steps),
            batch_at="epoch",  # Lightning has to know the length of an epoch
            batch_orders=self._follow_rates(),
            update=self._update,
            also=also,
            **options_of_loader(dataloader),
        )
        options.update(self._options)
        return Elastic(
            self.lightning_module, self.optimizers[0], dataloader.dataset, **options
        )

    def _follow_rates(self) -> bool:
        """Schedulers that step by steps follow the samples: Lightning steps them
        once after each step of the optimiser, whatever its batch. False: one of
        them has a frequency above 1 and cannot follow."""
        by_steps = [c for c in self.lr_scheduler_configs if c.interval == "step"]
        if any(config.frequency != 1 for config in by_steps):
            return False
        module, known = self.lightning_module, [id(c.scheduler) for c in by_steps]
        stock = module.lr_scheduler_step

        def step(scheduler: Any, metric: Any) -> None:
            by_step = id(scheduler) in known
            for _ in range(self.elastic.rate_steps if by_step else 1):
                stock(scheduler, metric)

        module.lr_scheduler_step = step
        self._undo = lambda: delattr(module, "lr_scheduler_step")
        return True

    def on_train_start(self) -> None:
        """Lightning's counters are those of the job that was resumed."""
        job, loop = self.elastic, self.lightning_module.trainer.fit_loop
        for counts in (loop.epoch_progress.current, loop.epoch_progress.total):
            counts.ready = counts.started = counts.processed = job.epoch
            counts.completed = job.epoch
        steps = loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step
        steps.total.ready = steps.total.completed = job.step
        loop.epoch_loop._batches_that_stepped = job.step
        # A step follows the last turn, however many turns there were before it.
        driver = self._driver
        loop.epoch_loop._accumulated_batches_reached = lambda: (
            driver.is_last_turn or not driver.job._in_step
        )

    # --- a turn --------------------------------------------------------------

    def backward(
        self, closure_loss: Tensor, optimizer: Any, *given: Any, **named: Any
    ) -> Tensor:
        """The backward pass of a thread, of the loss as the module gave it."""
        n = len(self.elastic.mine)
        named.setdefault("gradient", torch.full_like(closure_loss, float(n)))
        loss = super().backward(closure_loss, optimizer, *given, **named)
        self.elastic.note_loss(closure_loss.detach() * n)
        return loss

    def optimizer_step(
        self, optimizer: Any, closure: Any, model: Any = None, **named: Any
    ) -> Any:
        """The turn of the last thread here; the step is taken at its end."""
        self._loss = closure()
        self._driver.end_turn()
        return self._loss

    def _update(self) -> None:
        """The mean gradients are there: hooks, clipping, the step."""
        self.precision_plugin.optimizer_step(
            self.optimizers[0], model=self.lightning_module, closure=lambda: self._loss
        )

    # --- the end ---------------------------------------------------------------

    def on_train_end(self) -> None:
        """The last checkpoint; early stopping ends the job too."""
        if not self.elastic.done:
            self.elastic.finish()
        self._driver.finish()

    def teardown(self) -> None:
        """Frees the job."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        if self._undo is not None:
            self._undo()
            self._undo = None
        super().teardown()
