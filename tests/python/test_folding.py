"""Sums of lists of gradients: the order of additions, and the GPU's kernel,
whose source is compiled for the CPU here."""

from __future__ import annotations

import collections
import ctypes
import os
import shutil
import subprocess
import tempfile
import unittest
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import torch

from firn.torch import folding

SHIM = """
struct float4 { float x, y, z, w; };
struct at { unsigned x; };
static at threadIdx, blockIdx;
#define __device__
#define __global__
#define __launch_bounds__(...)
static float __fdiv_rn(float a, float b) { return a / b; }
%s
extern "C" void run(const long long *table, const long long *pieces, int nblocks,
                    int nthreads, int nlists, int how, float factor)
{
    for (int b = 0; b < nblocks; b++)
        for (int t = 0; t < nthreads; t++) {
            blockIdx.x = (unsigned)b;
            threadIdx.x = (unsigned)t;
            firn_fold(table, pieces, nlists, how, factor);
        }
}
"""


def lists_of(nlists: int, counts: tuple[int, ...], seed: int = 1) -> list[list]:
    """Numbers of very different sizes, at addresses of all alignments."""
    g = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(nlists):
        row = []
        for i, n in enumerate(counts):
            scale = torch.exp(8 * torch.randn(n + 4, generator=g))
            row.append((torch.randn(n + 4, generator=g) * scale)[i % 2 : n + i % 2])
        found.append(row)
    return found


def by_hand(lists: list[list], n: int) -> list[torch.Tensor]:
    """From the right, one addition after the other, then one division."""
    total = [t.clone() for t in lists[-1]]
    for some in reversed(lists[:-1]):
        total = [a + b for a, b in zip(some, total)]
    return [t / n for t in total]


class Adding(unittest.TestCase):
    """fold() with PyTorch's own kernels."""

    def test_lists_are_added_from_the_right_and_divided_once(self) -> None:
        for nlists in (2, 3, 4, 7):
            for n in (1, 3, 8):
                lists = lists_of(nlists, (5, 300))
                want, last = by_hand(lists, n), [t.clone() for t in lists[-1]]
                folding.fold(lists, n)
                for a, b in zip(lists[0], want):
                    self.assertTrue(torch.equal(a, b))
                for a, b in zip(lists[-1], last):
                    self.assertTrue(torch.equal(a, b), "the last list changed")

    def test_a_sum_worked_by_hand(self) -> None:
        # 1 + (1e8 + -1e8) = 1, but (1 + 1e8) + -1e8 = 0 in float32
        a, b, c = ([torch.tensor([x])] for x in (1.0, 1e8, -1e8))
        folding.fold([a, b, c])
        self.assertEqual(a[0].item(), 1.0)

    def test_no_tensors_are_no_error(self) -> None:
        folding.fold([[], []], 2)

    def test_the_cpu_takes_foreach(self) -> None:
        self.assertEqual(folding.way(torch.device("cpu")), "foreach")


class Source(unittest.TestCase):
    """The kernel's source as a C++ program."""

    @classmethod
    def setUpClass(cls) -> None:
        compiler = shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            raise unittest.SkipTest("no C++ compiler")
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder, True)
        source, built = Path(folder, "kernel.cc"), Path(folder, "kernel.so")
        source.write_text(SHIM % folding.SOURCE)
        options = ["-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, "-o", built, source], check=True)
        cls.run_blocks = ctypes.CDLL(str(built)).run

    def test_the_kernel_gives_the_bits_of_single_additions(self) -> None:
        counts = (1, 5, folding.PIECE, 64, folding.PIECE + 3, 1, 2 * folding.PIECE + 8)
        pieces = torch.tensor(folding.pieces_of(counts))
        for nlists in range(2, folding.NLISTS_MAX + 1):
            for n in (1, 4, 7):
                lists = lists_of(nlists, counts, 10 * nlists + n)
                want, rest = by_hand(lists, n), [t.clone() for t in lists[1]]
                columns = [[t.data_ptr() for t in some] for some in lists]
                words = [w for row in zip(counts, *columns) for w in row]
                table = torch.tensor(words)
                how, factor = folding._how(n)
                self.run_blocks(
                    ctypes.c_void_p(table.data_ptr()),
                    ctypes.c_void_p(pieces.data_ptr()),
                    *(len(pieces) // 2, folding._THREADS, nlists, how),
                    ctypes.c_float(factor),
                )
                for a, b in zip(lists[0], want):
                    self.assertTrue(torch.equal(a, b), f"{nlists} lists, {n}")
                for a, b in zip(lists[1], rest):
                    self.assertTrue(torch.equal(a, b), "another list changed")

    def kernel(self) -> folding.Kernel:
        """The kernel's launcher with a driver that runs the C++ program."""
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)

        def launch(_: object, nblocks: int, *rest: object) -> int:
            at = rest[-2]
            given = [
                ctypes.cast(at[i], ctypes.POINTER(kind)).contents  # type: ignore
                for i, kind in enumerate((*kinds, ctypes.c_float))
            ]
            table, pieces, nlists, how, factor = given
            self.run_blocks(
                table, pieces, nblocks, folding._THREADS, nlists, how, factor
            )
            return 0

        made = folding.Kernel.__new__(folding.Kernel)
        made._device, made._function = torch.device("cpu"), ctypes.c_void_p()
        made._pieces, made._tables = {}, collections.OrderedDict()
        made._on_device = torch.tensor  # type: ignore[method-assign]
        made._cuda = mock.Mock(cuLaunchKernel=launch)
        return made

    def test_tables_are_kept_and_many_lists_are_added_in_parts(self) -> None:
        kernel = self.kernel()
        with mock.patch.object(folding, "way", lambda _: "kernel"), mock.patch.object(
            folding, "_kernel_of", lambda _: kernel
        ), mock.patch.object(
            torch.cuda, "current_stream", lambda _: mock.Mock(cuda_stream=7)
        ), mock.patch.object(torch.cuda, "device", lambda _: nullcontext()):
            for nlists, ntables in ((2, 1), (5, 2), (9, 4)):
                lists = lists_of(nlists, (5, 9000, 64))
                for n in (7, 4):  # the same addresses again: the same tables
                    want = by_hand(lists, n)
                    folding.fold(lists, n)
                    for a, b in zip(lists[0], want):
                        self.assertTrue(torch.equal(a, b))
                    self.assertEqual(len(kernel._tables), ntables)
                self.kept = [*getattr(self, "kept", []), lists]  # no address again
        self.assertEqual(len(kernel._pieces), 1)

    def test_every_element_is_in_one_piece(self) -> None:
        found = folding.pieces_of((1, folding.PIECE, folding.PIECE + 1, 0))
        self.assertEqual(found, [0, 0, 1, 0, 2, 0, 2, folding.PIECE])


@unittest.skipUnless(torch.version.cuda, "PyTorch without CUDA")
class Compiling(unittest.TestCase):
    """NVRTC needs no GPU."""

    def test_the_kernel_compiles_for_a_gpu(self) -> None:
        try:
            code = folding.compile_for((9, 0))
        except OSError as error:
            if str(error).startswith("NVRTC"):
                raise
            self.skipTest(str(error))
        self.assertEqual(code[:4], b"\x7fELF")


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class OnGpu(unittest.TestCase):
    """The kernel itself."""

    def test_the_kernel_is_used_and_gives_the_bits_of_the_cpu(self) -> None:
        device = torch.device("cuda")
        self.assertEqual(folding.way(device), "kernel", folding.why_foreach())
        for nlists in (2, 3, 5, 9):
            for n in (1, 4, 7):
                lists = lists_of(nlists, (5, 70000, 64))
                want = by_hand(lists, n)
                there = [[t.to(device) for t in some] for some in lists]
                folding.fold(there, n)
                for a, b in zip(there[0], want):
                    self.assertTrue(torch.equal(a.cpu(), b))

    def test_foreach_can_be_asked_for(self) -> None:
        os.environ["FIRN_FOLD"] = "foreach"
        self.addCleanup(os.environ.pop, "FIRN_FOLD")
        self.assertEqual(folding.way(torch.device("cuda")), "foreach")


if __name__ == "__main__":
    unittest.main()
