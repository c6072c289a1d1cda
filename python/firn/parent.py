"""A process that ends with its parent, also when the parent is killed.

A daemon process of multiprocessing is ended by its parent's exit handlers,
which kill -9 does not run. ``end_with_parent()`` starts a thread that ends the
process within a second of its parent's end: it watches the number of the parent,
which changes when the parent is gone. On Linux the kernel is asked for a signal
as well (PR_SET_PDEATHSIG), which comes at once; that is for the parent *thread*,
so it is asked for only where the main thread started the process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1


def _watch(parent: int) -> None:
    """Ends this process when another process is its parent."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def end_with_parent(parent: int, by_main_thread: bool) -> None:
    """Call it in the child; ``parent`` is the number of the parent process."""
    if by_main_thread and sys.platform == "linux":
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        except (OSError, AttributeError):
            pass  # the thread below is enough
    if os.getppid() != parent:  # it ended before it could be watched
        os._exit(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
