"""SIGUSR1 before training begins: noted, and obeyed at the first boundary.

The signal's default action ends a process at once, with a status that looks
like a failure. From the moment ``firn.torch`` is imported it is noted instead;
a job that opens later finds the order to stop, all its processes agree, and it
ends with status 83. A program that handles SIGUSR1 itself is left alone.

On Slurm (``FIRN_TERM=checkpoint``) SIGTERM counts as the same order: Slurm sends
it when it preempts a job. A child process ends by it as without this module.
"""

from __future__ import annotations

import os
import signal
import threading

_heard = False
_owner = os.getpid()


def _note(number: int, frame: object) -> None:
    """The handler."""
    global _heard
    if number == signal.SIGTERM and os.getpid() != _owner:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _heard = True


def listen() -> None:
    """Notes SIGUSR1 from now on, if the program does nothing with it."""
    if threading.current_thread() is not threading.main_thread():
        return  # Python sets handlers in its main thread only
    numbers = [signal.SIGUSR1]
    if os.environ.get("FIRN_TERM") == "checkpoint":
        numbers.append(signal.SIGTERM)
    for number in numbers:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _note)


def heard() -> bool:
    """Did the signal come, since the last forget()?"""
    return _heard


def forget() -> None:
    """The order was obeyed."""
    global _heard
    _heard = False
