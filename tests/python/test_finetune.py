"""Tasks over one backbone: what trains, in which order, and the switch."""

from __future__ import annotations

import threading
import time
import unittest

import farm
import torch
from torch import nn
from torch.utils.data import TensorDataset

from firn import FirnError
from firn.torch import finetune


def data(column: int, n: int, seed: int = 0) -> TensorDataset:
    """Is this column positive?"""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=g)
    return TensorDataset(x, (x[:, column] > 0).long())


def backbone() -> nn.Module:
    """Two linear layers."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12))


def tasks(*sizes: int) -> list[finetune.Task]:
    """A task for each size."""
    torch.manual_seed(4)
    return [
        finetune.Task(f"t{i}", data(i, n), nn.Linear(12, 2))
        for i, n in enumerate(sizes)
    ]


class WhatTrains(unittest.TestCase):
    """LoRA and adapters."""

    def test_lora_and_adapters_start_as_the_backbone(self) -> None:
        x = torch.randn(5, 6)
        for kind in ("lora", "adapter"):
            model = backbone()
            before = model(x)
            finetune.adapt(model, kind, 2)
            self.assertTrue(torch.equal(model(x), before))

    def test_only_added_parameters_train(self) -> None:
        model = backbone()
        kept = farm.digest(*model.parameters())
        new = finetune.adapt(model, "lora", 2, lambda name: name == "2")
        self.assertEqual(sum(p.numel() for p in new), 2 * 12 * 2)
        tuner = finetune.Tuner(model, tasks(40), "normal", epochs=1)
        tuner.train(torch.optim.SGD(new, lr=0.5))
        base = [model[0].weight, model[0].bias, *model[2].base.parameters()]
        self.assertEqual(farm.digest(*base), kept)
        self.assertGreater(float(new[1].detach().abs().sum()), 0)

    def test_names_that_match_nothing_are_an_error(self) -> None:
        with self.assertRaisesRegex(FirnError, "no linear layer"):
            finetune.adapt(backbone(), "lora", 2, lambda name: False)


class Order(unittest.TestCase):
    """Which task a step belongs to."""

    def names(self, mode: str, epochs: int, *sizes: int) -> list[list[str]]:
        tuner = finetune.Tuner(backbone(), tasks(*sizes), mode, epochs, 8)
        return [[t.task.name for t in tuner.epoch(e)] for e in range(epochs)]

    def test_temporal_runs_one_after_the_other(self) -> None:
        found = self.names("temporal", 4, 32, 16)
        self.assertEqual([set(e) for e in found], [{"t0"}] * 2 + [{"t1"}] * 2)
        self.assertEqual([len(e) for e in found], [4, 4, 2, 2])

    def test_spatial_goes_from_proportional_to_nearly_even(self) -> None:
        tuner = finetune.Tuner(backbone(), tasks(900, 100), "spatial", 10)
        self.assertAlmostEqual(tuner.shares(0)[1], 0.1)
        even = 100**0.2 / (900**0.2 + 100**0.2)
        self.assertAlmostEqual(tuner.shares(9)[1], even)

    def test_the_same_seed_gives_the_same_steps_and_batches(self) -> None:
        def run(seed: int) -> list[str]:
            tuner = finetune.Tuner(backbone(), tasks(32, 16), "spatial", 2, 8, seed)
            return [
                t.task.name + farm.digest(*t.batch)
                for e in range(2)
                for t in tuner.epoch(e)
            ]

        self.assertEqual(run(1), run(1))
        self.assertNotEqual(run(1), run(2))

    def test_normal_has_one_task(self) -> None:
        with self.assertRaisesRegex(FirnError, "2 tasks in mode normal"):
            finetune.Tuner(backbone(), tasks(8, 8), "normal")


class Alike(unittest.TestCase):
    """Embeddings and the guard."""

    def test_a_task_is_more_like_itself_than_like_another(self) -> None:
        model = backbone()
        finetune.adapt(model, "adapter", 2)
        a, b = tasks(64, 64)
        twin = finetune.Task("twin", data(0, 64, seed=9), a.head)
        at = {t.name: finetune.embedding(model, t) for t in (a, b, twin)}
        same = finetune.similarity(at["t0"], at["t0"])
        near = finetune.similarity(at["t0"], at["twin"])
        far = finetune.similarity(at["t0"], at["t1"])
        self.assertAlmostEqual(same, 1)
        self.assertGreater(near, far)

    def test_the_guard_decides_after_two_epochs(self) -> None:
        self.assertEqual(finetune.judge([1.0], [0.1]), "too early")
        self.assertEqual(finetune.judge([1.0, 0.5], [1.0, 0.6]), "pays")
        self.assertEqual(finetune.judge([1.0, 0.9], [1.0, 0.6]), "undo")


class Switch(unittest.TestCase):
    """The pipeline."""

    def test_a_prepared_switch_does_not_wait(self) -> None:
        shortest_s = 1.0  # of a few: any may be a pause of the machine's own
        for _ in range(20):
            coming = finetune.Pipeline(
                {"loader": lambda: time.sleep(0.05) or "l", "weights": lambda: "w"}
            )
            while not coming.ready:
                time.sleep(0.005)
            made, cost = coming.take()
            self.assertEqual(made, {"loader": "l", "weights": "w"})
            self.assertGreaterEqual(cost.prepare_s, 0.05)
            shortest_s = min(shortest_s, cost.waited_s)
            if shortest_s < 0.05:
                break
        self.assertLess(shortest_s, 0.05)
        _, twin = finetune.without_pipeline({"x": lambda: time.sleep(0.05)})
        self.assertGreaterEqual(twin.waited_s, 0.05)

    def test_stages_run_in_order_in_another_thread(self) -> None:
        seen = []
        here = threading.get_ident()

        def stage() -> None:
            seen.append(threading.get_ident() != here)

        finetune.Pipeline({"loader": stage, "weights": stage}).take()
        self.assertEqual(seen, [True, True])

    def test_a_stage_that_fails_stops_those_behind_it(self) -> None:
        seen = []
        coming = finetune.Pipeline(
            {"loader": lambda: 1 / 0, "weights": lambda: seen.append(1)}
        )
        with self.assertRaises(ZeroDivisionError):
            coming.take()
        self.assertEqual(seen, [])


class Mates(unittest.TestCase):
    """What the scheduler says of another job."""

    def test_without_variables_there_is_no_co_trained_job(self) -> None:
        self.assertIsNone(finetune.mate({}))
        self.assertIsNone(finetune.mate({"FIRN_MATE_DIR": "/x"}))

    def test_all_variables_of_a_co_trained_job_are_read(self) -> None:
        mate = finetune.mate(
            {
                "FIRN_MATE_JOB": "7",
                "FIRN_MATE_EPOCH": "2",
                "FIRN_MATE_TOKEN": "secret",
                "FIRN_MATE_DIR": "/seven",
                "FIRN_MATE_DATA": "squad",
                "FIRN_MATE_THREADS": "many",
                "FIRN_MATE_FREEZE_MAX": "0.25",
                "FIRN_MATE_ARGV": "tune\x1f--text\x1fa b",
            }
        )
        self.assertEqual(
            mate,
            finetune.Mate(
                "7", 2, "secret", "/seven", "squad", 0, ("tune", "--text", "a b"), 0.25
            ),
        )

    def test_the_attempt_has_a_newer_and_an_older_name(self) -> None:
        both = {"FIRN_MATE_JOB": "7", "FIRN_MATE_ATTEMPT": "3", "FIRN_MATE_EPOCH": "2"}
        mate = finetune.mate(both)
        assert mate is not None
        self.assertEqual((mate.attempt, mate.epoch), (3, 3))


if __name__ == "__main__":
    unittest.main()
