"""Which way the gradients of an elastic job go, and in which order they are
summed: options, environment, checkpoint, and what the processes have.

The order is the job's, hence the same in all processes: the one that the
options or FIRN_SUM ask for; else that of the checkpoint the job goes on from
(one without a name is of the chain); else the tree.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import torch

from firn import FirnError, tree
from firn.group import Alone, Group, Place, amount_of
from firn.torch import reduce
from firn.torch.options import Options

try:
    from firn.torch.exchange import Exchange, make_group, serve_store
except (ImportError, AttributeError):  # PyTorch without torch.distributed

    class Exchange:  # type: ignore[no-redef]
        """Not there."""

    def make_group(*_: Any) -> Any:  # type: ignore[misc]
        """Nor is this."""
        raise FirnError("this PyTorch was built without torch.distributed")

    serve_store = make_group


WAYS = ("distributed", "memory")


def word_of(option: str | None, name: str, words: tuple[str, ...]) -> str | None:
    """An option, else the environment's; None: neither says."""
    word = option or os.environ.get(name) or None
    if word is not None and word not in words:
        which = "an option" if option else name
        raise FirnError(f"{which} is '{word[:40]}', not {' or '.join(words)}")
    return word


class Sums:
    """The order of a job's sums."""

    def __init__(self, asked: str | None) -> None:
        self.asked = asked
        self.order = asked or tree.TREE

    def take(self, found: str) -> tuple[str, str]:
        """The order after a checkpoint of the order ``found``, and what is to
        be said of it."""
        if found not in tree.ORDERS:
            raise FirnError(
                f"its order of sums (train/sum) is '{found[:40]}', not tree or chain"
            )
        if self.asked is None:
            self.order = found
        if self.order == found:
            return self.order, ""
        return self.order, (
            f"the checkpoint's gradients were summed in the order '{found}'; from "
            f"here on in the order '{self.order}', as asked for"
        )


def _has_own_gpu(group: Group, device: torch.device) -> bool:
    """Has every process a GPU that no other process of the job has?"""
    if device.type != "cuda":
        return False
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    name = uuid or f"{socket.gethostname()} {seen} {device.index}"
    names = group.gather(str(name).encode())
    return group.max(len(set(names)) < len(names)) == 0


def _by_memory(
    o: Options, place: Place, flat: reduce.Flat, options: dict
) -> tuple[Any, Any]:
    """firn's own group, with slots or with little memory."""
    tree_or_run = options["order"] == tree.TREE or reduce.is_contiguous(place.owner)
    group = Group(place, flat.n, chain=o.chain and tree_or_run, **options)
    kind = reduce.Compact if group.slot(place.mine[0]) is None else reduce.Slots
    return group, kind(flat, place, group)


def is_distributed(o: Options, reducer: Any) -> bool:
    """Do gradients go by torch.distributed, or would they with more processes?"""
    named = word_of(o.through, "FIRN_THROUGH", WAYS) == "distributed"
    return named or isinstance(reducer, Exchange)


def open_sums(o: Options, place: Place, flat: reduce.Flat) -> tuple[Any, Any, Sums]:
    """The group of processes, the way of gradients, and their order."""
    sums = Sums(word_of(o.sum, "FIRN_SUM", tree.ORDERS))
    way = word_of(o.through, "FIRN_THROUGH", WAYS)
    if place.nprocs == 1 and not o.offload:
        return Alone(), reduce.Running(flat, place.nthreads, sums.order), sums
    timeout_s = o.peer_timeout_s or amount_of("FIRN_PEER_TIMEOUT_S", 1e9)
    options: dict[str, Any] = dict(order=sums.order, timeout_s=timeout_s)
    device = flat.params[0].device
    if way is None and (o.offload or o.chain or device.type != "cuda"):
        way = "memory"
    if way == "distributed" and not torch.distributed.is_available():
        raise FirnError("this PyTorch was built without torch.distributed")
    if way == "memory" or not torch.distributed.is_available():
        return (*_by_memory(o, place, flat, options), sums)
    group = Group(place, 0, name="orders", **options)
    if way == "distributed" or _has_own_gpu(group, device):
        nbytes = max(1, int(o.bucket_mb * 2**20))
        return group, Exchange(flat, place, bucket_bytes=nbytes, **options), sums
    group.close()
    return (*_by_memory(o, place, flat, options), sums)
