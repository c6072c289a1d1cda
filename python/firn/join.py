"""A resize without a stop (see firn/join.h), as one process and as a supervisor.

Nothing here knows torch. :class:`Join` is a training process's part,
:class:`Board` that of a launcher, which starts the processes that join and waits
for those that leave.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from typing import Sequence

from firn import tree
from firn._lib import FirnError, GroupConfig, JoinTold, c_i64, c_int, c_size
from firn._lib import c_void_p, call, lib, text
from firn.group import Group, Place, shown_environment

STATES = ("idle", "preparing", "switching", "done", "failed")


class Formed(Group):
    """A group that was formed by a resize."""

    def __init__(self, handle: c_void_p, place: Place, nelements: int) -> None:
        self.rank, self.nprocs = place.rank, place.nprocs
        self.nelements = nelements
        self._handle = handle


class Join:
    """This process's part of resizes; ``open()`` gives None where there are none."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle

    @property
    def is_new(self) -> bool:
        """Was this process started to join, and has not joined yet?"""
        return lib().firn_join_is_new(self._handle)

    @property
    def shares_memory(self) -> bool:
        """Do all processes share memory? Otherwise they talk over TCP."""
        return lib().firn_join_shares_memory(self._handle)

    @staticmethod
    def open() -> "Join | None":
        """By FIRN_JOIN and FIRN_JOIN_ORDER."""
        handle = c_void_p()
        with shown_environment():
            call("firn_join_open", ctypes.byref(handle))
        return Join(handle) if handle else None

    def able(self) -> None:
        """Tells the supervisor that this program takes orders to resize."""
        lib().firn_join_able(self._handle)

    def prepares(self) -> None:
        """The switch has to wait for all old processes to prepare."""
        lib().firn_join_prepares(self._handle)

    def pending(self) -> int:
        """The order that is being prepared; 0: none."""
        return lib().firn_join_pending(self._handle)

    def prepared(self) -> None:
        """An old process has all that it needs for the switch."""
        lib().firn_join_prepared(self._handle)

    def begin(self) -> None:
        """The switch begins."""
        lib().firn_join_switch(self._handle)

    def max(self, value: int) -> int:
        """The largest value of all old and new processes."""
        number = c_i64(value)
        call("firn_join_max", self._handle, ctypes.byref(number))
        return number.value

    def drop(self) -> None:
        """Ends the meeting of an order that was given up."""
        lib().firn_join_drop(self._handle)

    def due(self) -> int:
        """Process 0: the order whose joiners are all ready; 0: none."""
        return lib().firn_join_due(self._handle)

    def under_way(self) -> int:
        """The order whose switch has begun; 0: none. Without shared memory only
        process 0 knows."""
        return lib().firn_join_under_way(self._handle)

    def ready(self) -> int:
        """A joiner: waits for the switch; the order's number."""
        call("firn_join_ready", self._handle)
        return int(os.environ["FIRN_JOIN_ORDER"])

    def withdraw(self, order: int, why: str) -> None:
        """Gives the order up: there is no next step, or it was not prepared."""
        lib().firn_join_withdraw(self._handle, order, why.encode())

    def _config(self, place: Place, **more: object) -> GroupConfig:
        """What all groups of the attempt have in common."""
        name = f"{place.job}.{place.attempt}.{place.port}"
        key = text(os.environ.get("FIRN_GROUP_KEY") or None)
        return GroupConfig(
            name=name.encode(),
            rank=place.rank,
            nprocs=place.nprocs,
            nthreads=place.nthreads,
            key=key,
            **more,
        )

    def meet(self, order: int, place: Place, nbytes: int) -> None:
        """Old and new processes meet; ``nbytes`` about what will be sent."""
        config = self._config(place)
        call("firn_join_meet", self._handle, order, ctypes.byref(config), nbytes)

    def place(self, old: Place) -> Place | None:
        """The place in the new layout; None: this process leaves."""
        rank = lib().firn_join_rank(self._handle)
        nprocs = lib().firn_join_nprocs(self._handle)
        owner = (c_int * old.nthreads)()
        if not lib().firn_join_layout(self._handle, old.nthreads, owner):
            raise FirnError(f"{old.nthreads} threads on {nprocs} processes")
        if rank < 0:
            return None
        local_rank, local_nprocs = c_int(), c_int()
        lib().firn_join_local(
            self._handle, ctypes.byref(local_rank), ctypes.byref(local_nprocs)
        )
        return replace(
            old,
            rank=rank,
            nprocs=nprocs,
            local_rank=local_rank.value,
            local_nprocs=local_nprocs.value,
            owner=list(owner),
        )

    @property
    def has_joiners(self) -> bool:
        """After meet(): do processes join, or do they only leave?"""
        return lib().firn_join_has_joiners(self._handle)

    def send(self, address: int, nbytes: int) -> None:
        """Memory of the old process 0 into that of all joiners."""
        if nbytes > 0:
            call("firn_join_send", self._handle, address, nbytes)

    def share(self, data: bytes) -> bytes:
        """The bytes of all old processes, one behind the other, in all."""
        out, size = c_void_p(), c_size()
        call(
            "firn_join_share",
            self._handle,
            data,
            len(data),
            ctypes.byref(out),
            ctypes.byref(size),
        )
        whole = ctypes.string_at(out, size.value) if size.value else b""
        lib().firn_group_free(out)
        return whole

    def form(
        self,
        place: Place,
        nelements: int,
        trouble: str | None,
        *,
        chain: bool = False,
        order: str = tree.TREE,
        timeout_s: float = 0.0,
    ) -> Group | None:
        """The new group; None in a leaver. ``place``: the new one, or the old
        one of a leaver."""
        out = c_void_p()
        config = self._config(
            place,
            nelements=nelements,
            chain=chain,
            sum=tree.CODE[order],
            timeout_s=timeout_s,
        )
        call(
            "firn_join_form",
            self._handle,
            ctypes.byref(config),
            text(trouble),
            ctypes.byref(out),
        )
        return Formed(out, place, nelements) if out else None

    def agree(self, old: Group | None, trouble: str | None, step: int) -> bool:
        """The commit point: is the new group the one that trains?"""
        committed = ctypes.c_bool()
        call(
            "firn_join_agree",
            self._handle,
            old._handle if old is not None else None,
            text(trouble),
            step,
            ctypes.byref(committed),
        )
        return committed.value

    def close(self) -> None:
        """Frees it."""
        if self._handle:
            lib().firn_join_close(self._handle)
            self._handle = c_void_p()


class Board:
    """A launcher's side: orders, and how they went."""

    def __init__(self) -> None:
        self._handle, fd = c_void_p(), c_int(-1)
        call("firn_join_board_new", ctypes.byref(self._handle), ctypes.byref(fd))
        self.fd = fd.value

    @property
    def environment(self) -> dict[str, str]:
        """For all processes, which inherit ``fd``."""
        return {"FIRN_JOIN": f"/proc/self/fd/{self.fd}"}

    def order(
        self, nold: int, come_from: Sequence[int], layout: str = "", limit_s: float = 60
    ) -> int:
        """Orders a layout; ``come_from``: by new rank the old one, -1: joins."""
        ranks = (c_int * len(come_from))(*come_from)
        number = lib().firn_join_board_order(
            self._handle, nold, len(come_from), ranks, layout.encode(), limit_s
        )
        if not number:
            raise FirnError("this order cannot be given now")
        return number

    def told(self) -> JoinTold:
        """Its state, and how the last order went."""
        return lib().firn_join_board_told(self._handle)

    @property
    def state(self) -> str:
        """One of STATES."""
        return STATES[self.told().state]

    def give_up(self, order: int) -> bool:
        """A joiner has ended, or is late; False: the switch has begun."""
        return lib().firn_join_board_give_up(self._handle, order)

    def clear(self, order: int) -> bool:
        """The processes that are not needed any more are gone."""
        return lib().firn_join_board_clear(self._handle, order)

    def close(self) -> None:
        """Frees it."""
        if self._handle:
            lib().firn_join_board_free(self._handle)
            os.close(self.fd)
            self._handle = c_void_p()
