"""Whether a model may promise D2: the set-up, and the operators it uses."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

import torch
from torch import nn

from firn.torch import d2


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(4 * 16, 3),
    )


def example() -> tuple[nn.Module, torch.Tensor]:
    return small(), torch.ones(2, 1, 8, 8)


class Solver(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(self.weight, x)


READY = """
import torch, test_d2
from firn.torch import d2
torch.set_num_threads(1)
with torch.backends.mkldnn.flags(enabled=False):
    print(d2.check(test_d2.small(), torch.ones(2, 1, 8, 8),
                   loss=lambda out: nn.functional.cross_entropy(
                       out, torch.tensor([0, 1]))))
""".replace("nn.functional", "torch.nn.functional")


class Check(unittest.TestCase):
    def test_missing_settings_of_the_process_are_listed(self) -> None:
        verdict = d2.check(small(), torch.ones(2, 1, 8, 8))
        self.assertFalse(verdict)
        self.assertIn("libfirn_d2.so is not loaded", str(verdict))

    def test_a_plain_network_uses_no_varying_operator(self) -> None:
        with torch.backends.mkldnn.flags(enabled=False):
            verdict = d2.check(small(), torch.ones(2, 1, 8, 8))
        self.assertEqual(verdict.varies, {})
        self.assertEqual(verdict.unknown, [])
        self.assertTrue(set(verdict.seen) & d2.PRODUCTS)

    def test_varying_and_untested_operators_are_named(self) -> None:
        verdict = d2.check(Solver(3, 3), torch.ones(3, 2))
        self.assertTrue(any("LAPACK" in why for why in verdict.varies.values()))
        verdict = d2.check(nn.Linear(3, 3), torch.ones(2, 3), loss=lambda o: o.erfinv().sum())
        self.assertIn("erfinv", verdict.unknown)

    def test_gradients_buffers_and_generators_are_left_alone(self) -> None:
        model = small()
        before = [b.clone() for b in model.buffers()]
        random = torch.get_rng_state()
        d2.check(model, torch.ones(2, 1, 8, 8))
        self.assertTrue(torch.equal(random, torch.get_rng_state()))
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        for now, then in zip(model.buffers(), before):
            self.assertTrue(torch.equal(now, then))

    def test_the_command_prints_the_verdict_of_the_job_file(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "firn.torch.d2", f"{__file__}:example"],
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 1, done.stderr)  # no library is loaded
        self.assertEqual(
            done.stdout.splitlines()[-1],
            "elastic: {consistency: D2, scan: failed}",
        )
        self.assertIn("rely on kernels of the vendor", done.stdout)

    def test_convolutions_rely_on_the_vendor_and_products_do_not(self) -> None:
        with torch.backends.mkldnn.flags(enabled=False):
            self.assertTrue(d2.check(small(), torch.ones(2, 1, 8, 8)).vendor)
            self.assertEqual(d2.check(nn.Linear(3, 3), torch.ones(2, 3)).vendor, [])

    def test_a_process_with_all_settings_passes(self) -> None:
        built = os.path.dirname(os.environ.get("FIRN_TRAIN_LIB", ""))
        shim = os.path.join(built, "libfirn_d2.so")
        if not os.path.exists(shim):
            self.skipTest("libfirn_d2.so is not built")
        done = subprocess.run(
            [sys.executable, "-c", READY],
            env=dict(
                os.environ,
                LD_PRELOAD=shim,
                ATEN_CPU_CAPABILITY="default",
                PYTHONPATH=os.pathsep.join(sys.path),
            ),
            capture_output=True,
            text=True,
        )
        self.assertIn("D2 may be used", done.stdout, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
