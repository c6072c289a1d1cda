"""Adds lists of gradients, from the right, in place: one kernel on a GPU.

    fold([a, b, c])      a[i] = a[i] + (b[i] + c[i]), for every tensor i
    fold([a, b], 3)      the same, divided by 3

These are the additions of a running sum by the tree (firn.tree) when a thread
is merged with several of the sums that are held, or of the last thread of a
step, whose sum is divided too.

torch._foreach_add_ adds two lists, writes the result, and reads it again for
the next addition; its kernels take 64 tensors and 320 pieces of 65536 elements
each, too few for a large GPU when most tensors are small. On CUDA, float32
lists are therefore added by one kernel of our own: a block of threads for each
piece of 8192 elements of any tensor, all operands read once, the result
written once. NVIDIA's run-time compiler (NVRTC, which PyTorch brings) compiles
it at the first use.

Invariants:
(1) the same additions in the same order, each rounded to float32, then one
    multiplication (powers of two) or one division: the bits of
    torch._foreach_add_ and firn.torch.hook.divide;
(2) the last list is never changed; the result is in the first one, and those
    between them hold nothing of use afterwards;
(3) where the kernel cannot be compiled or the tensors do not suit it
    (another type, not contiguous, several devices), torch._foreach_add_ does
    the work: ``way()`` says which, FIRN_FOLD=foreach asks for it;
(4) no copy to the host. The addresses of the tensors are copied to the device
    when they are new; PyTorch's allocator repeats them from step to step.

Cost: n + 1 passes over the memory of a gradient for n lists, against 3 (n - 1).
"""

from __future__ import annotations

import collections
import ctypes
import os
from pathlib import Path
from typing import Sequence

import torch

from firn.torch.hook import divide

PIECE = 8192  # elements of a block of threads
_THREADS = 256
_TABLES_MAX = 256

SOURCE = r"""
// table: for each tensor its number of elements and its nlists addresses.
// pieces: for each block its tensor, and its first element.
// how: 0 the sum, 1 times `factor`, 2 divided by `factor`.
template <int N>
__device__ float finish(const float *v, int stride, int how, float factor)
{
    float s = v[(N - 1) * stride];
#pragma unroll
    for (int k = N - 2; k >= 0; k--)
        s = v[k * stride] + s;
    if (how == 1)
        return s * factor;
    return how == 2 ? __fdiv_rn(s, factor) : s;
}

// U times four elements of each list, all read before any is written.
template <int N, int U>
__device__ void fours(float *const *at, int i, int how, float factor)
{
    float4 v[U][N];
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < N; k++)
            v[u][k] = ((const float4 *)at[k])[i + u * THREADS];
#pragma unroll
    for (int u = 0; u < U; u++) {
        float4 s;
        s.x = finish<N>(&v[u][0].x, 4, how, factor);
        s.y = finish<N>(&v[u][0].y, 4, how, factor);
        s.z = finish<N>(&v[u][0].z, 4, how, factor);
        s.w = finish<N>(&v[u][0].w, 4, how, factor);
        ((float4 *)at[0])[i + u * THREADS] = s;
    }
}

template <int N>
__device__ void fold(const long long *row, long long first, int how, float factor)
{
    const long long left = row[0] - first;
    const int n = left < PIECE ? (int)left : PIECE;
    float *at[N];
    bool aligned = true;
#pragma unroll
    for (int k = 0; k < N; k++) {
        at[k] = (float *)row[1 + k] + first;
        aligned = aligned && (row[1 + k] & 15) == 0;
    }
    if (aligned && n == PIECE) {
        const int u = N < 4 ? 4 : 2;
#pragma unroll
        for (int i = 0; i < PIECE / 4; i += u * THREADS)
            fours<N, u>(at, i + threadIdx.x, how, factor);
        return;
    }
    const int nfours = aligned ? n / 4 : 0;
    for (int i = threadIdx.x; i < nfours; i += THREADS)
        fours<N, 1>(at, i, how, factor);
    for (int i = 4 * nfours + threadIdx.x; i < n; i += THREADS) {
        float v[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = at[k][i];
        at[0][i] = finish<N>(v, 1, how, factor);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
firn_fold(const long long *table, const long long *pieces, int nlists, int how,
          float factor)
{
    const long long *row = table + pieces[2 * blockIdx.x] * (nlists + 1);
    const long long first = pieces[2 * blockIdx.x + 1];
    switch (nlists) {
    case 2: fold<2>(row, first, how, factor); break;
    case 3: fold<3>(row, first, how, factor); break;
    case 4: fold<4>(row, first, how, factor); break;
    case 5: fold<5>(row, first, how, factor); break;
    }
}
""".replace("PIECE", str(PIECE)).replace("THREADS", str(_THREADS))
NLISTS_MAX = 5


def _load(names: Sequence[str], folders: Sequence[Path] = ()) -> ctypes.CDLL:
    """The first library that is there."""
    for name in names:
        for at in [name, *(str(p) for folder in folders for p in folder.rglob(name))]:
            try:
                return ctypes.CDLL(at)
            except OSError:
                continue
    raise OSError(f"no {names[0]}")


def compile_for(capability: tuple[int, int]) -> bytes:
    """Machine code for a GPU of that compute capability; needs no GPU."""
    major = str(torch.version.cuda).split(".")[0]
    beside = [Path(torch.__file__).parents[1] / "nvidia"]
    nvrtc = _load([f"libnvrtc.so.{major}", "libnvrtc.so"], beside)
    program = ctypes.c_void_p()

    def check(result: int, what: str) -> None:
        if result == 0:
            return
        size = ctypes.c_size_t()
        log = ctypes.create_string_buffer(1)
        if program and nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0:
            log = ctypes.create_string_buffer(size.value + 1)
            nvrtc.nvrtcGetProgramLog(program, log)
        raise OSError(f"NVRTC: {what}: error {result} {log.value.decode()[:2000]}")

    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), SOURCE.encode(), b"firn_fold.cu", 0, None, None
    )
    check(made, "no program")
    options = (ctypes.c_char_p * 1)(
        f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode()
    )
    check(nvrtc.nvrtcCompileProgram(program, 1, options), "compilation")
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "no code")
    code = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, code), "no code")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


def pieces_of(counts: Sequence[int]) -> list[int]:
    """For each block its tensor and its first element, one behind the other."""
    found: list[int] = []
    for tensor, count in enumerate(counts):
        for first in range(0, count, PIECE):
            found += (tensor, first)
    return found


class Kernel:
    """The kernel on one device, with the tables it was given before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cuda = _load(["libcuda.so.1"])
        self._function = ctypes.c_void_p()
        code = compile_for(torch.cuda.get_device_capability(device))
        torch.cuda.current_stream(device)  # its context is there after this
        torch.zeros(1, device=device)
        with torch.cuda.device(device):
            module = ctypes.c_void_p()
            self._check(self._cuda.cuModuleLoadData(ctypes.byref(module), code))
            self._check(
                self._cuda.cuModuleGetFunction(
                    ctypes.byref(self._function), module, b"firn_fold"
                )
            )
        self._pieces: dict[tuple, tuple[torch.Tensor, int]] = {}
        self._tables: collections.OrderedDict[tuple, torch.Tensor]
        self._tables = collections.OrderedDict()

    @staticmethod
    def _check(result: int) -> None:
        if result != 0:
            raise OSError(f"CUDA driver: error {result}")

    def _on_device(self, numbers: list[int]) -> torch.Tensor:
        """Copied without waiting, from memory that stays until it was read."""
        host = torch.tensor(numbers, dtype=torch.int64).pin_memory()
        return host.to(self._device, non_blocking=True)

    def _table(
        self, stream: int, counts: tuple, lists: Sequence[Sequence[torch.Tensor]]
    ) -> torch.Tensor:
        """The addresses on the device; kept, for they come again. A stream reads
        only tables that were copied on it."""
        columns = [[t.data_ptr() for t in some] for some in lists]
        key = (stream, counts, *map(tuple, columns))
        table = self._tables.get(key)
        if table is None:
            rows = zip(counts, *columns)
            table = self._on_device([word for row in rows for word in row])
            self._tables[key] = table
            if len(self._tables) > _TABLES_MAX:
                self._tables.popitem(last=False)
        else:
            self._tables.move_to_end(key)
        return table

    def __call__(
        self, lists: Sequence[Sequence[torch.Tensor]], how: int, factor: float
    ) -> None:
        """Launches it, on the current stream."""
        stream = torch.cuda.current_stream(self._device).cuda_stream
        counts = tuple(t.numel() for t in lists[0])
        if (stream, counts) not in self._pieces:
            words = pieces_of(counts)
            self._pieces[stream, counts] = (self._on_device(words), len(words) // 2)
        pieces, nblocks = self._pieces[stream, counts]
        if nblocks == 0:
            return
        table = self._table(stream, counts, lists)
        given = (
            ctypes.c_void_p(table.data_ptr()),
            ctypes.c_void_p(pieces.data_ptr()),
            ctypes.c_int(len(lists)),
            ctypes.c_int(how),
            ctypes.c_float(factor),
        )
        at = (ctypes.c_void_p * len(given))(*(ctypes.addressof(g) for g in given))
        with torch.cuda.device(self._device):
            self._check(
                self._cuda.cuLaunchKernel(
                    *(self._function, nblocks, 1, 1, _THREADS, 1, 1, 0),
                    *(ctypes.c_void_p(stream), at, None),
                )
            )


_kernels: dict[int, Kernel | None] = {}
_why_not: list[str] = []


def _agrees(kernel: Kernel, device: torch.device) -> bool:
    """Small lists by the kernel and by PyTorch: the same bits?"""
    counts = (5, PIECE + 3, 64, 2 * PIECE + 8)
    for nlists, n in ((2, 1), (3, 3), (4, 8), (5, 7)):
        g = torch.Generator(device=device).manual_seed(nlists)
        lists = [
            [torch.randn(c + 1, device=device, generator=g)[c % 2 :] for c in counts]
            for _ in range(nlists)
        ]
        other = [[t.clone() for t in some] for some in lists]
        kernel(lists, *_how(n))
        _by_foreach(other, n)
        if not all(torch.equal(a, b) for a, b in zip(lists[0], other[0])):
            return False
    return True


def _kernel_of(device: torch.device) -> Kernel | None:
    """Made at the first use; None: PyTorch's own kernels are used."""
    index = device.index if device.index is not None else torch.cuda.current_device()
    if index not in _kernels:
        made: Kernel | None = None
        try:
            made = Kernel(torch.device("cuda", index))
            if not _agrees(made, device):
                made, why = None, "its sums differ from PyTorch's"
                _why_not.append(why)
        except (OSError, RuntimeError, AttributeError) as error:
            made = None
            _why_not.append(str(error)[:300])
        _kernels[index] = made
    return _kernels[index]


def way(device: torch.device) -> str:
    """How float32 gradients on this device are added: "kernel" or "foreach"."""
    if device.type != "cuda" or os.environ.get("FIRN_FOLD") == "foreach":
        return "foreach"
    return "foreach" if _kernel_of(device) is None else "kernel"


def why_foreach() -> str:
    """Why the kernel is not used, where that was tried."""
    return "; ".join(_why_not)


def _how(n: int) -> tuple[int, float]:
    """The division by n, as a number for the kernel and its factor."""
    if n <= 1:
        return 0, 1.0
    return (1, 1.0 / n) if n & (n - 1) == 0 else (2, float(n))


def _by_foreach(lists: Sequence[Sequence[torch.Tensor]], n: int) -> None:
    """By PyTorch's own kernels."""
    for k in range(len(lists) - 2, -1, -1):
        torch._foreach_add_(list(lists[k]), list(lists[k + 1]))
    scale(lists[0], n)


def scale(tensors: Sequence[torch.Tensor], n: int) -> None:
    """Divides by n, correctly rounded, in place."""
    if n > 1 and n & (n - 1) == 0:
        torch._foreach_mul_(list(tensors), 1.0 / n)
    elif n > 1:
        for t in tensors:
            divide(t, n)


def _suits(lists: Sequence[Sequence[torch.Tensor]]) -> bool:
    """float32 on one CUDA device, contiguous?"""
    index = lists[0][0].get_device()
    for some in lists:
        for t in some:
            if t.dtype is not torch.float32 or t.get_device() != index:
                return False
            if not t.is_contiguous():
                return False
    return 2 <= len(lists) <= NLISTS_MAX


def fold(lists: Sequence[Sequence[torch.Tensor]], n: int = 1) -> None:
    """lists[0] = lists[0] + (lists[1] + (lists[2] + ...)), divided by n."""
    if not lists[0]:
        return
    if way(lists[0][0].device) == "kernel":
        while len(lists) > NLISTS_MAX:
            fold(lists[-NLISTS_MAX:])
            lists = lists[: 1 - NLISTS_MAX]
        if _suits(lists):
            kernel = _kernel_of(lists[0][0].device)
            assert kernel is not None
            kernel(lists, *_how(n))
            return
    _by_foreach(lists, n)
