"""SIGUSR1 before training begins: noted, and obeyed at the first boundary.

The signal's default action ends a process at once, with a status that looks
like a failure. From the moment ``firn.torch`` is imported it is noted instead;
a job that opens later finds the order to stop, all its processes agree, and it
ends with status 83. A program that handles SIGUSR1 itself is left alone.
"""

from __future__ import annotations

import signal
import threading

_heard = False


def _note(number: int, frame: object) -> None:
    """The handler."""
    global _heard
    _heard = True


def listen() -> None:
    """Notes SIGUSR1 from now on, if the program does nothing with it."""
    if threading.current_thread() is not threading.main_thread():
        return  # Python sets handlers in its main thread only
    if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, _note)


def heard() -> bool:
    """Did the signal come, since the last forget()?"""
    return _heard


def forget() -> None:
    """The order was obeyed."""
    global _heard
    _heard = False
