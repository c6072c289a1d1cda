"""A process that firn starts before the GPUs of its job are free.

``firn.ahead.wait()`` stands behind what needs no GPU (imports, data, a model
built on the host) and before the first use of one::

    import torch, firn.ahead, firn.torch
    model, data = build()          # on the host
    firn.ahead.wait()              # returns when the job has its GPUs
    model.cuda()

A trainer that calls it reports the ability "ahead", and firn may start its next
jobs early: they wait in the call. In any other process the call returns at
once. A process that was started early sees no GPU until then; if the program
has asked CUDA for GPUs before the call, CUDA would never see one in this
process, and the program is executed again from its beginning.
"""

from __future__ import annotations

import ctypes
import os
import sys

from firn._lib import lib


def _environment() -> dict[bytes, bytes]:
    """The variables of the process as C has them."""
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found: dict[bytes, bytes] = {}
    i = 0
    while environ and environ[i] is not None:
        name, is_set, value = environ[i].partition(b"=")
        if is_set:
            found.setdefault(name, value)
        i += 1
    return found


def _follow() -> None:
    """``os.environ`` gets what came through the gate."""
    new = _environment()
    for name in list(os.environb):
        if name not in new:
            del os.environb[name]
    for name, value in new.items():
        if os.environb.get(name) != value:
            os.environb[name] = value


def _is_blind() -> bool:
    """Has CUDA been asked for GPUs while there were none to be seen?"""
    torch = sys.modules.get("torch")
    if torch is None or not os.environ.get("CUDA_VISIBLE_DEVICES"):
        return False
    if torch.version.cuda is None or not os.path.exists("/dev/nvidiactl"):
        return False  # there are none
    return torch._C._cuda_getDeviceCount() == 0


def wait() -> bool:
    """Returns when the job has its GPUs: at once unless the process was started
    early. True: it was, and ``os.environ`` is that of the start. Call it in the
    main thread."""
    if not lib().firn_ahead_wait():
        return False
    _follow()
    if _is_blind():
        print(
            "firn: CUDA was asked for GPUs before firn.ahead.wait(): the program "
            "begins again",
            file=sys.stderr,
            flush=True,
        )
        os.execv(sys.executable, sys.orig_argv)
    return True
