"""The C library, by ctypes: structures, signatures, errors.

Nothing here knows torch. Each C function that returns a status and takes a
``struct firn_error *`` last is called through :func:`call`, which turns a
failure into :class:`FirnError` with the library's own sentence. The library is
looked for in this order: ``FIRN_TRAIN_LIB``; beside this package (where
``pip install`` puts it); ``FIRN_BUILD``; ``build/`` of the source tree; the
system's libraries.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from pathlib import Path
from typing import Any

c_int, c_size, c_double = ctypes.c_int, ctypes.c_size_t, ctypes.c_double
c_u64, c_i64, c_u32 = ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint32
c_bool, c_char_p, c_void_p = ctypes.c_bool, ctypes.c_char_p, ctypes.c_void_p
c_float, c_uint = ctypes.c_float, ctypes.c_uint
POINTER = ctypes.POINTER

ENOENT = 2
EINVAL = 1
EIO = 4
EXIT_CHECKPOINT = 83
EMBEDDING = 32  # numbers of a task's embedding, at most
STEP_PARTS = ("data", "forward", "backward", "switch", "reduce", "update")


class FirnError(Exception):
    """A failure of the library: ``str()`` is its sentence."""

    def __init__(self, text: str, status: int = EINVAL) -> None:
        super().__init__(text)
        self.status = status


class Error(ctypes.Structure):
    """struct firn_error"""

    _fields_ = [("status", c_int), ("text", ctypes.c_char * 512)]

    def sentence(self) -> str:
        """Its text."""
        return self.text.decode("utf-8", "replace")


class GroupConfig(ctypes.Structure):
    """struct firn_group_config"""

    _fields_ = [
        ("name", c_char_p),
        ("rank", c_int),
        ("nprocs", c_int),
        ("local_rank", c_int),
        ("local_nprocs", c_int),
        ("nthreads", c_int),
        ("owner", POINTER(c_int)),
        ("nelements", c_size),
        ("chain", c_bool),
        ("sum", c_int),
        ("address", c_char_p),
        ("port", c_int),
        ("key", c_char_p),
        ("timeout_s", c_double),
    ]


class Section(ctypes.Structure):
    """struct firn_ckpt_section"""

    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("ndims", c_uint),
        ("dims", c_u64 * 8),
        ("data", c_void_p),
        ("nbytes", c_u64),
    ]


class Difference(ctypes.Structure):
    """struct firn_ckpt_difference"""

    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int),
        ("nelements", c_u64),
        ("ndiffer", c_u64),
        ("first", c_u64),
        ("left", c_double),
        ("right", c_double),
        ("largest", c_double),
    ]


class Sampler(ctypes.Structure):
    """struct firn_sampler"""

    _fields_ = [
        ("nsamples", c_u64),
        ("seed", c_u64),
        ("nthreads", c_int),
        ("batch", c_int),
        ("shuffle", c_bool),
        ("drop_last", c_bool),
    ]


class FeedConfig(ctypes.Structure):
    """struct firn_feed_config"""

    _fields_ = [
        ("threads", POINTER(c_int)),
        ("nthreads", c_size),
        ("nworkers", c_int),
        ("state_max", c_size),
        ("prefetch", c_int),
    ]


class FeedRequest(ctypes.Structure):
    """struct firn_feed_request"""

    _fields_ = [
        ("thread", c_int),
        ("worker", c_int),
        ("batch", c_u64),
        ("state", c_void_p),
        ("nstate", c_size),
    ]


class BatchNoise(ctypes.Structure):
    """struct firn_batch_noise"""

    _fields_ = [("variance", c_double), ("square", c_double)]


class TrainerReport(ctypes.Structure):
    """struct firn_trainer_report"""

    _fields_ = [
        ("step", c_u64),
        ("epoch", c_u64),
        ("progress", c_double),
        ("effective", c_double),
        ("step_s", c_double),
        ("part_s", c_double * len(STEP_PARTS)),
        ("loss", c_double),
        ("metric", c_double),
        ("memory_mib", c_double),
        ("utilisation", c_double),
        ("batch", c_int),
        ("passes", c_int),
        ("nfrozen", c_int),
        ("nthreads", c_int),
        ("nprocs", c_int),
        ("psi", c_double),
        ("variance", POINTER(c_double)),
        ("nlayers", c_size),
        ("prepare_s", c_double),
        ("embedding", c_double * EMBEDDING),
        ("nembedding", c_int),
        ("can", c_int),
    ]


class Orders(ctypes.Structure):
    """struct firn_orders: a negative number is no order."""

    _fields_ = [
        ("nfrozen", c_int),
        ("passes", c_int),
        ("stop", c_int),
        ("batch", c_int),
    ]


class ReporterConfig(ctypes.Structure):
    """struct firn_reporter_config"""

    _fields_ = [
        ("url", c_char_p),
        ("job", c_char_p),
        ("token", c_char_p),
        ("attempt", c_i64),
        ("pause_max_s", c_double),
        ("catch_signal", c_bool),
    ]


class Freeze(ctypes.Structure):
    """struct firn_freeze"""

    _fields_ = [
        ("nlayers", c_size),
        ("nfrozen", c_size),
        ("value", POINTER(c_double)),
        ("prefix", POINTER(c_double)),
    ]


class Tuner(ctypes.Structure):
    """struct firn_tuner"""

    _fields_ = [
        ("max_share", c_double),
        ("warmup", c_double),
        ("hysteresis", c_double),
        ("layer_step", c_size),
    ]


class FreezeOut(ctypes.Structure):
    """struct firn_freezeout"""

    _fields_ = [("first", c_double), ("cubic", c_bool), ("scaled", c_bool)]


class FreezerAsk(ctypes.Structure):
    """struct firn_freezer_ask"""

    _fields_ = [
        ("step", c_u64),
        ("epoch", c_u64),
        ("progress", c_double),
        ("variance", POINTER(c_double)),
        ("forward_s", c_double),
        ("backward_s", c_double),
        ("rest_s", c_double),
    ]


FREEZER_USER = ctypes.CFUNCTYPE(
    c_size, c_void_p, POINTER(FreezerAsk), POINTER(Freeze)
)


class FreezerConfig(ctypes.Structure):
    """struct firn_freezer_config"""

    _fields_ = [
        ("nlayers", c_size),
        ("flops", POINTER(c_double)),
        ("nelements", POINTER(c_u64)),
        ("rule", c_int),
        ("tuner", Tuner),
        ("warmup_epochs", c_u64),
        ("freezeout", FreezeOut),
        ("user", FREEZER_USER),
        ("arg", c_void_p),
        ("frozen_max", c_double),
    ]


class Decision(ctypes.Structure):
    """struct firn_decision"""

    _fields_ = [
        ("step", c_u64),
        ("epoch", c_u64),
        ("kind", c_u32),
        ("value", c_u32),
        ("psi", c_double),
    ]


class TaskMix(ctypes.Structure):
    """struct firn_task_mix"""

    _fields_ = [
        ("mode", c_int),
        ("ntasks", c_size),
        ("nsamples", POINTER(c_u64)),
        ("nepochs", c_u64),
        ("seed", c_u64),
    ]


class TaskGuard(ctypes.Structure):
    """struct firn_task_guard"""

    _fields_ = [("margin", c_double), ("epochs", c_u64)]


class Pass(ctypes.Structure):
    """struct firn_pass"""

    _fields_ = [("start", c_size), ("size", c_size), ("weight", c_double)]


class JoinTold(ctypes.Structure):
    """struct firn_join_told"""

    _fields_ = [
        ("state", c_int),
        ("can", c_int),
        ("pause_s", c_double),
        ("prepare_s", c_double),
        ("step", c_u64),
        ("why", ctypes.c_char * 200),
    ]


SWITCH_PREPARE = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Error))


class SwitchStage(ctypes.Structure):
    """struct firn_switch_stage"""

    _fields_ = [
        ("name", c_char_p),
        ("prepare", SWITCH_PREPARE),
        ("arg", c_void_p),
    ]


class SwitchTimes(ctypes.Structure):
    """struct firn_switch_times"""

    _fields_ = [
        ("prepare_s", c_double),
        ("waited_s", c_double),
        ("stage_s", c_double * 8),
    ]


TELL = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Difference))
_ERR = POINTER(Error)
_OUT = POINTER(c_void_p)

# name: (result, arguments); a result of None is void, "status" is checked.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "firn_fold_f32": (None, [c_void_p, POINTER(c_void_p), c_size, c_size, c_float]),
    "firn_fold_tree_f32": (
        None,
        [c_void_p, POINTER(c_void_p), POINTER(c_size), c_size, c_size, c_float],
    ),
    "firn_fold_f64": (None, [c_void_p, POINTER(c_void_p), c_size, c_size, c_double]),
    "firn_fold_add_f32": (None, [c_void_p, c_void_p, c_size]),
    "firn_fold_add_f64": (None, [c_void_p, c_void_p, c_size]),
    "firn_fold_scale_f32": (None, [c_void_p, c_size, c_float]),
    "firn_fold_scale_f64": (None, [c_void_p, c_size, c_double]),
    "firn_fold_flatten": (
        None,
        [c_void_p, POINTER(c_void_p), POINTER(c_size), c_size],
    ),
    "firn_fold_spread": (None, [POINTER(c_void_p), c_void_p, POINTER(c_size), c_size]),
    "firn_fold_ring_f32": (None, [c_void_p, POINTER(c_void_p), c_size, c_size]),
    "firn_group_open": ("status", [_OUT, POINTER(GroupConfig)]),
    "firn_group_close": (None, [c_void_p]),
    "firn_group_sum": (c_int, [c_void_p]),
    "firn_group_set_sum": ("status", [c_void_p, c_int]),
    "firn_group_threads": (c_size, [c_void_p, POINTER(POINTER(c_int))]),
    "firn_group_slot": (c_void_p, [c_void_p, c_int]),
    "firn_group_put": ("status", [c_void_p, c_int, c_void_p, c_size]),
    "firn_group_reduce": ("status", [c_void_p, c_void_p, c_size, c_float]),
    "firn_group_bcast": ("status", [c_void_p, c_void_p, c_size, c_int]),
    "firn_group_gather": (
        "status",
        [c_void_p, c_void_p, c_size, _OUT, POINTER(c_size)],
    ),
    "firn_group_free": (None, [c_void_p]),
    "firn_group_allgather": ("status", [c_void_p, c_void_p, c_size, c_void_p]),
    "firn_group_max": ("status", [c_void_p, POINTER(c_i64)]),
    "firn_group_bytes": (c_u64, [c_void_p]),
    "firn_ckpt_type_name": (c_char_p, [c_int]),
    "firn_ckpt_type_bytes": (c_size, [c_int]),
    "firn_ckpt_create": ("status", [_OUT, c_char_p, c_char_p, c_u64]),
    "firn_ckpt_put": ("status", [c_void_p, POINTER(Section)]),
    "firn_ckpt_commit": ("status", [c_void_p, c_uint]),
    "firn_ckpt_drop": (None, [c_void_p]),
    "firn_ckpt_open": ("status", [_OUT, c_char_p]),
    "firn_ckpt_open_newest": ("status", [_OUT, c_char_p, c_char_p, _ERR]),
    "firn_ckpt_close": (None, [c_void_p]),
    "firn_ckpt_step": (c_u64, [c_void_p]),
    "firn_ckpt_count": (c_size, [c_void_p]),
    "firn_ckpt_at": (POINTER(Section), [c_void_p, c_size]),
    "firn_ckpt_find": (POINTER(Section), [c_void_p, c_char_p]),
    "firn_ckpt_compare": (c_size, [c_void_p, c_void_p, TELL, c_void_p]),
    "firn_sampler_check": ("status", [POINTER(Sampler)]),
    "firn_sampler_batches": (c_u64, [POINTER(Sampler)]),
    "firn_sampler_places": (c_u64, [POINTER(Sampler)]),
    "firn_sampler_shuffle": (None, [POINTER(Sampler), c_u64, POINTER(c_u32)]),
    "firn_sampler_batch": (
        c_size,
        [POINTER(Sampler), POINTER(c_u32), c_int, c_u64, POINTER(c_u32)],
    ),
    "firn_feed_new": ("status", [_OUT, POINTER(FeedConfig)]),
    "firn_feed_free": (None, [c_void_p]),
    "firn_feed_seed": ("status", [c_void_p, c_int, c_int, c_char_p, c_size]),
    "firn_feed_start": (None, [c_void_p, c_u64, c_u64]),
    "firn_feed_next": (c_bool, [c_void_p, POINTER(FeedRequest)]),
    "firn_feed_commit": ("status", [c_void_p, c_int, c_u64, c_char_p, c_size]),
    "firn_feed_ready": (c_bool, [c_void_p, c_int, c_u64]),
    "firn_feed_consume": ("status", [c_void_p, c_int, c_u64]),
    "firn_feed_saved_max": (c_size, [c_void_p]),
    "firn_feed_save": (c_size, [c_void_p, c_int, c_void_p]),
    "firn_feed_load": ("status", [c_void_p, c_int, c_char_p, c_size]),
    "firn_gradstat_squares": (
        None,
        [POINTER(c_double), c_void_p, POINTER(c_size), c_size, c_size],
    ),
    "firn_gradstat_between": (
        None,
        [POINTER(c_double), c_void_p, c_void_p, POINTER(c_size), c_size, c_size],
    ),
    "firn_freezeout_lr": (c_double, [POINTER(FreezeOut), c_size, c_size, c_double]),
    "firn_freezer_new": ("status", [_OUT, POINTER(FreezerConfig)]),
    "firn_freezer_free": (None, [c_void_p]),
    "firn_freezer_decide": (
        "status",
        [c_void_p, POINTER(FreezerAsk), POINTER(c_size)],
    ),
    "firn_freezer_set": ("status", [c_void_p, POINTER(Decision)]),
    "firn_freezer_frozen": (c_size, [c_void_p]),
    "firn_freezer_most": (c_size, [c_void_p]),
    "firn_freezer_psi": (c_double, [c_void_p]),
    "firn_freezer_passes": (c_uint, [c_void_p]),
    "firn_freezer_step": (c_uint, [c_void_p, POINTER(c_double)]),
    "firn_freezer_log": (c_size, [c_void_p, POINTER(POINTER(Decision))]),
    "firn_freezer_replay": ("status", [c_void_p, POINTER(Decision), c_size]),
    "firn_freezer_follow": ("status", [c_void_p, c_u64]),
    "firn_freezer_replaying": (c_bool, [c_void_p, c_u64]),
    "firn_freezer_saved": (c_size, [c_void_p]),
    "firn_freezer_save": (None, [c_void_p, c_void_p]),
    "firn_freezer_load": ("status", [c_void_p, c_char_p, c_size]),
    "firn_reporter_open": ("status", [_OUT, POINTER(ReporterConfig)]),
    "firn_reporter_close": (None, [c_void_p, c_double]),
    "firn_reporter_say": ("status", [c_void_p, POINTER(TrainerReport)]),
    "firn_reporter_orders": (Orders, [c_void_p]),
    "firn_reporter_counts": (
        None,
        [c_void_p, POINTER(c_u64), POINTER(c_u64), POINTER(c_u64)],
    ),
    "firn_reporter_can_send": (c_bool, []),
    "firn_process_age_s": (c_double, []),
    "firn_ahead_wait": (c_bool, []),
    "firn_ahead_was_called": (c_bool, []),
    "firn_ckpt_anew": ("status", [c_char_p, c_char_p, c_int]),
    "firn_trainer_report_unknown": (TrainerReport, []),
    "firn_batch_noise_of": (BatchNoise, [c_int, c_int, c_double, c_double]),
    "firn_batch_factor": (
        c_double,
        [c_int, c_double, c_double, POINTER(BatchNoise)],
    ),
    "firn_freezer_batch": (c_uint, [c_void_p]),
    "firn_freezer_rate": (c_double, [c_void_p]),
    "firn_passes_count": (c_size, [c_size, c_size]),
    "firn_passes_at": (Pass, [c_size, c_size, c_size]),
    "firn_task_shares": ("status", [POINTER(TaskMix), c_u64, POINTER(c_double)]),
    "firn_task_of_step": (c_size, [POINTER(TaskMix), c_u64, c_u64]),
    "firn_task_fisher_add": (None, [c_void_p, c_void_p, c_size]),
    "firn_task_similarity": (c_double, [c_void_p, c_void_p, c_size]),
    "firn_task_judge": (
        c_int,
        [POINTER(TaskGuard), POINTER(c_double), POINTER(c_double), c_size],
    ),
    "firn_switch_start": ("status", [_OUT, POINTER(SwitchStage), c_size]),
    "firn_switch_ready": (c_bool, [c_void_p]),
    "firn_switch_take": ("status", [c_void_p, POINTER(SwitchTimes)]),
    "firn_join_open": ("status", [_OUT]),
    "firn_join_close": (None, [c_void_p]),
    "firn_join_is_new": (c_bool, [c_void_p]),
    "firn_join_able": (None, [c_void_p]),
    "firn_join_due": (c_u64, [c_void_p]),
    "firn_join_prepares": (None, [c_void_p]),
    "firn_join_pending": (c_u64, [c_void_p]),
    "firn_join_prepared": (None, [c_void_p]),
    "firn_join_switch": (None, [c_void_p]),
    "firn_join_max": ("status", [c_void_p, POINTER(c_i64)]),
    "firn_join_drop": (None, [c_void_p]),
    "firn_join_under_way": (c_u64, [c_void_p]),
    "firn_join_ready": ("status", [c_void_p]),
    "firn_join_withdraw": (None, [c_void_p, c_u64, c_char_p]),
    "firn_join_meet": ("status", [c_void_p, c_u64, POINTER(GroupConfig), c_size]),
    "firn_join_rank": (c_int, [c_void_p]),
    "firn_join_nprocs": (c_int, [c_void_p]),
    "firn_join_has_joiners": (c_bool, [c_void_p]),
    "firn_join_shares_memory": (c_bool, [c_void_p]),
    "firn_join_local": (None, [c_void_p, POINTER(c_int), POINTER(c_int)]),
    "firn_join_layout": (c_bool, [c_void_p, c_int, POINTER(c_int)]),
    "firn_join_send": ("status", [c_void_p, c_void_p, c_size]),
    "firn_join_share": (
        "status",
        [c_void_p, c_char_p, c_size, _OUT, POINTER(c_size)],
    ),
    "firn_join_form": (
        "status",
        [c_void_p, POINTER(GroupConfig), c_char_p, _OUT],
    ),
    "firn_join_agree": (
        "status",
        [c_void_p, c_void_p, c_char_p, c_u64, POINTER(c_bool)],
    ),
    "firn_join_board_new": ("status", [_OUT, POINTER(c_int)]),
    "firn_join_board_free": (None, [c_void_p]),
    "firn_join_board_order": (
        c_u64,
        [c_void_p, c_int, c_int, POINTER(c_int), c_char_p, c_double],
    ),
    "firn_join_board_told": (JoinTold, [c_void_p]),
    "firn_join_board_give_up": (c_bool, [c_void_p, c_u64]),
    "firn_join_board_clear": (c_bool, [c_void_p, c_u64]),
}


def _candidates() -> list[str]:
    """Where the library may be, best first."""
    here = Path(__file__).resolve().parent
    tree = here.parent.parent / "build"
    found = [here / "libfirn_train.so", tree / "libfirn_train.so"]
    build = os.environ.get("FIRN_BUILD")
    if build:
        found.insert(1, Path(build) / "libfirn_train.so")
    names = [str(path) for path in found if path.exists()]
    system = ctypes.util.find_library("firn_train")
    return names + ([system] if system else [])


def structs() -> dict[str, type[ctypes.Structure]]:
    """The structures above, by the name that each has in C."""
    return {
        str(cls.__doc__).split(":")[0].removeprefix("struct "): cls
        for cls in list(globals().values())
        if isinstance(cls, type)
        and issubclass(cls, ctypes.Structure)
        and cls is not ctypes.Structure
    }


def check_sizes(library: Any, path: str) -> None:
    """Raises unless each structure has the size that the library gives it."""
    version = "of another version than this package: install both from one firn"
    try:
        size_of = library.firn_struct_size
        size_of.restype, size_of.argtypes = c_size, [c_char_p]
    except AttributeError:
        raise FirnError(f"{path} is {version} (no firn_struct_size)") from None
    for name, cls in structs().items():
        theirs = size_of(name.encode())
        if theirs != ctypes.sizeof(cls):
            raise FirnError(
                f"{path} is {version} (struct {name} has {theirs} bytes, "
                f"{ctypes.sizeof(cls)} here)"
            )


def _load() -> ctypes.CDLL:
    """The library with all signatures set."""
    given = os.environ.get("FIRN_TRAIN_LIB")
    names = [given] if given else _candidates()
    if not names:
        raise FirnError(
            "libfirn_train.so is not there: run `make train` in the source "
            "tree, `pip install` this package, or set FIRN_TRAIN_LIB"
        )
    library = ctypes.CDLL(names[0])
    check_sizes(library, names[0])
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        checked = result == "status"
        function.restype = c_int if checked else result
        function.argtypes = arguments + [_ERR] if checked else arguments
    return library


_library: ctypes.CDLL | None = None


def lib() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    global _library
    if _library is None:
        _library = _load()
    return _library


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; a failure is a FirnError."""
    error = Error()
    status = getattr(lib(), name)(*arguments, ctypes.byref(error))
    if status != 0:
        raise FirnError(error.sentence(), status)


def text(word: str | None) -> bytes | None:
    """A C string of a text that may be None."""
    return None if word is None else word.encode()


def address_of(buffer: Any) -> int:
    """Where a writable buffer (bytearray, numpy array, ...) begins."""
    view = memoryview(buffer)
    if view.nbytes == 0:
        return 0
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
