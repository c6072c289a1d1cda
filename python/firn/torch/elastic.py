"""V virtual ranks on P processes: one training run, the same bits for every P.

    elastic = Elastic(model, optimizer, dataset, threads=4, batch_size=32, epochs=3)
    for x, y in elastic:
        loss = loss_fn(model(x), y)
        elastic.backward(loss)

Each turn of the loop is the forward and backward pass of one thread (a virtual
rank) on its batch. When all threads of the process had theirs, the gradients of
all threads of all processes are summed in a fixed order (firn.tree) and divided
by V, and the optimiser takes a step: what DDP on V processes with
``fixed_order_hook`` computes, on however many processes there are.

A thread's own state is put in place before its turn and taken out after it:
random generators (torch, CUDA, numpy, Python), the module's buffers, its place
in the data. Parameters and optimiser are shared. Gradients are None at the
start of every turn.

At each boundary between two steps the job may be checkpointed and stopped
(SIGUSR1, or the scheduler's order): the process then ends with status 83 and
goes on from there when started again, on any number of processes.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from dataclasses import replace
from typing import Any, Iterator

import torch
from torch import nn

from firn import EXIT_CHECKPOINT, FirnError, ahead, tree
from firn._lib import STEP_PARTS, lib
from firn.group import Place, amount_of, number_of
from firn.join import Join
from firn.report import Reporter
from firn.torch import guards, hashing, joining, preparing, reduce, states, streams
from firn.torch import sums
from firn.torch.after import begin_after
from firn.torch.batching import Batches
from firn.torch.buffers import Buffers
from firn.torch.deciding import Decides
from firn.torch.freeze import Freezing, Options as FreezeOptions, layers_of
from firn.torch.loader import Inline, Plan, Shared
from firn.torch.losses import Losses
from firn.torch.probe import Probe
from firn.torch.saving import resume, save


def keep_to_share(device: torch.device) -> float | None:
    """On a GPU that is shared (FIRN_MEM_SHARE) the allocator takes its part of
    the memory at most: a job that wants more runs out of memory by itself, and
    not its neighbour. The part, or None without FIRN_MEM_SHARE."""
    word = os.environ.get("FIRN_MEM_SHARE", "")
    try:
        share = float(word)
    except ValueError:
        return None
    if not 0 < share <= 1:
        return None
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(share, device)
    return share


def device_load(device: torch.device) -> tuple[float, float]:
    """Memory in MiB and utilisation of a GPU, for reports; -1: not known, as
    without CUDA, or without the library that torch asks for utilisation."""
    if device.type != "cuda":
        return -1.0, -1.0
    memory = torch.cuda.max_memory_reserved(device) / 2**20
    try:
        return memory, torch.cuda.utilization(device) / 100
    except (ImportError, AttributeError, RuntimeError):
        return memory, -1.0


class Elastic(Decides, Batches):
    """One process's part of an elastic job."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        dataset: Any,
        **options: Any,
    ) -> None:
        self.options = o = guards.options_of(options)
        if "FIRN_GATE" in os.environ:  # started early, and has not waited yet
            ahead.wait()
        guards.check_model(model)
        guards.check_optimizer(optimizer, model)
        guards.check_scheduler(o.scheduler, optimizer)
        guards.check_dataset(dataset)
        self.model, self.optimizer = model, optimizer
        self.place = Place.of_environment(o.threads, o.layout, o.partner)
        self.name = self.place.job
        self.folder = o.folder or self._folder_of_job()
        self._every_s = amount_of("FIRN_CKPT_EVERY_S", 1e9)
        self._saved_s = time.monotonic()
        self.device = next(model.parameters()).device
        keep_to_share(self.device)
        self.step = self.ordinary = self._due = 0
        self.message = ""
        self.stopped = self.left = False
        self.loss = 0.0
        self.epoch_loss: float | None = None
        self._open_target()
        self.variance: list[float] | None = None
        self._inside = -1
        self._decided_at = 0
        self._decided = False
        self._ahead: bool | None = None  # what look_ahead() found
        self.nswitches = 0
        self._looks = self._in_step = self._in_turn = False
        self._is_outside = False
        self._used: set[str] = set()
        self._said_can = False
        self._said_parts: dict[str, float] = {}
        self._reset_times()
        self._clear_turn()
        self._resizes = False
        self.preparing: preparing.Preparing | None = None
        self.named_losses: dict[str, Losses] = {}  # losses_of()
        self.rows_came: dict[str, dict[int, list]] = {}
        self.after_resize: list[Any] = []  # called with this job, between two steps
        self.closing: threading.Thread | None = None  # of what a resize left
        self.switch_parts: dict[str, float] = {}  # seconds of the last resize
        self._open_layers()
        self._open_group()
        self._open_data(dataset)
        self._open_batches()
        self._open_threads()
        guards.check_saved(self)
        self._open_join()
        if self.join is not None and self.join.is_new:
            joining.join_running(self)
            self.resumed = True
        else:
            self.resumed = bool(o.resume and self.folder and resume(self))
        self.began_with = ""
        if not self.resumed and o.partner is None:
            begin_after(self)
        embeds = None if o.one_backward else o.embeds
        named = model.named_parameters()
        self.probe = Probe([p for n, p in named if embeds is not None and embeds(n)])
        if self.resumed or self.began_with:
            self.probe.stop()
        self._prepared_s = 0.0
        self.freezing.apply()
        self.watch = guards.Turns(self)

    # --- opening ---------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of gradients that this process handed over so far, by whichever
        way they go."""
        return int(getattr(self.reducer, "nbytes", self.group.nbytes))

    def _open_join(self) -> None:
        """Processes may come and go between two steps, where the launcher can
        start and end them (FIRN_JOIN)."""
        self.join = Join.open()
        if self.join is None or joining.why_not(self) is None:
            if self.join is not None:
                self.join.prepares()
                self.join.able()
        elif not self.join.is_new:
            self.join.close()
            self.join = None

    def _folder_of_job(self) -> str | None:
        """Where the scheduler wants the checkpoints."""
        partner = self.options.partner
        if partner is not None:
            return partner.folder or None
        return os.environ.get("FIRN_DIR") or None

    def _open_target(self) -> None:
        """The metric that ends the training; what was measured of it."""
        partner = self.options.partner
        self.target = (
            partner.target_metric
            if partner is not None
            else amount_of("FIRN_TARGET_METRIC", 1e12)
        )
        self.metric = -1.0
        self.finished = False
        self.both = (-1, -1)  # steps of a job and its partner (partners.py)
        self.paired = False
        self.nsaves = 0
        self._stop_now = False
        self._reported = 0  # at which step
        self._clocked = (time.monotonic(), 0)  # steps are timed since, and from which
        self._apart_s = 0.0  # of that: not for steps
        self._said_step_s = -1.0

    def _open_layers(self) -> None:
        """Layers, the flat gradient, the freezer."""
        o = self.options
        self.layers = list(o.layers) if o.layers is not None else layers_of(self.model)
        guards.check_layers(self.layers, self.optimizer)
        self.flat = reduce.Flat([layer.params for layer in self.layers])
        rule = o.freeze if o.freeze is not None else os.environ.get("FIRN_FREEZE")
        if not isinstance(rule, FreezeOptions):
            rule = FreezeOptions(rule=rule or "off")
        most = amount_of("FIRN_FREEZE_MAX", 1)
        if o.partner is not None:
            most = o.partner.frozen_max
        if most > 0 and not 0 < rule.frozen_max < most:
            rule = replace(rule, frozen_max=most)
        self.freezing = Freezing(self.layers, self.flat, rule, self.place.nthreads)
        if o.replay:
            if self.place.rank == 0:
                self.freezing.freezer.replay(o.replay)
            self.freezing.decides = True
        self.freezer = self.freezing.freezer
        self.passes_wanted = number_of("FIRN_PASSES", 1, 1, 1 << 20)
        self.frozen_wanted = number_of("FIRN_FROZEN", -1, 0, 1 << 20)
        if self.freezer.rule == "off":
            self.frozen_wanted = -1

    def _open_group(self) -> None:
        """The other processes, the way of gradients, one set of weights."""
        o, place, flat = self.options, self.place, self.flat
        self.join: Join | None = None
        if joining.is_joiner():
            self._await_group()
            return
        self.group, self.reducer, self.sums = sums.open_sums(o, place, flat)
        if "sum" in o.ablate:
            self.reducer = reduce.ByProcess(flat, place, self.reducer)
        self.reporter = Reporter(place.rank == 0, o.partner)
        heard = place.rank == 0 and bool(os.environ.get("FIRN_URL"))
        if self.group.max(heard):
            self.freezing.measures = True  # the scheduler wants variances
        self._share_model()

    def _await_group(self) -> None:
        """A process that joins: its group is formed when all is ready."""
        o, place = self.options, self.place
        self.sums = sums.Sums(sums.word_of(o.sum, "FIRN_SUM", tree.ORDERS))
        self.group = joining.Waiting()
        self.reducer = reduce.Running(self.flat, place.nthreads, self.sums.order)
        self.reporter = Reporter(place.rank == 0, o.partner)

    def _share_model(self) -> None:
        """Process 0's parameters and buffers in all, as DDP does."""
        if self.place.nprocs == 1:
            return
        tensors = list(self.model.parameters()) + list(self.model.buffers())
        self.bcast_all([tensor.data for tensor in tensors])

    def bcast_all(self, tensors: "list[torch.Tensor]", root: int = 0) -> None:
        """Tensors of process ``root`` into those of all others; on the device
        where gradients stay there too."""
        if isinstance(self.reducer, sums.Exchange):
            self.reducer.bcast(tensors, root)
            return
        for tensor in tensors:
            self.bcast(tensor, root)

    def bcast(self, tensor: torch.Tensor, root: int = 0) -> None:
        """A tensor of process ``root`` into that of all others."""
        if self.place.nprocs == 1 or tensor.numel() == 0:
            return
        host = tensor.detach().cpu().contiguous()
        nbytes = host.numel() * host.element_size()
        self.group.bcast_at(host.data_ptr(), nbytes, root)
        if host.data_ptr() != tensor.data_ptr():
            tensor.copy_(host)

    def _open_data(self, dataset: Any) -> None:
        """The samples of each thread."""
        o, place = self.options, self.place
        by = place.nprocs if "sampler" in o.ablate else place.nthreads
        if isinstance(dataset, torch.utils.data.IterableDataset):
            self._open_stream(dataset)
            return
        if o.steps_per_epoch:
            raise FirnError("steps_per_epoch= is for an IterableDataset only")
        self.plan: Any = Plan(
            dataset,
            by,
            o.batch_size,
            shuffle=o.shuffle,
            drop_last=o.drop_last,
            seed=o.sampler_seed,
            sampler=o.sampler,
        )
        if o.workers == 0:
            self.source: Any = Inline(dataset, self.plan, o.collate)
        else:
            self.source = Shared(
                dataset,
                self.plan,
                place.mine,
                workers=o.workers,
                pool=o.pool,
                collate=o.collate,
            )
        self.steps_per_epoch = self.plan.nbatches

    def _open_stream(self, dataset: Any) -> None:
        """A stream for each thread."""
        o, place = self.options, self.place
        streams.check(dataset, o)
        self.plan = streams.Plan(o.batch_size, o.steps_per_epoch)
        self.source = streams.Streams(
            dataset, self.plan, place.nthreads, place.mine, o.collate
        )
        self.steps_per_epoch = o.steps_per_epoch

    def _open_threads(self) -> None:
        """The contexts of this process's threads, all fresh."""
        o = self.options
        self.mine = self.place.mine
        self.buffers = Buffers(self.model, self.mine, o.shared_buffers)
        self.losses, self._recent = Losses(self.mine), Losses(self.mine)
        self.rng: dict[int, states.States] = {}
        self._outside = states.take(self._cuda_device())
        for thread in self.mine:
            states.seed(o.seed + thread)
            self.rng[thread] = states.take(self._cuda_device())
        states.give(self._outside, self._cuda_device())

    def _cuda_device(self) -> torch.device | None:
        """The device whose generator belongs to a thread."""
        return self.device if self.device.type == "cuda" else None

    # --- switching threads -------------------------------------------------

    def _enter(self, thread: int) -> None:
        """Puts a thread in place; takes out the one that is in place."""
        if self._inside == thread:
            return
        since = time.perf_counter()
        self._leave()
        if "rng" not in self.options.ablate:
            states.give(self.rng[thread], self._cuda_device())
        if "buffers" not in self.options.ablate:
            self.buffers.enter(thread)
        self._inside = thread
        self._spent("switch", since)
        self.nswitches += 1

    def _leave(self) -> None:
        """Takes out the thread that is in place."""
        if self._inside >= 0 and "rng" not in self.options.ablate:
            self.rng[self._inside] = states.take(self._cuda_device())
        self._inside = -1

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Between two steps: no thread's generators are in place, the buffers
        are those of this process's first thread (thread 0's in its process).
        What is drawn here changes no bits of the training."""
        if self._is_outside:
            yield
            return
        self._leave()
        states.give(self._outside, self._cuda_device())
        self.buffers.enter(self.mine[0])
        self._is_outside = True
        try:
            yield
        finally:
            self._is_outside = False
            self._outside = states.take(self._cuda_device())

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """As outside(), with the model in evaluation mode and no gradients."""
        with self.outside():
            was = self.model.training
            self.model.eval()
            try:
                with torch.no_grad():
                    yield
            finally:
                self.model.train(was)

    def _spread_buffers(self) -> None:
        """Thread 0's buffers to all threads, before a step."""
        if not self.options.broadcast_buffers or not self.buffers.named:
            return
        owner = self.place.owner[0]
        if owner == self.place.rank:
            source = self.buffers.flat(0)
        else:
            source = [t.clone() for t in self.buffers.flat(self.mine[0])]
        self.bcast_all(source, owner)
        self.buffers.spread(source)

    # --- the loop ------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return self.course.at(self.ordinary - (self._due > 0))[0]

    @property
    def progress(self) -> float:
        """Of the whole training, in [0, 1]."""
        if self.finished:
            return 1.0
        o = self.options
        by_steps = self.submitted_steps / o.max_steps if o.max_steps else 0.0
        return min(1.0, max(self.epochs_done / o.epochs, by_steps))

    @property
    def total_steps(self) -> int:
        """Ordinary steps of the whole training: epochs, or max_steps if fewer."""
        total, most = self.course.reaches(self.options.epochs), self.options.max_steps
        return min(total, self._steps_until(most)) if most else total

    def finish(self) -> None:
        """The training is done at the next boundary, before its last epoch
        (early stopping). Call it in all processes, in the same step."""
        self.finished = True

    @property
    def done(self) -> bool:
        """Trained to the end, with all extra steps, or to the target metric."""
        return self.finished or (
            self.ordinary >= self.total_steps and self._due == 0
        )

    def __iter__(self) -> Iterator[Any]:
        self._not_in_a_step()
        while self._goes_on():
            yield from self.turns()
        self._exit_if_left()
        self._end()
        self._exit_if_stopped()

    def look_ahead(self) -> None:
        """What is done between two steps is done now, and not again before the
        next step: orders, decisions, checkpoints. For a library that has to know
        the length of an epoch before its first batch. Collective."""
        self._not_in_a_step()
        if self._ahead is None:
            self._ahead = self._boundary()

    def _goes_on(self) -> bool:
        """Is there another step?"""
        ahead, self._ahead = self._ahead, None
        return self._boundary() if ahead is None else ahead

    def turns(self) -> Iterator[Any]:
        """One step: a turn of each thread of this process, then the update."""
        self._in_step = True
        epoch, batch = self._data_at()
        self._looks = self.freezing.looks(self.step)
        self._spread_buffers()
        if batch == 0:
            for thread in self.mine:
                self._enter(thread)
                self.source.begin(thread, epoch)
        for thread in self.mine:
            self._enter(thread)
            yield self._turn(thread, epoch, batch)
            self.end_turn()

    def measured(self, metric: float) -> None:
        """The quality of the model now, more is better; goes with the next
        reports. Process 0's counts. The training ends when it reaches the
        job's ``target.metric``. Collective, between two steps: in on_epoch."""
        value = torch.tensor([float(metric)], dtype=torch.float64)
        self.bcast(value)
        self.metric = float(value)
        if 0 < self.target <= self.metric:
            self.finished = True

    def end_turn(self) -> None:
        """Ends the turn of the thread that is in place; after the last thread
        the optimiser takes its step. The loop does it by itself; a library that
        has to know when the step is taken calls it at the end of its own turn."""
        if not self._in_turn:
            return
        self._in_turn = False
        thread = self._inside
        self._end_turn(thread)
        if thread != self.mine[-1]:
            return
        self._update()
        self._in_step = False
        every = self.options.compare_every
        if every and self.step % every == 0:
            hashing.compare(self)
        if self.options.on_step is not None:
            with self._apart(), self.outside():
                self.options.on_step(self)

    def _not_in_a_step(self) -> None:
        """What is left in the middle of a step cannot be taken up again."""
        if self._in_step:
            raise FirnError("the loop was left in the middle of a step")

    def _clear_turn(self) -> None:
        """No turn is under way."""
        self._backward_s = 0.0
        self._nbackward = 0
        self._turn_since = 0.0

    def _turn(self, thread: int, epoch: int, batch: int) -> Any:
        """A thread's batch, and a clean slate."""
        since = time.perf_counter()
        at = self._data_place(thread)
        data = self.source.next(at, epoch, batch)
        self._spent("data", since)
        for p in self.flat.live():
            p.grad = None
        self.reducer.begin(self.options.one_backward and not self._looks)
        self.freezing.settle()
        self._backward_s = 0.0
        self._nbackward = 0
        self.watch.begin()
        self._in_turn = True
        if self._prepared_s == 0:
            self._prepared_s = lib().firn_process_age_s()
            self._clocked, self._apart_s = (time.monotonic(), self.step), 0.0
        self._turn_since = self._now()
        return data

    def _data_place(self, thread: int) -> int:
        """Whose samples these are: the thread's, unless a test says not."""
        return self.place.rank if "sampler" in self.options.ablate else thread

    def backward(self, loss: torch.Tensor, scaler: Any = None) -> None:
        """loss.backward(), timed, and the loss kept for reports. ``scaler``, a
        GradScaler, scales the loss before the backward pass.

        Calling loss.backward() yourself is fine too; the time of a step is
        then split by a rule of thumb and no loss is reported.
        """
        since = self._now()
        (loss if scaler is None else scaler.scale(loss)).backward()
        self._backward_s += self._now() - since
        self.note_loss(loss)

    def note_loss(self, loss: torch.Tensor) -> None:
        """After a backward pass that another library did: keeps the loss for
        reports, and notes that there was one."""
        self._nbackward += 1
        if self.options.one_backward and self._nbackward > 1:
            raise FirnError("two backward passes in a turn, but one_backward is set")
        self.losses.add(self._inside, loss, self._nbackward == 1)
        self._recent.add(self._inside, loss, self._nbackward == 1)

    def losses_of(self, name: str) -> Losses:
        """Sums of losses by thread for the program's own use; those of a thread go
        with it when the job is resized. Call it in all processes alike."""
        if name not in self.named_losses:
            losses = self.named_losses[name] = Losses(self.mine)
            for thread, row in self.rows_came.get(name, {}).items():
                if thread in self.mine:
                    losses.load(thread, row)
        return self.named_losses[name]

    def passes(self, *tensors: torch.Tensor) -> Iterator[tuple]:
        """The batch in as many passes as are wanted now, each with its weight.

            for x, y, weight in elastic.passes(x, y):
                elastic.backward(loss_fn(model(x), y) * weight)
        """
        self._used.add("passes")
        n = len(tensors[0])
        wanted = self.freezer.passes or self.passes_wanted
        for i in range(lib().firn_passes_count(n, wanted)):
            part = lib().firn_passes_at(n, wanted, i)
            end = part.start + part.size
            yield (*(t[part.start : end] for t in tensors), part.weight)

    def _end_turn(self, thread: int) -> None:
        """The thread's gradients are taken from the parameters."""
        whole = self._now() - self._turn_since
        backward = self._backward_s or whole * 2 / 3
        self._add_time("backward", backward)
        self._add_time("forward", whole - backward)
        self.watch.end()
        self.watch.check_gradients()
        self.probe.take()
        since = time.perf_counter()
        grads = self.reducer.put(thread)
        self._spent("reduce", since)
        if self._looks:
            self.freezing.profile.thread(thread, grads)

    def _update(self) -> None:
        """The mean, and a step of the optimiser."""
        since = time.perf_counter()
        self.reducer.mean()
        self._spent("reduce", since)
        if self._looks:
            self.freezing.profile.mean()
        since = time.perf_counter()
        self.freezing.learning_rates(self.optimizer, self.progress)
        self.watch.is_update = True
        with self._scaled_rates():
            (self.options.update or self.optimizer.step)()
        self.watch.is_update = False
        self._count_step()
        self._spent("update", since)
        self.timed_steps += 1
        self.looked_steps += self._looks
        if self._at_epoch():
            return  # the boundary reports, with the metric of the epoch
        if self.step % self.options.report_every == 0 or not self._said_can:
            self._report()

    def _count_step(self) -> None:
        """One more step; what is owed; the scheduler, which counts steps of the
        submitted batch."""
        before = self.submitted_steps
        self.step += 1
        self.rate_steps = 1  # an extra step counts as one
        if self._due == 0:
            self.ordinary += 1
            self.rate_steps = self.submitted_steps - before
        self._due = self.freezer.step()
        o = self.options
        if o.scheduler is None:
            return
        at_epoch = int(self._at_epoch())
        for _ in range(self.rate_steps if o.scheduler_by == "step" else at_epoch):
            o.scheduler.step()

    def _at_epoch(self) -> bool:
        """Is an epoch over, with the extra steps that it owed?"""
        return self._due == 0 and self.course.at(self.ordinary)[2] == 0

    def _now(self) -> float:
        """The time; in a step that is looked at, once the device is done."""
        if self._looks and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _add_time(self, part: str, seconds: float) -> None:
        """Adds a time to the split of steps."""
        self.seconds[part] += seconds
        if self._looks:
            self.looked[part] += seconds

    def _spent(self, part: str, since: float) -> None:
        """The time from ``since`` until now."""
        self._add_time(part, self._now() - since)

    # --- boundaries -----------------------------------------------------------

    def _boundary(self) -> bool:
        """Between two steps: orders, decisions, checkpoints. Is there more?"""
        stop, due, frozen, passes, batch = self._orders()
        o = self.options
        self._close_epoch()
        decided, self._decided = self._decided, False
        decided = self._obey(frozen, passes, batch) or decided
        if self.done:
            self._withdraw()
            return False
        if stop or self._stop_now:
            self._withdraw()
            self.stopped = True
            return False
        often = o.every_steps and self.step and self.step % o.every_steps == 0
        if decided or often or due:
            self.save()
        return self._resize_if_due()

    def _resize_if_due(self) -> bool:
        """The switch that process 0 has announced; False: this process leaves."""
        if not self._resizes or self.join is None:
            return True
        self._resizes = False
        order = self.join.under_way() or preparing.order_of(self)
        with self._apart():
            self.left = not joining.switch(self, order)
        return not self.left

    def _withdraw(self) -> None:
        """There is no next step: a switch that was announced is given up."""
        if self._resizes and self.join is not None and self.place.rank == 0:
            self.join.withdraw(self.join.under_way(), "the training ends")
        self._resizes = False

    def _close_epoch(self) -> None:
        """At the end of an epoch, once: decisions, on_epoch, a report."""
        if not self._at_epoch() or self.step == 0 or self._decided_at == self.step:
            return
        since = time.perf_counter()
        self.epoch_loss = self.losses.mean(self)
        self.losses.reset()
        self._waited(since)
        parts = self._step_parts()
        self._decided = self._decide()
        if self.options.on_epoch is not None:
            with self._apart(), self.outside():
                self.options.on_epoch(self)
        self._report(parts)

    def _reset_times(self) -> None:
        """The split of steps starts anew: of all, and of those looked at."""
        self.seconds = dict.fromkeys(STEP_PARTS, 0.0)
        self.looked = dict.fromkeys(STEP_PARTS, 0.0)
        self.timed_steps = self.looked_steps = 0
        self._said_times = (dict(self.seconds), 0)

    def _waited(self, since: float) -> None:
        """The device is behind the host, which waited for it: that time is of the
        steps before."""
        self.seconds["backward"] += time.perf_counter() - since

    def _step_parts(self) -> dict[str, float]:
        """Seconds of a step by part, in the mean since the last report; as said
        there if no step came since."""
        before, nsteps = self._said_times
        count = self.timed_steps - nsteps
        if count > 0:
            now = dict(self.seconds)
            self._said_parts = {part: (now[part] - before[part]) / count for part in now}
            self._said_times = (now, self.timed_steps)
        return self._said_parts

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """What is done meanwhile is no part of a step: evaluation, a checkpoint, a
        switch to other processes."""
        since, before_s = time.monotonic(), self._apart_s
        try:
            yield
        finally:  # with what was added meanwhile
            self._apart_s = before_s + time.monotonic() - since

    def _step_s(self) -> float:
        """Seconds from step to step by the clock, since the last report; of a
        co-trained job with the partner's steps in between. -1: not known.

        Not the sum of the parts: those leave out what the host does between them,
        5 ms of a step of 25 to 55 on an H200. As another job on the GPU does not
        make that longer, such sums grow by more than the time of a step does."""
        (since_s, step), apart_s = self._clocked, self._apart_s
        self._clocked, self._apart_s = (time.monotonic(), self.step), 0.0
        if self.step > step:
            spent_s = self._clocked[0] - since_s - apart_s
            self._said_step_s = spent_s / (self.step - step)
        return self._said_step_s

    def _report(self, parts: dict[str, float] | None = None) -> None:
        """Process 0 tells the scheduler how it goes."""
        since = time.perf_counter()
        loss = self._recent.mean(self)  # of all threads of all processes
        self._recent.reset()
        if parts is None:  # else the end of an epoch has waited
            self._waited(since)
        if loss is not None:
            self.loss = loss
        self._reported = self.step
        if self.place.rank != 0:
            self._said_can = True
            return
        parts = parts or self._step_parts()
        memory, used = device_load(self.device)
        numbers = dict(
            step=self.step,
            epoch=self.epoch,
            progress=1.0 if self.finished else self.progress,
            step_s=self._step_s(),
            memory_mib=memory,
            utilisation=used,
            batch=self.plan.batch_size * self.place.nthreads,
            passes=self.freezer.passes or self.passes_wanted,
            nfrozen=self.freezer.nfrozen,
            nthreads=self.place.nthreads,
            nprocs=self.place.nprocs,
            psi=self.freezer.psi,
            prepare_s=self._prepared_s or -1.0,
        )
        if loss is not None and math.isfinite(loss):
            numbers["loss"] = loss
        if math.isfinite(self.metric) and self.metric >= 0:
            numbers["metric"] = self.metric
        if not self._said_can and self.timed_steps == 1:
            parts, numbers["step_s"] = {}, -1.0  # a first step says little
            self._said_parts, self._said_step_s = {}, -1.0
            self._reset_times()  # and would spoil the mean of the next ones
        self._said_can = True
        self.reporter.say(
            parts=parts,
            variance=self.variance or (),
            can=self.can(),
            embedding=self.probe.embedding() if self.epoch <= 2 else (),
            **numbers,
        )

    # --- the end ---------------------------------------------------------------

    def save(self) -> None:
        """A checkpoint now; collective, between two steps only."""
        self._not_in_a_step()
        if self.folder:
            with self._apart():
                self._leave()
                if self.options.compare_every:
                    hashing.compare(self)
                save(self)
            self.nsaves += 1
            self._saved_s = time.monotonic()

    def _end(self) -> None:
        """Trained to the end, or ordered to stop."""
        if self._reported != self.step or self.finished:
            self._report()
        self._leave()
        self.save()
        self.buffers.detach(self.mine[0])
        self._inside = -1
        states.give(self._outside, self._cuda_device())

    def _exit_if_left(self) -> None:
        """Ends the process if the others go on without it."""
        if self.left:
            self.close()
            sys.exit(0)

    def _exit_if_stopped(self) -> None:
        """Ends the process if it was ordered to stop."""
        if self.stopped and self.options.on_stop == "exit":
            if not self.folder and self.step > 0:
                raise FirnError(
                    "ordered to stop, but there is no folder for a checkpoint: "
                    "set FIRN_DIR"
                )
            self.close()
            sys.exit(EXIT_CHECKPOINT)

    def close(self) -> None:
        """Frees everything but the model."""
        self.watch.close()
        self.source.close()
        self.reducer.close()
        self.reporter.close()
        self.freezer.close()
        self.group.close()
        if self.join is not None:
            preparing.end(self)
            self.join.close()
        if self.closing is not None:
            self.closing.join(timeout=5)

    def __enter__(self) -> "Elastic":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
