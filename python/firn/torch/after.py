"""A job that begins with the weights of another job, which has ended.

Ymir's temporal transfer: FIRN_AFTER is the folder of the ended job's
checkpoints, FIRN_AFTER_JOB its id. The parameters that have the same name,
shape and type in its newest checkpoint are copied from there: adapters and
backbone, and a head too if both tasks have the same classes; the option
``begins_with`` says which names are taken. Optimiser, generators and place in
the data are those of a job that begins.

Process 0 reads the file and sends the parameters to the others, so that all
begin with the same bits whatever each of them can read. A job that was resumed
from its own checkpoint does not come here. Without the variables, or with an
ended job that left no checkpoint, the job begins with its own weights.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from firn import FirnError
from firn._lib import EIO
from firn.ckpt import Checkpoint

if TYPE_CHECKING:
    from firn.torch.elastic import Elastic


def _take(job: "Elastic", ckpt: Checkpoint) -> int:
    """Copies what fits into the model; how many parameters."""
    from firn.torch.saving import _tensor

    wants = job.options.begins_with or (lambda name: True)
    taken = 0
    for name, p in job.model.named_parameters():
        section = f"model/{name}"
        if section not in ckpt or not wants(name):
            continue
        found = _tensor(ckpt[section])
        if found.shape == p.shape and found.dtype == p.dtype:
            with torch.no_grad():
                p.copy_(found)
            taken += p.requires_grad
    return taken


def begin_after(job: "Elastic") -> None:
    """Collective: sets ``job.began_with`` to the ended job's id, if its weights
    were taken."""
    folder = os.environ.get("FIRN_AFTER", "")
    other = os.environ.get("FIRN_AFTER_JOB", "")
    if not folder or not other:
        return
    taken, failure = 0, None
    if job.place.rank == 0:
        try:
            ckpt, _ = Checkpoint.newest(folder, other)
            if ckpt is not None:
                with ckpt:
                    taken = _take(job, ckpt)
        except FirnError as error:
            failure = error
    if job.group.max(failure is not None):
        raise failure or FirnError("process 0 could not read FIRN_AFTER", EIO)
    if job.group.max(taken) == 0:
        return
    for p in job.model.parameters():
        job.bcast(p.data)
    job.began_with = other
