"""libfirn, the scheduler's library, by ctypes.

No struct is repeated here: the library says where the members of its structs
are (``firn/fields.h``), and :func:`struct` makes a ctypes structure of that. A
library of another version is followed, not misread; a member that it does not
have is an AttributeError with its name. The library is looked for in this
order: ``FIRN_LIB``; ``FIRN_BUILD``; ``build/`` of the source tree; the system's
libraries (``make install``).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from ._lib import Error, FirnError

c_int, c_size, c_double = ctypes.c_int, ctypes.c_size_t, ctypes.c_double
c_char_p, c_void_p, c_bool = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_bool

KINDS = {
    "i": c_int,
    "u": ctypes.c_uint,
    "l": ctypes.c_long,
    "L": ctypes.c_uint64,
    "d": c_double,
    "b": c_bool,
    "s": c_char_p,
}
EREFUSED_BY_US = 1  # FIRN_EINVAL: the status of a policy that raised

# Members that are structs, arrays of structs, or pointers to structs.
NESTED = {
    ("firn_sim_options", "noise"): "firn_sim_noise",
    ("firn_job", "spec"): "firn_job_spec",
    ("firn_job", "held"): "firn_alloc",
    ("firn_alloc", "how"): "firn_how",
    ("firn_sim_result", "classes"): "firn_sim_class",
    ("firn_sim_result", "groups"): "firn_sim_group",
    ("firn_cluster", "types"): "firn_gpu_type",
}
POINTERS = {
    ("firn_cluster", "nodes"): "firn_node",
    ("firn_alloc", "parts"): "firn_part",
    ("firn_view", "cluster"): "firn_cluster",
}


class Field(ctypes.Structure):
    """struct firn_field"""

    _fields_ = [
        ("name", c_char_p),
        ("kind", ctypes.c_char),
        ("offset", c_size),
        ("size", c_size),
    ]


def _candidates() -> list[str]:
    """Where the library may be, best first."""
    tree = Path(__file__).resolve().parent.parent.parent / "build"
    found = [tree / "libfirn.so"]
    build = os.environ.get("FIRN_BUILD")
    if build:
        found.insert(0, Path(build) / "libfirn.so")
    names = [str(path) for path in found if path.exists()]
    system = ctypes.util.find_library("firn")
    return names + ([system] if system else [])


@lru_cache(maxsize=None)
def lib() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    given = os.environ.get("FIRN_LIB")
    names = [given] if given else _candidates()
    if not names:
        raise FirnError(
            "libfirn.so is not there: run `make` in the source tree, `make "
            "install`, or set FIRN_LIB to its path"
        )
    library = ctypes.CDLL(names[0])
    try:
        fields = library.firn_struct_fields
    except AttributeError:
        raise FirnError(
            f"{names[0]} is older than this package (no firn_struct_fields)"
        ) from None
    fields.restype = ctypes.POINTER(Field)
    fields.argtypes = [c_char_p, ctypes.POINTER(c_size), ctypes.POINTER(c_size)]
    return library


def fields_of(name: str) -> tuple[list[Field], int]:
    """The members of a struct of the library, and its size."""
    count, size = c_size(), c_size()
    found = lib().firn_struct_fields(
        name.encode(), ctypes.byref(count), ctypes.byref(size)
    )
    if not found:
        raise FirnError(f"libfirn has no table of struct {name}")
    return [found[i] for i in range(count.value)], size.value


def _member(of: str, field: Field) -> Any:
    """The ctypes type of one member."""
    name, kind, size = field.name.decode(), field.kind.decode(), field.size
    if kind in KINDS:
        return KINDS[kind]
    if kind == "t":
        return ctypes.c_char * size
    if (of, name) in NESTED:
        inner = struct(NESTED[of, name])
        count = size // ctypes.sizeof(inner)
        return inner if count == 1 else inner * count
    if (of, name) in POINTERS:
        return ctypes.POINTER(struct(POINTERS[of, name]))
    return c_void_p if size == ctypes.sizeof(c_void_p) else ctypes.c_char * size


@lru_cache(maxsize=None)
def struct(name: str) -> Any:
    """A ctypes structure with the layout that the library has."""
    fields, size = fields_of(name)
    made: list[tuple[str, Any]] = []
    at = 0
    for field in fields:
        if field.offset > at:
            made.append((f"_gap{at}", ctypes.c_char * (field.offset - at)))
        made.append((field.name.decode(), _member(name, field)))
        at = field.offset + field.size
    if size > at:
        made.append((f"_gap{at}", ctypes.c_char * (size - at)))
    # The gaps stand there already: no padding of ctypes' own.
    cls = type(name, (ctypes.Structure,), {"_pack_": 1, "_layout_": "ms",
                                           "_fields_": made})
    if ctypes.sizeof(cls) != size:
        raise FirnError(f"struct {name} has {size} bytes, {ctypes.sizeof(cls)} here")
    return cls


def function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the library with its types."""
    found = getattr(lib(), name)
    found.restype, found.argtypes = result, list(arguments)
    return found


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; a failure is a FirnError."""
    error = Error()
    found = getattr(lib(), name)
    found.restype = c_int
    status = found(*arguments, ctypes.byref(error))
    if status != 0:
        raise FirnError(error.sentence(), status)


def as_dict(of: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """The members of a structure that are numbers and texts."""
    out: dict[str, Any] = {}
    for name, kind in of._fields_:
        if name in skip or name.startswith("_gap"):
            continue
        value = getattr(of, name)
        if isinstance(value, bytes):
            out[name] = value.decode("utf-8", "replace")
        elif isinstance(value, (int, float)) and kind is not c_void_p:
            out[name] = value
    return out
