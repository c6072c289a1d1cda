"""A loop of Accelerate becomes elastic by two lines: the same bits on one and
two processes and after a stop."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import unittest
from typing import Any

import farm
import torch
from torch import nn
from torch.nn.functional import mse_loss

try:
    import accelerate  # noqa: F401
except ImportError:
    raise unittest.SkipTest("accelerate is not installed") from None

from firn import FirnError
from firn.accelerate import Accelerator

EPOCHS = 2


def data(n: int = 24) -> torch.utils.data.Dataset:
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(2))
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 1)
    )


def train(stop_at: int = 0, by: str = "step", **options: Any) -> dict:
    """A script of Accelerate, as its manual has it, with the two lines."""
    accelerator = Accelerator(
        cpu=True, **{"threads": 4, "epochs": EPOCHS, **options}
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    loader = torch.utils.data.DataLoader(data(), 2, shuffle=True)
    test = torch.utils.data.DataLoader(data(8), 4, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(
        model, optimizer, loader, scheduler
    )
    test = accelerator.prepare(test)
    losses = []
    nsteps = 0
    for epoch in range(EPOCHS):
        model.train()
        for x, y in loader:
            if stop_at and accelerator.elastic.step == stop_at:
                if accelerator.is_main_process:
                    os.kill(os.getpid(), signal.SIGUSR1)
            with accelerator.accumulate(model):
                loss = mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                    nsteps += 1
                optimizer.step()
                if by == "step":
                    scheduler.step()
                optimizer.zero_grad()
        if by == "epoch":
            scheduler.step()
        model.eval()
        with torch.no_grad():
            for x, y in test:  # a shuffled loader draws from torch's generator
                losses.append(float(mse_loss(model(x), y)))
    job = accelerator.elastic
    found: dict[str, Any] = {
        "weights": farm.digest(*model.parameters()),
        "steps": job.step,
        "lr": scheduler.get_last_lr(),
    }
    for v in job.mine:
        found[f"buffers {v}"] = farm.digest(*job.buffers.of(v).values())
        found[f"generator {v}"] = farm.digest(job.rng[v].torch)
    accelerator.end_training()
    if not options.get("folder"):
        assert nsteps == job.step, (nsteps, job.step)
    return found


def run(nprocs: int, work: Any, ended: int = 0, **env: str) -> dict:
    """As torchrun starts them."""
    env["LOCAL_WORLD_SIZE"] = str(nprocs)
    return farm.finish(farm.start(nprocs, work, **env), ended)


class Loops(unittest.TestCase):
    """V = 4 threads, 3 steps an epoch."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_an_ordered_batch_changes_in_an_epoch_on_one_and_two(self) -> None:
        work = lambda n, at: lambda: train(n, folder=at)  # noqa: E731
        first = os.path.join(self.folder, "first")
        run(2, work(1, first), 83, FIRN_JOB="acc")
        found = []
        for nprocs in (1, 2):
            copy = os.path.join(self.folder, str(nprocs))
            shutil.copytree(first, copy)
            env = {"FIRN_JOB": "acc", "FIRN_BATCH": "16", "FIRN_BATCH_RULE": "linear"}
            found.append(run(nprocs, work(0, copy), **env))
        self.assertEqual(farm.differing(*found), [])
        # two steps of two samples, the last two of the epoch, then four and two
        self.assertEqual(found[0]["steps"], 2 + 1 + 2)
        self.assertAlmostEqual(found[0]["lr"][0], 0.05 * 0.9**6)

    def run_all(self, **options: Any) -> dict:
        one = run(1, lambda: train(**options))
        two = run(2, lambda: train(**options))
        self.assertEqual(farm.differing(one, two), [])
        work = lambda **o: lambda: train(  # noqa: E731
            folder=self.folder, **options, **o
        )
        run(2, work(stop_at=2), 83, FIRN_JOB="part")
        run(1, work(stop_at=3), 83, FIRN_JOB="part")
        found = run(2, work(), FIRN_JOB="part")
        self.assertEqual(farm.differing(one, found), [])
        self.assertEqual(one["steps"], 6)
        return one

    def test_a_loop_has_the_same_bits_on_two_and_after_stops(self) -> None:
        found = self.run_all()
        self.assertAlmostEqual(found["lr"][0], 0.05 * 0.9**6)

    def test_rates_by_epoch_and_autocast_have_the_same_bits(self) -> None:
        found = self.run_all(by="epoch", mixed_precision="bf16")
        self.assertAlmostEqual(found["lr"][0], 0.05 * 0.9**2)

    def test_accumulated_gradients_are_threads(self) -> None:
        four = run(1, lambda: train())
        found = run(1, lambda: train(threads=None, gradient_accumulation_steps=4))
        self.assertEqual(farm.differing(four, found), [])

    def test_mistakes_are_refused_with_a_sentence(self) -> None:
        def work() -> dict:
            with self.assertRaisesRegex(FirnError, "set the former to 1"):
                Accelerator(cpu=True, threads=2, gradient_accumulation_steps=2)
            accelerator = Accelerator(cpu=True, threads=2)
            model = network()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            with self.assertRaisesRegex(FirnError, "in one call"):
                accelerator.prepare(model, optimizer)
            with self.assertRaisesRegex(FirnError, "resumes by itself"):
                accelerator.load_state("folder")
            loader = torch.utils.data.DataLoader(data(), 2, worker_init_fn=len)
            with self.assertRaisesRegex(FirnError, "worker_init_fn"):
                accelerator.prepare(model, optimizer, loader)
            return {}

        run(1, work)


if __name__ == "__main__":
    unittest.main()
