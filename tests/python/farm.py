"""farm.py - runs of P processes, forked from this one so that nothing is
imported twice.

A run is a function called in each of P children with torchrun's variables in
the environment; it returns a dictionary, and those of all children are put
together. Two runs are compared key by key, so that a failure says what differs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import socket
import struct
import sys
import traceback
from typing import Any, Callable

import torch

torch.set_num_threads(1)
torch.backends.mkldnn.enabled = False

_weight = torch.nn.Parameter(torch.zeros(1))
_weight.grad = torch.zeros(1)
for _kind in (torch.optim.SGD, torch.optim.Adam):
    _kind([_weight], lr=0.1).step()  # imports modules, so that no child has to

_jobs = itertools.count(1)
_held: list[socket.socket] = []
LIMIT_S = 3600 if os.environ.get("FIRN_SOAK") else 180


def digest(*parts: Any) -> str:
    """A short hash of tensors and bytes."""
    hashed = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.Tensor):
            part = part.detach().cpu().contiguous().numpy().tobytes()
        hashed.update(part)
    return hashed.hexdigest()[:16]


def free_port() -> int:
    """A port that is kept from others, as its two neighbours are (a partner's
    group has the second), until the next one is asked for; who binds with
    SO_REUSEADDR, as gloo and groups do, gets it."""
    while True:
        pair = [socket.socket() for _ in range(3)]
        try:
            port = 0
            for s in pair:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("127.0.0.1", port))
                port = s.getsockname()[1] + 1
        except (OSError, OverflowError):
            for s in pair:
                s.close()
            continue
        for s in _held:
            s.close()
        _held[:] = pair
        return port - 3


def _child(out: int, work: Callable[[], dict], env: dict[str, str]) -> None:
    """What a forked process does; never returns."""
    os.environ.update(env)
    signal.alarm(LIMIT_S)
    status = 0
    try:
        # PyTorch makes its pool anew after a fork, without a lock: here, before
        # threads of autograd do it at once and find none.
        torch.set_num_threads(torch.get_num_threads())
        result = work()
    except SystemExit as end:
        result, status = {}, int(end.code or 0)
    except BaseException:
        result, status = {"error": traceback.format_exc()}, 1
    data = json.dumps(result).encode()
    os.write(out, struct.pack("<Q", len(data)) + data)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def start(
    nprocs: int, work: Callable[[], dict], **env: str
) -> list[tuple[int, int]]:
    """P children: (process id, pipe) of each."""
    port = free_port()
    shared = {
        "WORLD_SIZE": str(nprocs),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "FIRN_JOB": f"case-{os.getpid()}-{next(_jobs)}",
    }
    children = []
    for rank in range(nprocs):
        back, out = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(back)
            mine = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            _child(out, work, {**shared, **mine, **env})
        os.close(out)
        children.append((pid, back))
    return children


def finish(children: list[tuple[int, int]], expected: int = 0) -> dict:
    """What all children returned; each ended with this status."""
    merged: dict = {}
    failures = []
    for pid, back in children:
        with os.fdopen(back, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(pid, 0)
        ended = os.waitstatus_to_exitcode(status)
        result = json.loads(data[8:]) if len(data) > 8 else {}
        if ended != expected:
            failures.append(f"ended with {ended}: {result.get('error', '')}")
        merged.update(result)
    if failures:
        raise AssertionError("\n".join(failures))
    return merged


def run(nprocs: int, work: Callable[[], dict], **env: str) -> dict:
    """A run to its end."""
    return finish(start(nprocs, work, **env))


def differing(left: dict, right: dict) -> list[str]:
    """Keys with different values, sorted."""
    return sorted(k for k in left.keys() | right.keys() if left.get(k) != right.get(k))
