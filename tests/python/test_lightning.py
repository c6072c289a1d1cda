"""A Trainer of Lightning becomes elastic by two lines: the same bits on one and
two processes and after stops."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import unittest
import warnings
from typing import Any, Callable

import farm
import torch
from torch import nn
from torch.nn.functional import mse_loss

try:
    import lightning.pytorch as pl
except ImportError:
    raise unittest.SkipTest("lightning is not installed") from None

from firn import FirnError
from firn.lightning import ElasticStrategy

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning.*")


def loader(n: int = 24, **more: Any) -> torch.utils.data.DataLoader:
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(2))
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, 2, **more)


class Module(pl.LightningModule):
    """With BatchNorm, dropout, a scheduler and a validation that draws."""

    def __init__(self, stop_at: int = 0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.net = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 1)
        )
        self.stop_at, self.seen = stop_at, []

    def training_step(self, batch: Any, i: int) -> torch.Tensor:
        if self.stop_at and self.global_step == self.stop_at:
            if self.trainer.is_global_zero:
                os.kill(os.getpid(), signal.SIGUSR1)
        x, y = batch
        return mse_loss(self.net(x), y)

    def validation_step(self, batch: Any, i: int) -> None:
        x, y = batch
        self.log("check", mse_loss(self.net(x + torch.randn(1)), y))

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.seen.append((self.current_epoch, self.global_step))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        rule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": rule, "interval": "step"},
        }


def train(stop_at: int = 0, **more: Any) -> dict:
    """A script of Lightning, with the two lines."""
    names = ("folder", "threads")
    options = {k: more.pop(k) for k in names if k in more}
    strategy = ElasticStrategy(device="cpu", **{"threads": 4, **options})
    given = dict(
        accelerator="cpu", max_epochs=3, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=0.5,
        num_sanity_val_steps=0,
    )  # fmt: skip
    trainer = pl.Trainer(strategy=strategy, **{**given, **more})
    module = Module(stop_at)
    kept: dict[str, Any] = {}

    class Last(pl.Callback):
        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            job = strategy.elastic
            kept["optimizer"] = farm.digest(
                *(s["momentum_buffer"] for s in job.optimizer.state.values())
            )
            kept["lr"] = job.optimizer.param_groups[0]["lr"]
            for v in job.mine:
                kept[f"buffers {v}"] = farm.digest(*job.buffers.of(v).values())
                kept[f"generator {v}"] = farm.digest(job.rng[v].torch)

    trainer.callbacks.append(Last())
    trainer.fit(module, loader(shuffle=True), loader(8))
    return {
        "weights": farm.digest(*module.parameters()),
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        "last check": module.seen[-1] if module.seen else None,
        **kept,
    }


class Trainers(unittest.TestCase):
    """V = 4 threads, 3 steps an epoch."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_a_module_has_the_same_bits_on_two_and_three_and_after_stops(self) -> None:
        one = farm.run(1, lambda: train())
        self.assertEqual((one["steps"], one["epochs"]), (9, 3))
        self.assertEqual(one["last check"], [2, 9])
        self.assertAlmostEqual(one["lr"], 0.05 * 0.9**9)
        for nprocs in (2, 3):
            found = farm.run(nprocs, lambda: train())
            self.assertEqual(farm.differing(one, found), [])
        work = lambda n: lambda: train(n, folder=self.folder)  # noqa: E731
        for nprocs, stop_at in ((2, 1), (1, 3), (2, 7)):
            farm.finish(farm.start(nprocs, work(stop_at), FIRN_JOB="lit"), 83)
        found = farm.run(1, work(0), FIRN_JOB="lit")
        self.assertEqual(farm.differing(one, found), [])

    def test_an_ordered_batch_changes_at_the_next_epoch_on_one_and_two(self) -> None:
        work = lambda n, at: lambda: train(n, folder=at)  # noqa: E731
        first = os.path.join(self.folder, "first")
        farm.finish(farm.start(2, work(1, first), FIRN_JOB="lit"), 83)
        found = []
        for nprocs in (1, 2):
            copy = os.path.join(self.folder, str(nprocs))
            shutil.copytree(first, copy)
            env = {"FIRN_JOB": "lit", "FIRN_BATCH": "16", "FIRN_BATCH_RULE": "linear"}
            found.append(farm.run(nprocs, work(0, copy), **env))
        self.assertEqual(farm.differing(*found), [])
        # three steps of two samples, then four and two in each epoch
        self.assertEqual((found[0]["steps"], found[0]["epochs"]), (3 + 2 + 2, 3))
        self.assertEqual(found[0]["last check"], [2, 7])
        self.assertAlmostEqual(found[0]["lr"], 0.05 * 0.9**9)

    def test_autocast_and_max_steps_have_the_same_bits_on_two_and_after_a_stop(
        self,
    ) -> None:
        def work(stop_at: int = 0, **more: Any) -> Callable[[], dict]:
            options = dict(precision="bf16-mixed", max_steps=5, **more)
            return lambda: train(stop_at, **options)

        one, two = farm.run(1, work()), farm.run(2, work())
        self.assertEqual(one["steps"], 5)
        self.assertEqual(farm.differing(one, two), [])
        stopped = work(2, folder=self.folder)
        farm.finish(farm.start(2, stopped, FIRN_JOB="half"), 83)
        found = farm.run(1, work(folder=self.folder), FIRN_JOB="half")
        self.assertEqual(farm.differing(one, found), [])

    def test_early_stopping_ends_the_job(self) -> None:
        def work() -> dict:
            stop = pl.callbacks.EarlyStopping("check", min_delta=1e9, patience=1)
            return train(callbacks=[stop], folder=self.folder)

        one = farm.run(1, work, FIRN_JOB="early")
        self.assertEqual(one["steps"], 6)
        again = farm.run(1, work, FIRN_JOB="early")  # not trained on
        self.assertEqual(again["weights"], one["weights"])

    def test_mistakes_are_refused_with_a_sentence(self) -> None:
        def work() -> dict:
            with self.assertRaisesRegex(FirnError, "use more threads instead"):
                train(accumulate_grad_batches=2)
            with self.assertRaisesRegex(FirnError, "limit_train_batches"):
                train(limit_train_batches=2)
            return {}

        farm.run(1, work)


if __name__ == "__main__":
    unittest.main()
