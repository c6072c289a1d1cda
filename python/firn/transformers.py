"""Elastic training with the Trainer of Hugging Face's transformers.

    from firn.transformers import elastic                  # 1
    trainer = elastic(Trainer(model=..., args=...), threads=4)   # 2
    trainer.train()

``trainer.train()`` then trains V threads on however many processes there are,
with the same bits for every number of processes and after stops. Everything
around the loop stays the library's: arguments, collator, optimiser, scheduler,
callbacks, logs, evaluation, saved models, PEFT.

Only ``_inner_training_loop`` is replaced, on this one object. In it

    a turn        ``trainer.training_step()`` on the batch of a thread
    a step        clipping by max_grad_norm, the optimiser, the scheduler
    a checkpoint  firn's, in FIRN_DIR or ``<output_dir>/firn``, with the state of
                  the Trainer and of its callbacks; the Trainer's own
                  ``checkpoint-N`` are written as usual, for other programs
    a resume      by itself, from firn's newest checkpoint

``gradient_accumulation_steps`` A means V = A times the number of processes, if
neither threads= nor FIRN_THREADS is given. The loss of a thread is the mean over
its own batch, and threads have equal weights, as in DDP: token counts are not
averaged across threads (``num_items_in_batch`` is None).

Where processes may join and leave while it trains (docs/resize.md), each process is
alone to the Trainer: process 0 writes logs and models, and each one evaluates on
the whole evaluation set.

What cannot hold is refused with a sentence: DeepSpeed, FSDP, DataParallel, a
loader of the program's own.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from typing import Any

import torch
from transformers import Trainer, TrainerState
from transformers.trainer_utils import TrainOutput

from firn import FirnError
from firn.group import complete_environment, is_hidden, number_of
from firn.torch import Elastic, loader
from firn.torch.driver import place_in_accelerate

try:
    from transformers.trainer_callback import ExportableState
except ImportError:  # before 4.43
    ExportableState = ()  # type: ignore[assignment,misc]

complete_environment()  # before TrainingArguments sets up torch.distributed


def elastic(trainer: Trainer, **options: Any) -> Trainer:
    """The same Trainer, whose train() is elastic; options as of Elastic."""
    if not isinstance(trainer, Trainer):
        raise FirnError(f"elastic() was given a {type(trainer).__name__}, no Trainer")
    _check(trainer)
    if is_hidden():
        place_in_accelerate(number_of("RANK", 0, 0, 4095))

    def loop(*_: Any, **given: Any) -> TrainOutput:
        return _Run(trainer, dict(options), given).train()

    trainer._inner_training_loop = loop  # type: ignore[method-assign]
    return trainer


def _check(trainer: Trainer) -> None:
    """What cannot be elastic is refused before anything is trained."""
    args = trainer.args
    refused = {
        "deepspeed": "DeepSpeed sums gradients itself",
        "fsdp": "FSDP shards parameters and sums gradients itself",
        "auto_find_batch_size": "the batch size is part of the job's bits",
    }
    for name, why in refused.items():
        if getattr(args, name, None):
            raise FirnError(f"TrainingArguments.{name} is set, but {why}")
    if args.n_gpu > 1:
        raise FirnError(
            f"this process sees {args.n_gpu} GPUs and would use DataParallel: start a "
            "process for each GPU (torchrun), or set CUDA_VISIBLE_DEVICES"
        )
    if type(trainer).get_train_dataloader is not Trainer.get_train_dataloader:
        raise FirnError(
            f"{type(trainer).__name__} has its own get_train_dataloader(), but threads "
            "draw their batches from train_dataset: give the data set and data_collator"
        )


def _threads_of(trainer: Trainer, options: dict) -> int:
    """V; the accumulation of gradients is done by threads."""
    asked = trainer.args.gradient_accumulation_steps
    given = options.get("threads") or number_of("FIRN_THREADS", 0, 1, 1 << 20)
    if not given:
        return asked * number_of("WORLD_SIZE", 1, 1, 4096)
    if asked > 1:
        raise FirnError(
            f"gradient_accumulation_steps is {asked} and the number of threads {given}: "
            "each thread accumulates one batch of a step, so set the former to 1"
        )
    return given


class _Saved:
    """The state of the Trainer and of its callbacks, for checkpoints."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def _stateful(self) -> list:
        """Callbacks that have a state; the control is one of them."""
        every = [*self._trainer.callback_handler.callbacks, self._trainer.control]
        return [thing for thing in every if isinstance(thing, ExportableState)]

    def state_dict(self) -> dict:
        state = dataclasses.asdict(self._trainer.state)
        state["stateful_callbacks"] = {
            type(thing).__name__: thing.state() for thing in self._stateful()
        }
        return {key: _plain(value) for key, value in state.items()}

    def load_state_dict(self, state: dict) -> None:
        known = {field.name for field in dataclasses.fields(TrainerState)}
        for key, value in state.items():
            if key in known and key != "stateful_callbacks":
                setattr(self._trainer.state, key, value)
        for thing in self._stateful():
            saved = state.get("stateful_callbacks", {}).get(type(thing).__name__)
            if saved:
                for key, value in saved.get("attributes", {}).items():
                    setattr(thing, key, value)
                if thing is self._trainer.control:
                    for key, value in saved.get("args", {}).items():
                        setattr(thing, key, value)


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python's; what JSON has, stays."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.item() if hasattr(value, "item") else str(value)


class _Run:
    """One call of train()."""

    def __init__(self, trainer: Trainer, options: dict, given: dict) -> None:
        self.trainer, self.args, self.options = trainer, trainer.args, options
        self.trial = given.get("trial")
        self.ignore_keys = given.get("ignore_keys_for_eval")
        if given.get("resume_from_checkpoint"):
            raise FirnError(
                "resume_from_checkpoint: an elastic job resumes by itself, from the "
                "newest checkpoint in FIRN_DIR or output_dir/firn; leave it out"
            )
        self.threads = _threads_of(trainer, options)
        self.grad_norm: Any = None
        self.learning_rate = 0.0
        self.logged_step = 0

    # --- opening -----------------------------------------------------------

    def _data(self) -> tuple[Any, Any, Any]:
        """Data set, collator and sampler as the Trainer would use them."""
        trainer = self.trainer
        data, collate = trainer.train_dataset, trainer.data_collator
        if data is None:
            raise FirnError("the Trainer has no train_dataset")
        if hasattr(data, "column_names") and hasattr(data, "remove_columns"):
            data = trainer._remove_unused_columns(data, description="training")
        else:
            collate = trainer._get_collator_with_removed_columns(collate, "training")
        sampler = None
        if not isinstance(data, torch.utils.data.IterableDataset):
            sampler = self._sampler(data)
        return data, collate, sampler

    def _sampler(self, data: Any) -> Any:
        """None: a random order; else the Trainer's own sampler."""
        try:
            sampler = self.trainer._get_train_sampler(data)
        except TypeError:  # 4.50 and before
            sampler = self.trainer._get_train_sampler()
        is_random = type(sampler) in (torch.utils.data.RandomSampler, type(None))
        return None if is_random else sampler

    def _steps(self, data: Any, sampler: Any) -> tuple[int, int, int]:
        """Steps of an epoch, epochs, and steps of the whole training."""
        args = self.args
        per_epoch = self.options.get("steps_per_epoch", 0)
        if not isinstance(data, torch.utils.data.IterableDataset):
            per_epoch = loader.Plan(
                data,
                self.threads,
                args.per_device_train_batch_size,
                drop_last=args.dataloader_drop_last,
                sampler=sampler,
            ).nbatches
        elif not per_epoch:
            if args.max_steps <= 0:
                raise FirnError("an IterableDataset needs max_steps")
            per_epoch = self.options["steps_per_epoch"] = args.max_steps
        total = args.max_steps
        if total <= 0:
            total = math.ceil(args.num_train_epochs * per_epoch)
        return per_epoch, max(1, -(-total // per_epoch)), total

    def _open(self) -> Elastic:
        """The job, resumed if there is a checkpoint."""
        trainer, args = self.trainer, self.args
        trainer.accelerator.free_memory()
        data, collate, sampler = self._data()
        per_epoch, epochs, total = self._steps(data, sampler)
        trainer.create_optimizer()
        if trainer._created_lr_scheduler:  # of an earlier call of train()
            trainer.lr_scheduler = None
        trainer.create_scheduler(num_training_steps=total)
        self.model = trainer.accelerator.prepare_model(
            trainer.model, device_placement=False, evaluation_mode=True
        )
        trainer.model_wrapped = self.model
        self.scaler = getattr(trainer.accelerator, "scaler", None)
        self._open_state(epochs, total)
        also = {"trainer": _Saved(trainer), **self.options.pop("also", {})}
        if self.scaler is not None:
            also["scaler"] = self.scaler
        folder = os.environ.get("FIRN_DIR") or os.path.join(args.output_dir, "firn")
        options = dict(
            batch_size=args.per_device_train_batch_size,
            epochs=epochs,
            max_steps=total,
            seed=args.seed,
            sampler_seed=args.data_seed if args.data_seed is not None else args.seed,
            sampler=sampler,
            drop_last=args.dataloader_drop_last,
            collate=collate,
            workers=args.dataloader_num_workers,
            scheduler=trainer.lr_scheduler,
            scheduler_by="step",
            update=self._update,
            folder=folder,
            on_epoch=self._epoch_end,
            on_step=self._step_end,
            also=also,
        )
        options.update(self.options, threads=self.threads)
        return Elastic(trainer.model, trainer.optimizer, data, **options)

    def _open_state(self, epochs: int, total: int) -> None:
        """A fresh TrainerState; a resume fills it in."""
        trainer, args = self.trainer, self.args
        state = trainer.state = TrainerState()
        state.max_steps, state.num_train_epochs = total, epochs
        state.is_local_process_zero = trainer.is_local_process_zero()
        state.is_world_process_zero = trainer.is_world_process_zero()
        state.train_batch_size = args.per_device_train_batch_size
        if hasattr(state, "compute_steps"):
            state.compute_steps(args, total)
        state.stateful_callbacks = {
            type(thing).__name__: thing.state()
            for thing in _Saved(trainer)._stateful()
        }
        handler = trainer.callback_handler
        handler.model, handler.optimizer = trainer.model, trainer.optimizer
        handler.lr_scheduler = trainer.lr_scheduler

    # --- the loop ------------------------------------------------------------

    def train(self) -> TrainOutput:
        """All steps that are left."""
        trainer, args = self.trainer, self.args
        kept = args.gradient_accumulation_steps
        args.gradient_accumulation_steps = 1  # threads do it
        trainer.accelerator.gradient_accumulation_steps = 1
        trainer.current_gradient_accumulation_steps = 1
        try:
            return self._train()
        finally:
            args.gradient_accumulation_steps = kept

    def _train(self) -> TrainOutput:
        """The elastic loop."""
        trainer = self.trainer
        self.job = job = self._open()
        self.window = job.losses_of("window")  # since the last log
        whole = job.losses_of("whole")
        job.after_resize.append(self._take_place)
        self._take_place(job)
        self.logged_step = first = job.step
        since = time.monotonic()
        handler = trainer.callback_handler
        self._control(handler.on_train_begin)
        with job:
            for batch in job:
                if job._inside == job.mine[0]:
                    if job._at_epoch():
                        self._control(handler.on_epoch_begin)
                    self._control(handler.on_step_begin)
                loss = trainer.training_step(self.model, batch, None)
                job.note_loss(loss)
                self.window.add(job._inside, loss, True)
                whole.add(job._inside, loss, True)
            mean = whole.mean(job)
        return self._finish(job.step - first, mean or 0.0, time.monotonic() - since)

    def _take_place(self, job: Elastic) -> None:
        """Process 0 alone writes logs and models; it may be another process after
        a resize."""
        if not is_hidden():
            return
        trainer, state = self.trainer, self.trainer.state
        place_in_accelerate(job.place.rank)
        state.is_local_process_zero = trainer.is_local_process_zero()
        state.is_world_process_zero = trainer.is_world_process_zero()

    def _control(self, event: Any) -> None:
        """Tells the callbacks of an event; they may change the control."""
        trainer = self.trainer
        trainer.control = event(self.args, trainer.state, trainer.control)

    def _update(self) -> None:
        """The mean gradients are there: clip them, and step."""
        trainer, handler = self.trainer, self.trainer.callback_handler
        optimizer = trainer.optimizer
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        if self.args.max_grad_norm:
            self.grad_norm = torch.nn.utils.clip_grad_norm_(
                trainer.model.parameters(), self.args.max_grad_norm
            )
        self.learning_rate = trainer._get_learning_rate()
        if hasattr(handler, "on_pre_optimizer_step"):
            self._control(handler.on_pre_optimizer_step)
        if self.scaler is not None:
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            optimizer.step()
        if hasattr(handler, "on_optimizer_step"):
            self._control(handler.on_optimizer_step)

    def _step_end(self, job: Elastic) -> None:
        """Between two steps: the Trainer's callbacks, in every process."""
        trainer = self.trainer
        trainer.state.global_step = job.step
        trainer.state.epoch = job.epochs_done
        if job.freezer.batch:  # another batch: other steps
            extra = job.step - job.ordinary
            trainer.state.max_steps = job.total_steps + extra
        self._control(trainer.callback_handler.on_step_end)
        self._log_evaluate_save(job)

    def _epoch_end(self, job: Elastic) -> None:
        """After the last step of an epoch."""
        self._control(self.trainer.callback_handler.on_epoch_end)
        self._log_evaluate_save(job)

    def _log_evaluate_save(self, job: Elastic) -> None:
        """What the callbacks asked for; the same in every process."""
        trainer, control = self.trainer, self.trainer.control
        if control.should_log and job.step > self.logged_step:
            self._log(job)
        if control.should_evaluate:
            self._evaluate(job)
        if trainer.control.should_save:
            self._save(job)
        if trainer.control.should_training_stop:
            job.finish()

    def _log(self, job: Elastic) -> None:
        """The mean loss since the last log, over all threads."""
        logs = {"loss": self.window.mean(job) or 0.0}
        self.window.reset()
        if self.grad_norm is not None:
            logs["grad_norm"] = float(self.grad_norm)
        logs["learning_rate"] = self.learning_rate
        self.logged_step = job.step
        self.trainer.log(logs)

    def _evaluate(self, job: Elastic) -> None:
        """No thread's generators or buffers change."""
        trainer = self.trainer
        with job.evaluating():
            metrics = trainer.evaluate(ignore_keys=self.ignore_keys)
        if hasattr(trainer, "_determine_best_metric"):
            is_best = trainer._determine_best_metric(metrics=metrics, trial=self.trial)
            if getattr(self.args.save_strategy, "value", "") == "best":
                trainer.control.should_save = is_best

    def _save(self, job: Elastic) -> None:
        """The Trainer's own checkpoint-N, and firn's."""
        trainer = self.trainer
        trainer._save_checkpoint(trainer.model, self.trial)
        self._control(trainer.callback_handler.on_save)
        job.save()

    # --- the end -------------------------------------------------------------

    def _finish(self, nsteps: int, loss: float, seconds: float) -> TrainOutput:
        """The Trainer's log of the end, and the best model if it is wanted."""
        trainer = self.trainer
        metrics = {
            "train_runtime": round(seconds, 4),
            "train_steps_per_second": round(nsteps / max(seconds, 1e-9), 3),
            "train_loss": loss,
        }
        trainer.log(dict(metrics))
        best = trainer.state.best_model_checkpoint
        if self.args.load_best_model_at_end and best is not None:
            trainer._load_best_model()
        self._control(trainer.callback_handler.on_train_end)
        trainer.is_in_train = False
        return TrainOutput(trainer.state.global_step, loss, metrics)
