"""The table of docs/huggingface.md: what holds, each cell a test.

A feature is a class; its two cells are "on one and on two processes" and "after
a stop on two and a resume on one". Equal are weights, optimiser state, buffers
and generators of every thread, and what the feature itself keeps.
"""

from __future__ import annotations

import copy
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

from firn.torch import Elastic, states


class Rows(torch.utils.data.Dataset):
    """Eight numbers each, with noise, and their sum."""

    def __init__(self) -> None:
        self.x = torch.randn(24, 8, generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[i] + 0.1 * torch.randn(8), self.x[i].sum().reshape(1)


class Network(nn.Module):
    """With BatchNorm and dropout; activations of the middle kept or not."""

    def __init__(self, keeps: bool = True) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.middle = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2))
        self.last, self.keeps = nn.Linear(16, 1), keeps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x))
        if self.keeps:
            return self.last(self.middle(x))
        from torch.utils.checkpoint import checkpoint

        return self.last(checkpoint(self.middle, x, use_reentrant=False))


class Feature:
    """What a class of the table changes; this is the plain loop."""

    def __init__(self) -> None:
        self.model = self.make_model()
        self.called = self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.options: dict[str, Any] = {}

    def make_model(self) -> nn.Module:
        return Network()

    def turn(self, job: Elastic, x: torch.Tensor, y: torch.Tensor) -> None:
        job.backward(mse_loss(self.called(x), y))

    def kept(self) -> dict[str, Any]:
        """More that has to be equal."""
        return {}


def train(kind: type, folder: str = "", stop_at: int = 0) -> dict:
    """A job with a feature."""
    feature = kind()
    job = Elastic(
        *(feature.model, feature.optimizer, Rows()),
        **dict(threads=4, batch_size=2, epochs=2, folder=folder or None),
        **feature.options,
    )
    for x, y in job:
        if stop_at and job.step == stop_at and job.place.rank == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        feature.turn(job, x, y)
    state = feature.optimizer.state_dict()["state"]
    moments = [t for s in state.values() for t in s.values()]
    found = {
        "weights": farm.digest(*feature.model.parameters()),
        "optimizer": farm.digest(*moments),
        **feature.kept(),
    }
    for v in job.mine:
        found[f"buffers {v}"] = farm.digest(*job.buffers.of(v).values())
        for part, data in states.encode(job.rng[v]).items():
            found[f"{part} {v}"] = farm.digest(data)
    job.close()
    return found


class Cells:
    """The two cells of a row."""

    kind: type = Feature
    one: dict

    @classmethod
    def setUpClass(cls) -> None:
        cls.one = farm.run(1, lambda: train(cls.kind))

    def test_on_one_and_on_two_processes(self) -> None:
        two = farm.run(2, lambda: train(self.kind))
        self.assertEqual(farm.differing(self.one, two), [])

    def test_after_a_stop_and_a_resume(self) -> None:
        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        work = lambda n: lambda: train(self.kind, folder, n)  # noqa: E731
        farm.finish(farm.start(2, work(4), FIRN_JOB="cell"), 83)
        found = farm.run(1, work(0), FIRN_JOB="cell")
        self.assertEqual(farm.differing(self.one, found), [])


class Plain(Cells, unittest.TestCase):
    """The loop of docs/training.md."""


class Clipped(Feature):
    """The norm of the mean gradient is limited, in update=."""

    def __init__(self) -> None:
        super().__init__()
        self.norms: list[float] = []
        self.options["update"] = self.update

    def update(self) -> None:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.norms.append(float(norm))
        self.optimizer.step()

    def kept(self) -> dict[str, Any]:
        return {"last norm": self.norms[-1]}


class Clipping(Cells, unittest.TestCase):
    kind = Clipped

    def test_it_changes_the_weights(self) -> None:
        plain = farm.run(1, lambda: train(Feature))
        self.assertNotEqual(self.one["weights"], plain["weights"])


class Average:
    """An exponential moving average of the weights."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model)

    def add(self, model: nn.Module) -> None:
        with torch.no_grad():
            for mine, theirs in zip(self.model.parameters(), model.parameters()):
                mine.lerp_(theirs, 0.1)

    def state_dict(self) -> dict:
        return self.model.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state)


class Averaged(Feature):
    """The average is updated in on_step= and kept by also=."""

    def __init__(self) -> None:
        super().__init__()
        self.average = Average(self.model)
        self.options["also"] = {"ema": self.average}
        self.options["on_step"] = lambda job: self.average.add(self.model)

    def kept(self) -> dict[str, Any]:
        return {"ema": farm.digest(*self.average.model.parameters())}


class MovingAverage(Cells, unittest.TestCase):
    kind = Averaged

    def test_it_is_not_the_weights(self) -> None:
        self.assertNotEqual(self.one["ema"], self.one["weights"])


class Bfloat16(Feature):
    """The forward pass under autocast."""

    def turn(self, job: Elastic, x: torch.Tensor, y: torch.Tensor) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = mse_loss(self.called(x).float(), y)
        job.backward(loss)


class Autocast(Cells, unittest.TestCase):
    kind = Bfloat16


def scaler_of_cpus() -> Any:
    """PyTorch 2.3 and later have one."""
    try:
        return torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=2)
    except (AttributeError, TypeError):
        return None


class Scaled(Feature):
    """The loss is scaled, gradients unscaled in update=; the first scale is so
    large that a step is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = scaler_of_cpus()
        self.options["update"] = self.update
        self.options["also"] = {"scaler": self.scaler}

    def turn(self, job: Elastic, x: torch.Tensor, y: torch.Tensor) -> None:
        job.backward(mse_loss(self.called(x), y) * 2.0**100, scaler=self.scaler)

    def update(self) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def kept(self) -> dict[str, Any]:
        return {"scale": self.scaler.get_scale()}


@unittest.skipIf(scaler_of_cpus() is None, "this PyTorch scales on CUDA only")
class Scaling(Cells, unittest.TestCase):
    kind = Scaled

    def test_steps_are_skipped_and_the_scale_changes(self) -> None:
        self.assertNotEqual(self.one["scale"], 2.0**30)


class Checkpointed(Feature):
    """Activations are computed again in the backward pass, with dropout."""

    def make_model(self) -> nn.Module:
        return Network(keeps=False)


class ActivationCheckpoints(Cells, unittest.TestCase):
    kind = Checkpointed

    def test_they_have_the_bits_of_kept_activations(self) -> None:
        plain = farm.run(1, lambda: train(Feature))
        self.assertEqual(farm.differing(self.one, plain), [])


class Compiled(Feature):
    """The module is called through torch.compile; Elastic has the plain one."""

    backend = "aot_eager"

    def __init__(self) -> None:
        super().__init__()
        self.called = torch.compile(self.model, backend=self.backend)


def can_compile(backend: str) -> bool:
    """Tried in a child: a compiler and Python's headers may be missing."""
    if not hasattr(torch, "compile"):
        return False

    def work() -> dict:
        torch.compile(lambda x: x * 2 + 1, backend=backend)(torch.ones(3))
        return {}

    try:
        farm.run(1, work, TORCHINDUCTOR_COMPILE_THREADS="1")
    except AssertionError:
        return False
    return True


class Compiling(Cells, unittest.TestCase):
    """Without a compiler: the graph is captured and run by PyTorch."""

    kind = Compiled

    @classmethod
    def setUpClass(cls) -> None:
        if not can_compile(cls.kind.backend):
            raise unittest.SkipTest("torch.compile does not work here")
        super().setUpClass()


class Inducted(Compiled):
    """Compiled to machine code."""

    backend = "inductor"


@unittest.skipUnless(os.environ.get("FIRN_SOAK"), "FIRN_SOAK is not set")
class Inductor(Compiling):
    """Takes minutes on a loaded machine."""

    kind = Inducted


if __name__ == "__main__":
    unittest.main()
