"""Two fine-tuning jobs over one backbone, trained by one set of processes.

Ymir's spatial transfer. A scheduler that merges two jobs starts the processes
of one, the lead, and describes the other, its partner, in FIRN_MATE_*
(``finetune.mate()``; firn/mate.h has the same for C). Each job is an
:class:`Elastic` of its own, hence with its own data, head, optimiser, metric,
reports and checkpoints: the scheduler can part the two at any checkpoint, and
each goes on alone. :class:`Partners` chooses the job of each step by annealed
sampling and copies the parameters that both share (the adapters in the
backbone) to the other job after the step.

    def make(argv):                      # a job from its command line
        args = parser.parse_args(argv)
        backbone = load(args.base)
        finetune.adapt(backbone, "lora", 8)
        model = Tuned(backbone, nn.Linear(768, args.classes))
        return Work(model, Adam(...), dataset, metric=accuracy,
                    options=dict(batch_size=16, epochs=5))

    run(make)                            # alone, or with the partner

Invariants
  1. What is done next follows from the steps and states of both jobs, which
     are equal in all processes.
  2. A checkpoint is written when no step is under way; it holds the steps of
     both jobs, and the other job's checkpoint follows before the next step.
     After kill -9 between the two, the job that is ahead goes back to the step
     that the other one's checkpoint names.
  3. A job that is done (its epochs, or its target metric) stays as it then was,
     and the other one goes on alone.
  4. When one job is to stop, both do, at the same boundary.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import nn

from firn import EXIT_CHECKPOINT, FirnError
from firn._lib import TaskMix, c_u64, lib
from firn.torch import finetune
from firn.torch.elastic import Elastic
from firn.torch.saving import resume

SPATIAL = finetune.MODES.index("spatial")


class Tuned(nn.Module):
    """A backbone and a task's own head: ``head(backbone(x))``."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, *inputs: Any) -> Any:
        """head(backbone(inputs))"""
        return self.head(self.backbone(*inputs))


def of_backbone(name: str) -> bool:
    """Is this parameter of a :class:`Tuned` shared by the jobs?"""
    return name.startswith("backbone.")


def _share_memory(lead: nn.Module, partner: nn.Module) -> None:
    """Frozen parameters with the same bits are held once."""
    mine = dict(lead.named_parameters())
    for name, theirs in partner.named_parameters():
        p = mine.get(name)
        if p is None or p.requires_grad or theirs.requires_grad:
            continue
        alike = (p.shape, p.dtype, p.device) == (
            theirs.shape,
            theirs.dtype,
            theirs.device,
        )
        if alike and torch.equal(p, theirs):
            theirs.data = p.data


class Partners:
    """One or two elastic jobs that take turns.

        for job, (x, y) in Partners(lead, partner):
            job.backward(loss_of[job](job.model(x), y))

    With one job the loop is that of the job itself.
    """

    def __init__(
        self,
        lead: Elastic,
        partner: Elastic | None = None,
        *,
        seed: int = 0,
        shared: Callable[[str], bool] = of_backbone,
    ) -> None:
        self.jobs = [lead] if partner is None else [lead, partner]
        self._ended = [False] * len(self.jobs)
        for job in self.jobs:
            job._used.add("partner")
        sizes = (c_u64 * len(self.jobs))(*(j.steps_per_epoch for j in self.jobs))
        epochs = max(job.options.epochs for job in self.jobs)
        self._sizes = sizes
        self.switch: finetune.SwitchCost | None = None
        """What making the partner's data took, and what run() waited for it."""
        self._mix = TaskMix(SPATIAL, len(self.jobs), sizes, epochs, seed)
        if partner is None:
            return
        self._pairs = self._common(shared)
        _share_memory(lead.model, partner.model)
        for job in self.jobs:
            job.paired = True
        self._meet()
        if not lead.done and not partner.done:
            self._hand_over(0 if lead.step >= partner.step else 1)

    def _common(self, shared: Callable[[str], bool]) -> list[tuple]:
        """Parameters that both jobs train: (the lead's, the partner's)."""
        lead, partner = (dict(j.model.named_parameters()) for j in self.jobs)
        found = []
        for name, p in lead.items():
            q = partner.get(name)
            if q is None or not shared(name):
                continue
            if not p.requires_grad and not q.requires_grad:
                continue
            if p.shape != q.shape or p.dtype != q.dtype:
                raise FirnError(
                    f"'{name}' is {tuple(p.shape)} in one job and "
                    f"{tuple(q.shape)} in its partner: they cannot be co-trained"
                )
            found.append((p.data, q.data))
        if not found:
            raise FirnError(
                "the two jobs share no parameter that trains: name them by "
                "shared=, or put the model in a Tuned"
            )
        return found

    # --- to one moment -------------------------------------------------------

    def _is_one_moment(self) -> bool:
        """Does each checkpoint name the steps that both jobs are at?"""
        now = (self.jobs[0].step, self.jobs[1].step)
        return all(job.done or job.both == now for job in self.jobs)

    def _meet(self) -> None:
        """The job that is ahead goes back to its partner's checkpoint."""
        lead, partner = self.jobs
        if not (lead.resumed or partner.resumed) or self._is_one_moment():
            return
        if min(lead.both + partner.both) < 0:
            return  # they were never trained together
        ahead = 0 if sum(lead.both) > sum(partner.both) else 1
        job, other = self.jobs[ahead], self.jobs[1 - ahead]
        resume(job, other.both[ahead])
        if not self._is_one_moment():
            job.message = (
                "the checkpoints of the two jobs are of different moments; each "
                "goes on from its own"
            )

    def _hand_over(self, which: int) -> None:
        """The shared parameters of one job into the other."""
        with torch.no_grad():
            for pair in self._pairs:
                pair[1 - which].copy_(pair[which])

    # --- the loop --------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[Elastic, Any]]:
        while (which := self._next()) is not None:
            job = self.jobs[which]
            for data in job.turns():
                yield job, data
            job._leave()
            job._close_epoch()
            if len(self.jobs) == 2 and not self._ended[1 - which]:
                self._hand_over(which)
        self._exit_if_stopped()

    def _choose(self) -> int | None:
        """The job of the next step; None: none is left."""
        left = [i for i, ended in enumerate(self._ended) if not ended]
        if len(left) < 2:
            return left[0] if left else None
        step = self.jobs[0].ordinary + self.jobs[1].ordinary
        epoch = step // sum(self._sizes)
        return lib().firn_task_of_step(ctypes.byref(self._mix), epoch, step)

    def _next(self) -> int | None:
        """The job of the next step, after what is due at this boundary."""
        while (which := self._choose()) is not None:
            job = self.jobs[which]
            self._note_steps()
            saves = job.nsaves
            goes = job._boundary()
            if not goes:
                self._end(which)
            if job.stopped or job.nsaves != saves:
                self._keep_up(1 - which, job.stopped)
            if goes:
                return which
        return None

    def _note_steps(self) -> None:
        """The steps of both go into the next checkpoint of either."""
        if len(self.jobs) == 2:
            both = (self.jobs[0].step, self.jobs[1].step)
            for job in self.jobs:
                job.both = both

    def _keep_up(self, which: int, stops: bool) -> None:
        """Saves or stops a job when its partner was saved or stopped."""
        if which >= len(self.jobs) or self._ended[which]:
            return
        job = self.jobs[which]
        if not stops:
            job.save()
            return
        job._stop_now = True
        job._boundary()
        self._end(which)

    def _end(self, which: int) -> None:
        """A job is done, or was ordered to stop."""
        self.jobs[which]._end()
        self._ended[which] = True

    def _exit_if_stopped(self) -> None:
        """Ends the process if a job was ordered to stop."""
        stopped = [job for job in self.jobs if job.stopped]
        if not stopped or self.jobs[0].options.on_stop != "exit":
            return
        for job in stopped:
            if not job.folder:
                raise FirnError(
                    f"job {job.name} was ordered to stop, but there is no folder "
                    "for its checkpoint"
                )
        self.close()
        sys.exit(EXIT_CHECKPOINT)

    def close(self) -> None:
        """Frees everything but the models."""
        for job in reversed(self.jobs):
            job.close()


# --- a program for both ----------------------------------------------------------


@dataclass
class Work:
    """A fine-tuning job: what :func:`run` trains."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    dataset: Any
    """The dataset, or a function that makes it. The function of a partner is
    called in a thread while the lead opens (``finetune.Pipeline``), so it must
    not draw from torch's, numpy's or Python's global generators."""
    loss: Callable[[Any, Any], torch.Tensor] = nn.functional.cross_entropy
    metric: Callable[[nn.Module], float] | None = None
    """The quality of the model, more is better; called after every epoch in
    evaluation mode, without gradients."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of :class:`Elastic`."""


def words_of(argv: Sequence[str], program: str) -> list[str]:
    """The arguments of a partner's command for this program: what follows the
    program's own name in it (an interpreter may stand before it)."""
    name = os.path.basename(program)
    for i, word in enumerate(argv):
        if os.path.basename(word) == name:
            return list(argv[i + 1 :])
    return list(argv[1:])


def _open(
    work: Work, partner: finetune.Mate | None, shared: Callable[[str], bool]
) -> Elastic:
    """The session of a job."""
    options = {"begins_with": shared, "embeds": shared, **work.options}
    after = options.pop("on_epoch", None)
    dataset = work.dataset
    if callable(dataset):
        dataset = dataset()

    def on_epoch(job: Elastic) -> None:
        if work.metric is not None:
            with job.evaluating():
                value = work.metric(work.model)
            job.measured(value)
        if after is not None:
            after(job)

    return Elastic(
        work.model,
        work.optimizer,
        dataset,
        on_epoch=on_epoch,
        partner=partner,
        **options,
    )


class _Coming:
    """A partner that is made ready while the lead opens."""

    def __init__(self, make: Callable[[list[str]], Work], program: str) -> None:
        self.mate = finetune.mate()
        self.work: Work | None = None
        self.why = ""
        self._loading: finetune.Pipeline | None = None
        if self.mate is None:
            return
        try:
            self.work = make(words_of(self.mate.argv, program))
        except (Exception, SystemExit) as error:  # argparse exits
            self.why = f"{type(error).__name__}: {error}"
        if self.work is not None and callable(self.work.dataset):
            self._loading = finetune.Pipeline({"loader": self.work.dataset})

    def take(self, lead: Elastic) -> finetune.SwitchCost | None:
        """Waits for its data. All processes agree on whether there is a
        partner; ``work`` is None if there is none."""
        if self.mate is None:
            return None
        cost = None
        if self._loading is not None and self.work is not None:
            try:
                made, cost = self._loading.take()
                self.work.dataset = made["loader"]
            except Exception as error:
                self.work, self.why = None, f"{type(error).__name__}: {error}"
        if lead.group.max(self.work is None):
            text = f"job {self.mate.job} is not trained here: {self.why}"
            print(text, file=sys.stderr)
            self.work = None
        return cost


def run(
    make: Callable[[list[str]], Work],
    argv: Sequence[str] | None = None,
    *,
    seed: int = 0,
    shared: Callable[[str], bool] = of_backbone,
) -> list[Elastic]:
    """Trains the job of this command line, and its partner if there is one.

    Returns the sessions, the lead's first, with ``name``, ``step``, ``loss``
    and ``metric``. If the partner's command cannot be understood, the lead is
    trained alone, and the scheduler gives the partner processes of its own.
    """
    words = list(sys.argv) if argv is None else list(argv)
    works = [make(words[1:])]
    coming = _Coming(make, words[0])
    lead = _open(works[0], None, shared)
    if lead.began_with and lead.place.rank == 0:
        print(f"begins with the weights of job {lead.began_with}", flush=True)
    partner = None
    cost = coming.take(lead)
    if coming.work is not None:
        works.append(coming.work)
        partner = _open(coming.work, coming.mate, shared)
        if lead.place.rank == 0:
            print(f"trains job {partner.name} as well", flush=True)
    pair = Partners(lead, partner, seed=seed, shared=shared)
    pair.switch = cost
    loss_of = {id(job): work.loss for job, work in zip(pair.jobs, works)}
    for job, (x, y) in pair:
        x, y = x.to(job.device), y.to(job.device)
        job.backward(loss_of[id(job)](job.model(x), y))
    pair.close()
    return pair.jobs
