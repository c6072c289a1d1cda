"""Processes with different kinds of processors: D1 differs, D2 does not.

A kind is an OPENBLAS_CORETYPE whose products have other bits; which there are
is found out here. FIRN_OPENBLAS names a folder with an OpenBLAS (libblas.so.3)
where the system's BLAS is another one. Only with FIRN_SOAK: every process starts
Python anew, for the environment counts when a library is loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest

import farm

KINDS = [
    *("Prescott", "Core2", "Nehalem", "Sandybridge", "Haswell", "SkylakeX"),
    *("ARMV8", "CORTEXA53", "THUNDERX", "TSV110", "NEOVERSEN1"),
]
PRODUCT = """
import torch, hashlib
torch.set_num_threads(1)
torch.manual_seed(1)
a, b = torch.randn(96, 301), torch.randn(301, 64)
print(hashlib.sha256((a @ b).numpy().tobytes()).hexdigest())
maps = open("/proc/self/maps").read()
print("openblas" in maps)
"""
RUN = """
import json, farm, scene
found = scene.elastic(epochs=1)
print("RESULT", json.dumps(found))
"""


def environment(kind: str, fixed: bool) -> dict[str, str]:
    """Of a process of a kind; ``fixed``: with our own products."""
    env = dict(os.environ, OPENBLAS_CORETYPE=kind, OMP_NUM_THREADS="1")
    folder = os.environ.get("FIRN_OPENBLAS")
    if folder:
        env["LD_LIBRARY_PATH"] = folder
    if fixed:
        built = os.path.dirname(os.environ["FIRN_TRAIN_LIB"])
        env["LD_PRELOAD"] = os.path.join(built, "libfirn_d2.so")
    return env


def product(kind: str) -> list[str]:
    """The bits of a product, and whether OpenBLAS made it."""
    done = subprocess.run(
        [sys.executable, "-c", PRODUCT],
        env=environment(kind, False),
        capture_output=True,
        text=True,
    )
    return done.stdout.split() if done.returncode == 0 else []


def job(kinds: list[str], fixed: bool) -> dict:
    """An elastic job with a process of each kind."""
    port = str(farm.free_port())
    processes = []
    for rank, kind in enumerate(kinds):
        env = environment(kind, fixed)
        env.update(RANK=str(rank), WORLD_SIZE=str(len(kinds)), MASTER_PORT=port)
        env.update(FIRN_JOB=f"types-{os.getpid()}")
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", RUN], env=env, stdout=subprocess.PIPE, text=True
            )
        )
    found: dict = {}
    for process in processes:
        out, _ = process.communicate(timeout=farm.LIMIT_S)
        for line in out.splitlines():
            if line.startswith("RESULT"):
                found.update(json.loads(line[7:]))
    return found


@unittest.skipUnless(os.environ.get("FIRN_SOAK"), "FIRN_SOAK is not set")
class Types(unittest.TestCase):
    """Two or three kinds."""

    @classmethod
    def setUpClass(cls) -> None:
        seen: dict[str, str] = {}
        for kind in KINDS:
            told = product(kind)
            if told and told[1] == "False":
                raise unittest.SkipTest("the BLAS of PyTorch is no OpenBLAS")
            if told:
                seen.setdefault(told[0], kind)
        cls.kinds = list(seen.values())
        print("kinds:", cls.kinds, file=sys.stderr)
        if len(cls.kinds) < 2:
            raise unittest.SkipTest("all core types have the same bits here")

    def test_mixed_kinds_differ_under_d1_and_are_equal_under_d2(self) -> None:
        a, b = self.kinds[:2]
        c = self.kinds[-1]
        mixes = [[a], [a, b], [b, a], [a, b, c]]
        plain = [job(mix, False) for mix in mixes]
        for i, other in enumerate(plain[1:], 1):
            self.assertIn("weights", farm.differing(plain[0], other), mixes[i])
        fixed = [job(mix, True) for mix in mixes + [[b]]]
        for other in fixed[1:]:
            self.assertEqual(farm.differing(fixed[0], other), [])
        self.assertTrue(fixed[0])


if __name__ == "__main__":
    unittest.main()
