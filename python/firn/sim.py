"""The simulator from Python: traces, clusters, policies, results.

    from firn import sim

    result = sim.run("traces/quickstart.csv", "16x4:t4", "tiresias")
    print(result["jct_mean_s"], result.jobs[0])

Everything runs in libfirn, in this process; nothing of a policy is repeated
here. Results are dicts, and pandas frames where pandas is installed
(``result.frame()``, ``frame(results)``). ``run_many`` uses all cores. A policy of
your own is a class (:class:`firn.simpolicy.Policy`); docs/python-sim.md has
examples.
"""

from __future__ import annotations

import csv
import ctypes
import io
import multiprocessing
import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Sequence

from . import _simlib
from ._lib import Error, FirnError
from ._simlib import c_double, c_int, c_void_p
from .simpolicy import Job, Plan, Policy, View

__all__ = ["Cluster", "FirnError", "Job", "Plan", "Policy", "Result", "Trace",
           "View", "frame", "policies", "run", "run_many"]

_FREEZE = ("policy", "off", "freezeout", "tuned-freezeout", "penalty")
_FORECAST = ("fit", "tables", "pollux", "data")


def policies() -> list[str]:
    """The names of the policies that are built in."""
    find = _simlib.function("firn_policies", ctypes.POINTER(c_void_p),
                            ctypes.POINTER(ctypes.c_size_t))
    count = ctypes.c_size_t()
    found = find(ctypes.byref(count))
    cls = _simlib.struct("firn_policy_def")
    return [cls.from_address(found[i]).name.decode() for i in range(count.value)]


class Cluster:
    """Nodes of several GPU types.

    ``Cluster("16x4:t4,2x8:a100@80")`` reads a spec, a preset of ``firn cluster
    list`` or a YAML file; ``Cluster.build([...])`` makes one of nodes.
    """

    def __init__(self, text: str | None = None) -> None:
        self._c = _simlib.struct("firn_cluster")()
        self.source = text or "built"
        if text is not None:
            _simlib.call("firn_cluster_open", ctypes.byref(self._c), text.encode())

    @classmethod
    def build(cls, nodes: Iterable[Mapping[str, Any]], name: str = "built",
              types: Iterable[Mapping[str, Any]] = (),
              jobs_per_gpu: int = 2) -> Cluster:
        """Nodes as ``{"count": 4, "gpus": 8, "type": "v100"}``; types that firn
        does not know as ``{"name": "x", "memory_gib": 48, "speed": 1.2}``."""
        lines = [f"name: {name}", f"jobs_per_gpu: {jobs_per_gpu}"]
        for title, rows in (("types", list(types)), ("nodes", list(nodes))):
            if rows:
                lines.append(f"{title}:")
            for row in rows:
                pairs = [f"{key}: {value}" for key, value in row.items()]
                lines.append("  - {" + ", ".join(pairs) + "}")
        text = ("\n".join(lines) + "\n").encode()
        made = cls()
        given = _simlib.struct("firn_bytes")()
        given.at, given.n = text, len(text)
        _simlib.call("firn_cluster_parse_yaml", ctypes.byref(made._c), given,
                     b"Cluster.build")
        made.source = name
        return made

    def __del__(self) -> None:
        if getattr(self, "_c", None) is not None:
            release = _simlib.lib().firn_cluster_release
            release.restype = None
            release(ctypes.byref(self._c))

    def __len__(self) -> int:
        return int(self._c.ngpus)

    @property
    def name(self) -> str:
        """Its name, a preset's, or the spec."""
        return str(self._c.name.decode())

    @property
    def types(self) -> list[dict[str, Any]]:
        """Each GPU type: name, mem_gib, speed, ngpus."""
        return [_simlib.as_dict(self._c.types[i]) for i in range(self._c.ntypes)]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Each node: id, type, ngpus, rack, is_up."""
        out = []
        for i in range(self._c.nnodes):
            node = _simlib.as_dict(self._c.nodes[i])
            node["type"] = self._c.types[node["type"]].name.decode()
            out.append(node)
        return out


# Members of struct firn_job_spec -> columns of firn's own CSV.
_COLUMNS = {"is_nominal": "nominal"}
_KEPT = ("name", "submit_s", "gpus", "duration_s", "gpus_min", "gpus_max", "app",
         "group", "batch", "priority", "mem_gib", "types", "may_share",
         "restart_s", "is_nominal", "seq", "may_merge", "frozen_max", "threads",
         "one_type", "best_effort")


class Trace:
    """Jobs in order of submission, each a dict.

    ``Trace.load(path)`` reads any format of ``firn trace formats`` (``path#group``
    for one group); ``Trace(rows)`` takes dicts with at least ``submit_s``,
    ``gpus`` and ``duration_s``; keys are the columns of docs/trace-formats.md.
    """

    def __init__(self, jobs: Iterable[Mapping[str, Any]], name: str = "trace") -> None:
        self.name = name
        self.jobs: list[dict[str, Any]] = []
        for i, job in enumerate(jobs):
            row = {"name": f"job-{i}", **job}
            for key in ("submit_s", "gpus", "duration_s"):
                if key not in row:
                    raise ValueError(f"job {row['name']} has no {key}")
            self.jobs.append(row)
        self.jobs.sort(key=lambda row: float(row["submit_s"]))
        self._file: tempfile._TemporaryFileWrapper[str] | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """All jobs of a file. Rows that are no jobs are in ``.bad_rows``."""
        opened = c_void_p()
        options = _simlib.struct("firn_trace_options")()
        _simlib.call("firn_trace_open", ctypes.byref(opened),
                     os.fspath(path).encode(), ctypes.byref(options))
        made = cls([], name=Path(os.fspath(path).split("#")[0]).stem)
        following = _simlib.function("firn_trace_next", ctypes.c_bool, c_void_p,
                                     c_void_p, c_void_p)
        spec, error = _simlib.struct("firn_job_spec")(), Error()
        while following(opened, ctypes.byref(spec), ctypes.byref(error)):
            row = _simlib.as_dict(spec)
            made.jobs.append({key: row[key] for key in _KEPT})
        close = _simlib.lib().firn_trace_close
        close.restype = None
        close(opened)
        return made

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.jobs)

    def csv(self) -> str:
        """The jobs in firn's own format."""
        names: list[str] = []
        for job in self.jobs:
            names += [name for name in job if name not in names]
        out = io.StringIO()
        out.write("#firn-trace 1\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([_COLUMNS.get(name, name) for name in names])
        for job in self.jobs:
            writer.writerow([_cell(job, name) for name in names])
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes firn's own format, which every command reads."""
        Path(path).write_text(self.csv())

    def path(self) -> str:
        """A file with these jobs, for as long as the trace lives."""
        if self._file is None:
            self._file = tempfile.NamedTemporaryFile(
                "w", prefix="firn-", suffix=".csv")
        self._file.seek(0)
        self._file.truncate()
        self._file.write(self.csv())
        self._file.flush()
        return self._file.name

    def frame(self) -> Any:
        """The jobs as a pandas frame."""
        return _pandas().DataFrame(self.jobs)


def _cell(job: Mapping[str, Any], name: str) -> str:
    """One field of firn's CSV."""
    value = job.get(name, "")
    if value is None or (name in ("gpus_min", "gpus_max") and value == 0):
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise FirnError("frames need pandas: pip install pandas") from None
    return pandas


class Result(dict[str, Any]):
    """The numbers of one simulation by their names (docs/simulator.md), and
    what happened: ``jobs`` and ``timeline`` are lists of dicts."""

    jobs: list[dict[str, Any]]
    timeline: list[dict[str, Any]]
    classes: list[dict[str, Any]]
    groups: list[dict[str, Any]]

    def frame(self, what: str = "jobs") -> Any:
        """The jobs or the timeline as a pandas frame."""
        return _pandas().DataFrame(getattr(self, what))

    def __reduce__(self) -> Any:
        return (_again, (dict(self), dict(self.__dict__)))


def _again(numbers: dict[str, Any], rest: dict[str, Any]) -> Result:
    made = Result(numbers)
    made.__dict__.update(rest)
    return made


def frame(results: Iterable[Result]) -> Any:
    """Several results as a pandas frame, one row each."""
    return _pandas().DataFrame([dict(result) for result in results])


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    if value.is_integer() and "." not in text and "e" not in text:
        return int(value)
    return value


_TEXTS = ("name", "app", "group")


def _rows(path: str) -> list[dict[str, Any]]:
    with open(path, newline="", encoding="utf-8") as file:
        return [{key: value if key in _TEXTS else _number(value)
                 for key, value in row.items()} for row in csv.DictReader(file)]


class _Call:
    """The options of one run, and all that must live as long as they do."""

    def __init__(self, trace: Any, cluster: Any, policy: Any,
                 settings: Mapping[str, Any], options: Mapping[str, Any],
                 folder: str) -> None:
        self.kept: list[Any] = []
        self.cluster = cluster if isinstance(cluster, Cluster) else Cluster(cluster)
        self.c = _simlib.struct("firn_sim_options")()
        init = _simlib.function("firn_sim_options_init", None, c_void_p,
                                ctypes.c_size_t)
        init(ctypes.addressof(self.c), ctypes.sizeof(self.c))
        trace = trace if isinstance(trace, (Trace, str)) else os.fspath(trace)
        self.trace = trace
        path = trace.path() if isinstance(trace, Trace) else trace
        self.c.trace = path.encode()
        self.c.cluster = ctypes.addressof(self.cluster._c)
        self.policy = policy
        if isinstance(policy, Policy):
            self.definition = policy.definition()
            self.c.policy_def = ctypes.addressof(self.definition)
        else:
            self.c.policy = policy.encode()
        self._set_policy_options(settings)
        for name, value in options.items():
            self._set(name, value)
        for name in ("jobs", "timeline"):
            setattr(self.c, f"{name}_path", f"{folder}/{name}".encode())
        self._watch()

    def _set_policy_options(self, settings: Mapping[str, Any]) -> None:
        texts = [f"{name}={int(value) if isinstance(value, bool) else value}".encode()
                 for name, value in settings.items()]
        array = (ctypes.c_char_p * max(1, len(texts)))(*texts)
        self.kept.append(array)
        self.c.settings = ctypes.addressof(array)
        self.c.nsettings = len(texts)

    def _set(self, name: str, value: Any) -> None:
        if name == "noise":
            for part, size in value.items():
                if not hasattr(self.c.noise, part):
                    raise TypeError(f"noise has no part '{part}'")
                setattr(self.c.noise, part, size)
            return
        if name == "freeze":
            value = _FREEZE.index(value)
        elif name == "forecast":
            value = _FORECAST.index(value)
        kinds = dict(self.c._fields_)
        hidden = ("size", "trace", "world", "cluster", "policy", "policy_def",
                  "settings", "nsettings", "progress", "progress_arg", "stop",
                  "restarts", "nrestarts", "jobs_path", "timeline_path")
        if name not in kinds or name in hidden:
            known = ", ".join(key for key in kinds if key not in hidden
                              and not key.startswith("_gap"))
            raise TypeError(f"run() has no option '{name}'; known are {known}")
        setattr(self.c, name, value.encode() if isinstance(value, str) else value)

    def _watch(self) -> None:
        """A callback now and then, in which Python looks for signals."""
        self.stop = c_int(0)
        self.look = ctypes.CFUNCTYPE(None, c_void_p, c_double)(lambda *_: None)
        self.c.progress = ctypes.cast(self.look, c_void_p)
        self.c.stop = ctypes.addressof(self.stop)

    def _interrupt(self, *_: Any) -> None:
        self.stop.value = 1
        if isinstance(self.policy, Policy):
            self.policy.interrupt()

    def run(self) -> Any:
        """Runs it; the C result."""
        out, error = _simlib.struct("firn_sim_result")(), Error()
        start = _simlib.function("firn_sim_run", c_int, c_void_p, c_void_p, c_void_p)
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._interrupt) if is_main else None
        try:
            status = start(ctypes.addressof(self.c), ctypes.addressof(out),
                           ctypes.addressof(error))
        finally:
            if is_main:
                signal.signal(signal.SIGINT, before)
        if isinstance(self.policy, Policy):
            self.policy.reraise()
        if self.stop.value:
            raise KeyboardInterrupt
        if status != 0:
            raise FirnError(error.sentence(), status)
        return out


def run(trace: Trace | str | os.PathLike[str], cluster: Cluster | str,
        policy: Policy | str, settings: Mapping[str, Any] | None = None,
        **options: Any) -> Result:
    """Simulates a trace on a cluster under a policy.

    `policy` is a name of :func:`policies` or an object of a class of your own.
    `settings` are options of the policy: ``{"fifo.skip": True}``. `options` are
    the members of struct firn_sim_options (include/firn/sim.h): ``profiles=
    "builtin"``, ``seed=2``, ``restart_s=60``, ``elastic_min=1``, ``noise={
    "throughput": 0.2}``, ``freeze="off"``, ``log_path="events.tsv"`` and so on. An
    error, also one that the policy raises, is raised here.
    """
    with tempfile.TemporaryDirectory(prefix="firn-") as folder:
        call = _Call(trace, cluster, policy, settings or {}, options, folder)
        out = call.run()
        made = Result(_simlib.as_dict(out, skip=("first_bad",)))
        made.jobs = _rows(f"{folder}/jobs")
        made.timeline = _rows(f"{folder}/timeline")
    if isinstance(trace, Trace):
        made["trace"] = trace.name
    made.classes = [_simlib.as_dict(one) for one in out.classes]
    made.groups = [_simlib.as_dict(out.groups[i]) for i in range(out.ngroups)]
    return made


_tasks: list[Mapping[str, Any]] = []


def _run_task(at: int) -> Result | Exception:
    try:
        return run(**_tasks[at])
    except Exception as raised:
        return raised


def run_many(tasks: Sequence[Mapping[str, Any]], workers: int | None = None,
             errors: str = "raise") -> list[Any]:
    """Runs many simulations on all cores, results in the order of the tasks.

    A task is a dict of the arguments of :func:`run`. `workers` defaults to the
    processors of this process. A task that fails raises its error, or stands in
    the list with ``errors="return"``. Processes are forked, so policies in
    Python and traces need not be pickled.
    """
    global _tasks
    count = workers or len(os.sched_getaffinity(0))
    _simlib.lib()
    _tasks = list(tasks)
    try:
        if count == 1 or len(_tasks) < 2:
            done = [_run_task(i) for i in range(len(_tasks))]
        else:
            context = multiprocessing.get_context("fork")
            with context.Pool(min(count, len(_tasks))) as pool:
                done = pool.map(_run_task, range(len(_tasks)), chunksize=1)
    finally:
        _tasks = []
    if errors == "raise":
        for one in done:
            if isinstance(one, Exception):
                raise one
    return done
