"""Policies written in Python: what they see and what they may plan.

A policy is a class with one method, ``decide(view, plan)``, as in C
(``include/firn/policy.h``)::

    class Smallest(Policy):
        name = "smallest"
        does = ("preempt", "move")

        def decide(self, view, plan):
            for job in sorted(view.jobs, key=lambda job: (job.gpus, job.id)):
                plan.give(job, job.gpus)

The library checks every plan and refuses a wrong one with a sentence. Objects
of a view are valid within ``decide`` only: they point into the library's
memory. A policy asked twice on the same view must plan the same, so it draws no
numbers of its own and reads no clock.
"""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Any, Iterable

from . import _simlib
from ._simlib import c_bool, c_char_p, c_double, c_int, c_size, c_void_p

DOES = {
    "preempt": 1,
    "resize": 2,
    "move": 4,
    "share": 8,
    "reject": 16,
    "merge": 32,
    "replan": 64,
}
NEEDS = {"durations": 1, "types": 2, "forecast": 4}
TUNES = {"batch": 1, "freeze": 2, "threads": 4, "executors": 8}
ANY_TYPE = -1
STATES = ("waiting", "running", "ended")


def bits(words: Iterable[str], table: dict[str, int], what: str) -> int:
    """A mask of words."""
    mask = 0
    for word in words:
        if word not in table:
            known = ", ".join(table)
            raise ValueError(f"{what} has '{word}'; known are {known}")
        mask |= table[word]
    return mask


@lru_cache(maxsize=None)
def _calls() -> dict[str, Any]:
    """The functions that views and plans use, with their types."""
    job = view = plan = c_void_p
    way = want = c_void_p
    table: dict[str, tuple[Any, ...]] = {
        "firn_view_jobs": (ctypes.POINTER(c_void_p), view),
        "firn_view_rate": (c_double, view, job, way),
        "firn_view_left_s": (c_double, view, job, way),
        "firn_view_slowdown": (c_double, view, job, job),
        "firn_view_gpus_max": (c_int, view, job, ctypes.c_uint),
        "firn_job_served_gpu_s": (c_double, job, c_double),
        "firn_job_done_s": (c_double, job, c_double),
        "firn_job_left_s": (c_double, job, c_double),
        "firn_job_may_merge": (c_bool, job, job),
        "firn_plan_keep_all": (None, plan),
        "firn_plan_keep": (c_bool, plan, job),
        "firn_plan_give": (c_bool, plan, job, c_int),
        "firn_plan_give_want": (c_bool, plan, job, want),
        "firn_plan_share": (c_bool, plan, job, job),
        "firn_plan_merge": (c_bool, plan, job, job),
        "firn_plan_drop": (None, plan, job),
        "firn_plan_reject": (None, plan, job, c_char_p),
        "firn_plan_mark": (c_size, plan),
        "firn_plan_undo": (None, plan, c_size),
        "firn_plan_free": (c_int, plan),
        "firn_plan_free_of": (c_int, plan, c_int),
        "firn_plan_of": (ctypes.POINTER(_simlib.struct("firn_alloc")), plan, job),
    }
    made = {name: _simlib.function(name, *types) for name, types in table.items()}
    note = _simlib.lib().firn_plan_note  # takes any number of arguments
    note.restype = None
    made["firn_plan_note"] = note
    return made


def gpus_of(alloc: Any) -> list[tuple[int, int]]:
    """The GPUs of an allocation, as (node, number)."""
    out = []
    for i in range(alloc.nparts):
        part = alloc.parts[i]
        mask = part.gpus
        while mask:
            low = mask & -mask
            out.append((part.node, 64 * part.board + low.bit_length() - 1))
            mask ^= low
    return out


class Job:
    """A job of a view: what its user asked, and how far it is."""

    __slots__ = ("_at", "_c", "_view")

    def __init__(self, at: int, view: View) -> None:
        self._at = at
        self._view = view
        self._c = _simlib.struct("firn_job").from_address(at)

    def __getattr__(self, name: str) -> Any:
        """Members of struct firn_job_spec and struct firn_job by their names."""
        inner = self._c
        try:
            value = getattr(inner.spec, name)
        except AttributeError:
            value = getattr(inner, name)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def __repr__(self) -> str:
        return f"<job {self.id} {self.name!r}, {self.state}>"

    @property
    def state(self) -> str:
        """waiting or running."""
        return STATES[self._c.state]

    @property
    def ngpus(self) -> int:
        """GPUs that it holds now."""
        return int(self._c.held.ngpus)

    @property
    def held(self) -> list[tuple[int, int]]:
        """The GPUs that it holds now, as (node, number)."""
        return gpus_of(self._c.held)

    @property
    def served_gpu_s(self) -> float:
        """GPU-seconds held until now."""
        return float(_calls()["firn_job_served_gpu_s"](self._at, self._view.now_s))

    @property
    def done_s(self) -> float:
        """Reference seconds done until now."""
        return float(_calls()["firn_job_done_s"](self._at, self._view.now_s))

    @property
    def left_s(self) -> float:
        """Seconds until it is done; needs = ("durations",)."""
        return float(_calls()["firn_job_left_s"](self._at, self._view.now_s))

    def may_merge_with(self, other: Job) -> bool:
        """May one set of processes train the two?"""
        return bool(_calls()["firn_job_may_merge"](self._at, other._at))


class View:
    """What a policy decides on: the jobs and the cluster of this moment."""

    def __init__(self, at: int, cluster: Any) -> None:
        c = _simlib.struct("firn_view").from_address(at)
        self._at = at
        self.now_s: float = c.now_s
        self.gpus_up: int = c.gpus_up
        self.gpus_free: int = c.gpus_free
        self.seed: int = c.seed
        found = _calls()["firn_view_jobs"](at)
        self.jobs: list[Job] = [Job(found[i], self) for i in range(c.njobs)]
        self.cluster = cluster if cluster else ClusterView(c.cluster.contents)

    @property
    def waiting(self) -> list[Job]:
        """Jobs without GPUs, by id."""
        return [job for job in self.jobs if job._c.state == 0]

    @property
    def running(self) -> list[Job]:
        """Jobs with GPUs, by id."""
        return [job for job in self.jobs if job._c.state == 1]

    def _way(self, gpus: int, type: str | int | None, nodes: int,
             tunes: Iterable[str]) -> Any:
        way = _simlib.struct("firn_way")()
        way.gpus, way.nodes = gpus, nodes
        way.type = self.cluster.type_id(type)
        way.tunes = bits(tunes, TUNES, "tunes")
        return way

    def rate(self, job: Job, gpus: int, type: str | int | None = None,
             nodes: int = 0, tunes: Iterable[str] = ()) -> float:
        """Expected reference seconds a second on these GPUs; NaN: not known."""
        way = self._way(gpus, type, nodes, tunes)
        return float(_calls()["firn_view_rate"](self._at, job._at,
                                                ctypes.addressof(way)))

    def left_s(self, job: Job, gpus: int, type: str | int | None = None,
               nodes: int = 0, tunes: Iterable[str] = ()) -> float:
        """Expected seconds until the job is done on these GPUs."""
        way = self._way(gpus, type, nodes, tunes)
        return float(_calls()["firn_view_left_s"](self._at, job._at,
                                                  ctypes.addressof(way)))

    def slowdown(self, job: Job, other: Job) -> float:
        """Step time of `job` beside `other` over that alone; NaN: not known."""
        return float(_calls()["firn_view_slowdown"](self._at, job._at, other._at))

    def gpus_max(self, job: Job, tunes: Iterable[str] = ()) -> int:
        """The most GPUs that the job can use."""
        mask = bits(tunes, TUNES, "tunes")
        return int(_calls()["firn_view_gpus_max"](self._at, job._at, mask))


class ClusterView:
    """The cluster of a view: types and nodes, read when they are asked for."""

    def __init__(self, c: Any) -> None:
        self._c = c
        self.ngpus: int = c.ngpus
        self.types: list[str] = [
            c.types[i].name.decode() for i in range(c.ntypes)
        ]

    def type_id(self, type: str | int | None) -> int:
        """The number of a type by its name; None: any type."""
        if type is None:
            return ANY_TYPE
        if isinstance(type, int):
            return type
        if type not in self.types:
            known = ", ".join(self.types)
            raise ValueError(f"the cluster has no GPUs of type '{type}', but {known}")
        return self.types.index(type)

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Each node: id, type, ngpus, rack, is_up."""
        out = []
        for i in range(self._c.nnodes):
            node = _simlib.as_dict(self._c.nodes[i])
            node["type"] = self.types[node["type"]]
            out.append(node)
        return out


class Plan:
    """What each job shall hold. It begins empty: a job that the policy does not
    mention loses its GPUs, unless :meth:`keep_all` was called first."""

    def __init__(self, at: int, view: View) -> None:
        self._at = at
        self._view = view

    def keep_all(self) -> None:
        """All running jobs stay as they are, unless mentioned later."""
        _calls()["firn_plan_keep_all"](self._at)

    def keep(self, job: Job) -> bool:
        """The job keeps what it holds; False: these GPUs are taken."""
        return bool(_calls()["firn_plan_keep"](self._at, job._at))

    def give(self, job: Job, gpus: int, *, types: Iterable[str] = (),
             one_type: bool = False, fastest: bool = False,
             one_node: bool = False, shared: bool = False) -> bool:
        """Gives the job `gpus` GPUs; False, and no change: there is no room."""
        if not (types or one_type or fastest or one_node or shared):
            return bool(_calls()["firn_plan_give"](self._at, job._at, gpus))
        want = _simlib.struct("firn_want")()
        want.gpus = gpus
        for name in types:
            want.types |= 1 << self._view.cluster.type_id(name)
        want.one_type, want.fastest = one_type, fastest
        want.one_node, want.shared = one_node, shared
        return bool(_calls()["firn_plan_give_want"](self._at, job._at,
                                                    ctypes.addressof(want)))

    def share(self, job: Job, host: Job) -> bool:
        """Half-shares of the GPUs that `host` has as half-shares."""
        return bool(_calls()["firn_plan_share"](self._at, job._at, host._at))

    def merge(self, job: Job, host: Job) -> bool:
        """Trains the two together on the GPUs of `host`."""
        return bool(_calls()["firn_plan_merge"](self._at, job._at, host._at))

    def drop(self, job: Job) -> None:
        """The job holds nothing."""
        _calls()["firn_plan_drop"](self._at, job._at)

    def reject(self, job: Job, reason: str) -> None:
        """The job will never be run."""
        _calls()["firn_plan_reject"](self._at, job._at, reason.encode())

    def note(self, job: Job, text: str) -> None:
        """Why the job waits, for people."""
        _calls()["firn_plan_note"](c_void_p(self._at), c_void_p(job._at),
                                   c_char_p(b"%s"), c_char_p(text.encode()))

    def mark(self) -> int:
        """A point to which :meth:`undo` takes the plan back."""
        return int(_calls()["firn_plan_mark"](self._at))

    def undo(self, mark: int) -> None:
        """Undoes everything since the mark."""
        _calls()["firn_plan_undo"](self._at, mark)

    @property
    def free(self) -> int:
        """GPUs that no job has in this plan."""
        return int(_calls()["firn_plan_free"](self._at))

    def free_of(self, type: str) -> int:
        """Those of one type."""
        at = self._view.cluster.type_id(type)
        return int(_calls()["firn_plan_free_of"](self._at, at))

    def of(self, job: Job) -> list[tuple[int, int]]:
        """The GPUs that the job has in this plan, as (node, number)."""
        return gpus_of(_calls()["firn_plan_of"](self._at, job._at).contents)


_DECIDE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
_WAKE = ctypes.CFUNCTYPE(c_double, c_void_p, c_void_p)


class Policy:
    """Base of policies in Python: set `name` and `does`, write `decide`."""

    name = "python"
    """[a-z0-9-]+"""
    summary = "a policy in Python"
    does: Iterable[str] = ()
    """The steps that it plans: preempt, resize, move, share, reject, merge."""
    needs: Iterable[str] = ()
    """What it reads: durations, types, forecast."""
    tunes: Iterable[str] = ()
    """What it leaves to trainers: batch, freeze, threads."""
    ages = False
    """A job that has run for 100 hours gives way to a new one."""

    def decide(self, view: View, plan: Plan) -> None:
        """Writes into `plan` what each job holds from now on."""
        raise NotImplementedError("decide")

    def wake_s(self, view: View) -> float:
        """When to decide again if nothing happens; infinity: not at all."""
        return math.inf

    def definition(self) -> Any:
        """A struct firn_policy_def that calls this object. The object must live
        as long as the library uses it. An exception of the policy ends the
        run; :meth:`reraise` raises it."""
        self._raised: BaseException | None = None
        self.decide_calls = 0
        made = _simlib.struct("firn_policy_def")()
        made.size = ctypes.sizeof(made)
        made.name = self.name.encode()
        made.summary = self.summary.encode()
        made.does = bits(self.does, DOES, "does")
        made.needs = bits(self.needs, NEEDS, "needs")
        made.tunes = bits(self.tunes, TUNES, "tunes")
        made.ages = self.ages
        made.state_size = 1
        self._decide = _DECIDE(self._decide_c)
        self._wake = _WAKE(self._wake_c)
        made.decide = ctypes.cast(self._decide, c_void_p)
        if type(self).wake_s is not Policy.wake_s:
            made.wake_s = ctypes.cast(self._wake, c_void_p)
        return made

    def reraise(self) -> None:
        """Raises what the policy raised while the library called it."""
        raised = self._raised
        self._raised = None
        if raised is not None:
            raise raised

    def interrupt(self) -> None:
        """Ends the run after this decision."""
        self._raised = KeyboardInterrupt()

    def _decide_c(self, state: int, view: int, plan: int) -> int:
        self.decide_calls += 1
        try:
            seen = View(view, None)
            self.decide(seen, Plan(plan, seen))
        except BaseException as raised:  # it must not cross the C code
            self._raised = raised
        return 0 if self._raised is None else _simlib.EREFUSED_BY_US

    def _wake_c(self, state: int, view: int) -> float:
        try:
            return float(self.wake_s(View(view, None)))
        except BaseException as raised:
            self._raised = raised
            return math.inf
