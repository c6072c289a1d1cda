"""Batches that are ordered: other steps, other learning rates, the same bits on
any number of processes, after a stop and from the log.

48 samples for four threads of three: four steps an epoch; of six: two.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import unittest
from typing import Any

import farm
import scene
import torch
from torch.nn.functional import cross_entropy

from firn import FirnError
from firn.report import CAN, bits_of
from firn.torch import Elastic


def job(**options: Any) -> dict[str, Any]:
    """A run, with what it made of orders."""
    model = scene.network()
    optimizer = scene.optimizer_of(model)
    rates: list[float] = []
    stop_at = options.pop("stop_at", 0)
    options.setdefault("epochs", 3)
    metric = options.pop("metric", None)

    def update() -> None:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()

    measured = metric is not None
    elastic = Elastic(
        model,
        optimizer,
        scene.Noisy(),
        threads=4,
        batch_size=scene.BATCH,
        seed=scene.SEED,
        update=update,
        on_stop="return",
        on_step=lambda e: e.measured(metric) if measured and e.step == 2 else None,
        **options,
    )
    heard: list[dict] = []
    elastic.reporter.say = lambda **numbers: heard.append(numbers)  # type: ignore
    for x, y in elastic:
        if stop_at and elastic.step == stop_at:
            elastic.reporter.orders = lambda: _Stop()  # type: ignore
        elastic.backward(cross_entropy(model(x), y))
    rank = elastic.place.rank
    found = {
        "weights": farm.digest(*model.parameters()),
        "steps": elastic.step,
        "epoch": elastic.epoch,
        "progress": elastic.progress,
        "rates": rates,
        "lr": optimizer.param_groups[0]["lr"],
        "log": [vars(d) for d in elastic.freezer.log()],
        "can": elastic.can(),
    }
    if rank == 0:
        found["heard"] = heard
    elastic.close()
    return found


class Numbered(torch.utils.data.Dataset):
    """The samples of the scene; notes which are drawn."""

    def __init__(self, seen: list[int]) -> None:
        self.inner, self.seen = scene.Noisy(), seen

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, i: int) -> Any:
        self.seen.append(int(i))
        return self.inner[i]


class _Stop:
    """The order to stop."""

    stop, nfrozen, passes, batch = 1, -1, -1, -1


class Batches(unittest.TestCase):
    """By FIRN_BATCH, which is obeyed as an order is."""

    def test_an_ordered_batch_has_its_learning_rate_for_the_step_alone(self) -> None:
        plain = farm.run(1, job)
        self.assertEqual((plain["steps"], plain["epoch"]), (12, 3))
        self.assertEqual(plain["log"], [])
        twice = farm.run(1, job, FIRN_BATCH="25", FIRN_BATCH_RULE="linear")
        self.assertEqual((twice["steps"], twice["epoch"]), (6, 3))
        self.assertEqual(twice["progress"], 1.0)
        self.assertEqual(twice["rates"], [0.1] * 6)
        self.assertEqual(twice["lr"], 0.05)
        kinds = [(d["kind"], d["value"]) for d in twice["log"]]
        self.assertEqual(kinds, [("batch", 24), ("rate", 2000000)])
        self.assertEqual(twice["heard"][-1]["batch"], 24)
        root = farm.run(1, job, FIRN_BATCH="24", FIRN_BATCH_RULE="sqrt")
        self.assertAlmostEqual(root["rates"][0], 0.05 * math.sqrt(2), places=6)
        whole = farm.run(1, job, FIRN_BATCH="1000000")
        self.assertEqual((whole["steps"], whole["rates"][0]), (3, 0.05))

    def test_the_same_orders_have_the_same_bits(self) -> None:
        env = {"FIRN_BATCH": "24", "FIRN_BATCH_RULE": "linear"}
        one = farm.run(1, job, **env)
        two = farm.run(2, job, **env)
        self.assertEqual(one["weights"], two["weights"])
        workers = farm.run(1, lambda: job(workers=2), FIRN_BATCH="24")
        self.assertEqual(workers["steps"], 6)

    def changed_after_a_stop(self, **options: Any) -> dict[str, Any]:
        """Stopped after step 3 of 4, another batch from there on, stopped again."""
        with tempfile.TemporaryDirectory() as folder:
            name = {"FIRN_JOB": "batches"}
            kept = dict(folder=folder, **options)
            first = farm.run(1, lambda: job(stop_at=2, **kept), **name)
            self.assertEqual(first["steps"], 3)
            env = {"FIRN_BATCH": "24", "FIRN_BATCH_RULE": "linear", **name}
            second = farm.run(2, lambda: job(stop_at=4, **kept), **env)
            self.assertEqual(second["steps"], 5)
            last = farm.run(1, lambda: job(**kept), **name)
        self.assertEqual(last["lr"], 0.05)
        return last

    def replayed(self, last: dict[str, Any], nprocs: int, **options: Any) -> None:
        """The same log at once, on this number of processes: the same bits."""
        from firn.freezer import Decided

        log = [Decided(**d) for d in last["log"]]
        again = farm.run(nprocs, lambda: job(replay=log, **options))
        self.assertEqual(again["weights"], last["weights"])
        self.assertEqual(again["steps"], last["steps"])

    def test_a_batch_changes_between_two_steps_also_after_a_stop(self) -> None:
        last = self.changed_after_a_stop()
        self.assertEqual(last["log"][0]["step"], 3)
        # nine samples of twelve in three steps, three in one, then two a step
        self.assertEqual((last["steps"], last["epoch"]), (3 + 1 + 4, 3))
        self.assertEqual(last["progress"], 1.0)
        self.replayed(last, 1)
        self.replayed(last, 2)

    def test_data_workers_change_their_batch_between_two_steps(self) -> None:
        last = self.changed_after_a_stop(workers=2)
        self.assertEqual(last["steps"], 8)
        self.replayed(last, 2, workers=2)

    def test_a_batch_can_be_kept_until_the_epoch_ends(self) -> None:
        last = self.changed_after_a_stop(batch_at="epoch")
        self.assertEqual(last["log"][0]["step"], 4)
        self.assertEqual((last["steps"], last["epoch"]), (4 + 4, 3))
        self.replayed(last, 1, batch_at="epoch")

    def test_an_order_waits_where_the_rest_of_an_epoch_makes_no_batch(self) -> None:
        last = self.changed_after_a_stop(drop_last=True)
        self.assertEqual(last["log"][0]["step"], 4)  # 3 samples are no batch of 6
        self.assertEqual(last["steps"], 4 + 4)

    def test_all_samples_of_an_epoch_are_drawn_once(self) -> None:
        def work() -> dict:
            os.environ["FIRN_BATCH"] = "0"
            model = scene.network()
            seen: list[int] = []
            data = Numbered(seen)
            elastic = Elastic(
                model, scene.optimizer_of(model), data, threads=4, batch_size=3
            )
            for x, y in elastic:
                if elastic.step == 1:
                    elastic.batch_wanted = 20  # five a thread
                elastic.backward(cross_entropy(model(x), y))
            elastic.close()
            return {"seen": sorted(seen), "steps": elastic.step}

        found = farm.run(1, work)
        self.assertEqual(found["seen"], list(range(48)))
        self.assertEqual(found["steps"], 2 + 2)  # 3, 3, 5, 1

    def test_a_schedule_over_steps_ends_with_the_training(self) -> None:
        def work(batch: int) -> dict:
            model = scene.network()
            optimizer = scene.optimizer_of(model)
            linear = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 12.0 - n)
            counts: list[int] = []
            elastic = Elastic(
                *(model, optimizer, scene.Noisy()),
                **dict(threads=4, batch_size=3, epochs=3, max_steps=12),
                **dict(scheduler=linear, scheduler_by="step"),
                on_step=lambda e: counts.append(linear.last_epoch),
            )
            for x, y in elastic:
                if elastic.step == 4:
                    elastic.batch_wanted = batch
                elastic.backward(cross_entropy(model(x), y))
            found = {"counts": counts, "can": elastic.can(), "total": elastic.total_steps}
            elastic.close()
            return found

        plain = farm.run(1, lambda: work(0))
        self.assertEqual(plain["counts"], list(range(1, 13)))
        self.assertIn("batch", plain["can"])
        twice = farm.run(1, lambda: work(24))
        # step 6 takes samples 3 to 8 of epoch 1, step 7 the last three
        self.assertEqual(twice["counts"], [1, 2, 3, 4, 5, 7, 8, 10, 12])
        self.assertEqual(twice["total"], 9)
        half = farm.run(1, lambda: work(8))  # two a thread
        self.assertEqual(half["counts"][:5], [1, 2, 3, 4, 5])
        self.assertEqual(half["counts"][-1], 12)
        self.assertEqual(len(half["counts"]), 5 + 5 + 6)

    def test_reports_have_the_loss_of_all_processes_and_the_metric(self) -> None:
        one = farm.run(1, lambda: job(report_every=4, metric=0.5))
        two = farm.run(2, lambda: job(report_every=4, metric=0.5))
        losses = [r.get("loss") for r in one["heard"]]
        self.assertEqual(len(losses), 4)  # after the first step, then every fourth
        self.assertEqual(losses, [r.get("loss") for r in two["heard"]])
        self.assertEqual(one["heard"][-1]["metric"], 0.5)
        met = farm.run(1, lambda: job(metric=0.5), FIRN_TARGET_METRIC="0.4")
        self.assertEqual((met["steps"], met["progress"]), (2, 1.0))

    def test_a_slow_first_step_is_in_no_reported_step_time(self) -> None:
        def work() -> dict[str, list[float]]:
            model = scene.network()
            slow = [2.0]  # seconds, once: libraries that are loaded at first use

            def update() -> None:
                time.sleep(slow.pop() if slow else 0)

            elastic = Elastic(model, scene.optimizer_of(model), scene.Noisy(), threads=4,
                              batch_size=scene.BATCH, epochs=3, report_every=3, update=update)
            heard: list[float] = []
            elastic.reporter.say = lambda **n: heard.append(n["step_s"])  # type: ignore
            for x, y in elastic:
                elastic.backward(cross_entropy(model(x), y))
            elastic.close()
            return {"heard": heard}

        heard = farm.run(1, work)["heard"]
        self.assertEqual(heard[0], -1)
        self.assertLess(min(heard[1:3]), 0.4)  # 0.5 and more with the first step

    def test_a_reported_step_time_is_of_the_steps_since_the_last_report(self) -> None:
        def work() -> dict[str, float]:
            model = scene.network()
            sleeps = [0.0, 0.0, 0.4, 0.4]  # since step 3 another job is on the GPU
            elastic = Elastic(model, scene.optimizer_of(model), scene.Noisy(), threads=4,
                              batch_size=scene.BATCH, epochs=1, report_every=2,
                              update=lambda: time.sleep(sleeps.pop(0)))
            heard: dict[int, float] = {}
            elastic.reporter.say = (  # type: ignore
                lambda **n: heard.update({n["step"]: n["step_s"]}))
            for x, y in elastic:
                elastic.backward(cross_entropy(model(x), y))
            elastic.close()
            return {"last": heard[4]}

        self.assertGreaterEqual(farm.run(1, work)["last"], 0.4)  # 0.27 of steps 2 to 4

    def test_a_reported_step_time_is_by_the_clock_without_what_is_apart(self) -> None:
        def work(folder: str) -> dict[str, float]:
            model = scene.network()
            elastic = Elastic(model, scene.optimizer_of(model), scene.Noisy(), threads=1,
                              batch_size=scene.BATCH, epochs=1, report_every=3,
                              folder=folder, every_steps=2,
                              on_step=lambda job: time.sleep(1))
            settle = elastic.freezing.settle  # between the parts that are timed
            elastic.freezing.settle = (  # type: ignore
                lambda: (settle(), time.sleep(0.1)))
            heard: dict[int, float] = {}
            elastic.reporter.say = (  # type: ignore
                lambda **n: heard.update({n["step"]: n["step_s"]}))
            for x, y in elastic:
                elastic.backward(cross_entropy(model(x), y))
            elastic.close()
            return {"third": heard[3]}

        with tempfile.TemporaryDirectory() as folder:
            found = farm.run(1, lambda: work(folder))["third"]
        self.assertGreaterEqual(found, 0.1)
        self.assertLess(found, 1)  # on_step alone

    def test_a_trainer_says_what_it_can(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = farm.run(1, lambda: job(epochs=1, folder=folder))
        all_of_it = ["after", "batch", "executors", "freeze", "resize"]
        self.assertEqual(found["can"], all_of_it)
        self.assertEqual(found["heard"][0]["can"], all_of_it)
        declined = farm.run(1, lambda: job(epochs=1, batch_orders=False))
        self.assertEqual(declined["can"], ["after", "freeze"])
        kept = farm.run(
            1, lambda: job(epochs=1, batch_orders=False), FIRN_BATCH="24"
        )
        self.assertEqual(kept["steps"], 4)
        own = farm.run(1, lambda: job(epochs=1, can=["tensor"]))
        self.assertEqual(own["can"], ["tensor"])
        self.assertEqual(bits_of(CAN), (1 << len(CAN)) - 1)
        with self.assertRaisesRegex(FirnError, "'fly' is not one of resize"):
            bits_of(["fly"])

    def test_a_wrong_rule_is_refused(self) -> None:
        os.environ["FIRN_BATCH_RULE"] = "cubic"
        self.addCleanup(os.environ.pop, "FIRN_BATCH_RULE")
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertRaisesRegex(FirnError, "FIRN_BATCH_RULE is 'cubic'"):
            Elastic(model, optimizer, scene.Noisy())


if __name__ == "__main__":
    unittest.main()
