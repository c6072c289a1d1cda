"""Reports to the scheduler and orders back (see firn/report.h).

Nothing waits: reports are queued and sent by a thread of the C library. With
no ``FIRN_URL`` everything works and nothing is sent. SIGUSR1 is heard as the
order to stop.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from typing import Any, Iterable, Mapping, Sequence

from firn import FirnError, early
from firn._lib import STEP_PARTS, Orders, ReporterConfig, c_double, c_u64
from firn._lib import c_void_p, call, lib


CAN = (
    "resize",
    "passes",
    "freeze",
    "batch",
    "partner",
    "after",
    "tensor",
    "sharded",
    "pipeline",
    "join",
    "executors",
    "ahead",
    "zero",
    "recompute",
    "offload",
)
"""What a trainer can do when it is ordered to, by firn/can.h."""


def bits_of(can: Iterable[str]) -> int:
    """The words as FIRN_CAN_*; another word is refused."""
    bits = 0
    for word in can:
        if word not in CAN:
            raise FirnError(f"'{word}' is not one of {', '.join(CAN)}")
        bits |= 1 << CAN.index(word)
    return bits


class Reporter:
    """The line to the scheduler; ``speaks`` False: only listens to SIGUSR1."""

    def __init__(self, speaks: bool = True, partner: Any = None) -> None:
        config = ReporterConfig(
            url=None if speaks else b"", attempt=-1, catch_signal=True
        )
        if partner is not None:  # a finetune.Mate: reports in its name
            config.job = partner.job.encode()
            config.token = partner.token.encode()
            config.attempt = partner.attempt
        if speaks and os.environ.get("FIRN_URL") and not can_send():
            warnings.warn(
                "libfirn_train was built without libcurl: the scheduler does not"
                " hear of this job, and cannot foretell its end or change its"
                " GPUs. Install libcurl's headers and build it again.",
                stacklevel=2,
            )
        self._handle = c_void_p()
        call("firn_reporter_open", ctypes.byref(self._handle), ctypes.byref(config))

    def orders(self) -> Orders:
        """As last heard; SIGUSR1 counts as ``stop``, also one that came before
        this reporter was opened."""
        orders = lib().firn_reporter_orders(self._handle)
        if early.heard():
            orders.stop = 1
        return orders

    def say(
        self,
        *,
        variance: Sequence[float] = (),
        parts: Mapping[str, float] | None = None,
        can: Iterable[str] | None = None,
        embedding: Sequence[float] = (),
        **numbers: float,
    ) -> None:
        """Queues a report; fields as in struct firn_trainer_report. ``can``:
        words of CAN, what the trainer does when it is ordered to."""
        report = lib().firn_trainer_report_unknown()
        for name, value in numbers.items():
            setattr(report, name, value)
        if can is not None:
            report.can = bits_of(can)
        for i, value in enumerate(embedding):
            report.embedding[i] = value
        report.nembedding = len(embedding)
        for name, seconds in (parts or {}).items():
            report.part_s[STEP_PARTS.index(name)] = seconds
        if variance:
            report.variance = (c_double * len(variance))(*variance)
            report.nlayers = len(variance)
        call("firn_reporter_say", self._handle, ctypes.byref(report))

    def counts(self) -> tuple[int, int, int]:
        """Reports taken, dropped, tries that failed."""
        sent, dropped, failed = c_u64(), c_u64(), c_u64()
        lib().firn_reporter_counts(
            self._handle,
            ctypes.byref(sent),
            ctypes.byref(dropped),
            ctypes.byref(failed),
        )
        return sent.value, dropped.value, failed.value

    def close(self, wait_s: float = 10.0) -> None:
        """Tries to send what is left for ``wait_s`` seconds; less if the
        scheduler is away."""
        if self._handle:
            lib().firn_reporter_close(self._handle, wait_s)
            early.forget()
            self._handle = c_void_p()


def can_send() -> bool:
    """The library was built with libcurl."""
    return lib().firn_reporter_can_send()
