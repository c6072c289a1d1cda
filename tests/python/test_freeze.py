"""Frozen layers stand still, are not reduced, and a replay is the same bits."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest

import farm
import scene
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from firn.freezer import Decided
from firn.torch import Elastic
from firn.torch.freeze import Freezer, Options, Profile, layers_of, param_groups
from firn.torch.reduce import Flat


class Blocks(nn.Module):
    """A module with containers, norms and tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight


class Layers(unittest.TestCase):
    """What freezes together."""

    def test_norms_join_the_block_before_them(self) -> None:
        names = [layer.name for layer in layers_of(scene.network())]
        self.assertEqual(names, ["0", "4", "9", "11"])

    def test_containers_are_opened_and_tied_weights_freeze_last(self) -> None:
        layers = layers_of(Blocks())
        self.assertEqual(
            [layer.name for layer in layers], ["blocks.0", "blocks.1", "head"]
        )
        self.assertEqual(layers[-1].nelements, 28)

    def test_every_parameter_that_trains_is_in_one_layer(self) -> None:
        model = scene.network()
        next(model.parameters()).requires_grad_(False)
        found = [id(p) for layer in layers_of(model) for p in layer.params]
        live = [id(p) for p in model.parameters() if p.requires_grad]
        self.assertEqual(sorted(found), sorted(live))


class Variances(unittest.TestCase):
    """Against an oracle in double precision."""

    def check(self, nthreads: int) -> None:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
        layers = layers_of(model)
        flat = Flat([layer.params for layer in layers])
        profile = Profile(flat, layers, nthreads)
        expected = [0.0] * len(layers)
        last = None
        for step in range(4):
            grads = torch.randn(nthreads, flat.n) + 1
            for v in range(nthreads):
                profile.thread(v, flat.views(grads[v]))
            mean = grads.mean(0)
            for p, g in zip(flat.params, flat.views(mean)):
                p.grad = g.clone()
            profile.mean()
            for i in range(len(layers)):
                part = slice(flat.layer_at[i], flat.layer_at[i + 1])
                if nthreads > 1:
                    expected[i] += float(grads[:, part].double().var(0).sum()) / 4
                elif step % 2 == 1:
                    change = (mean - last)[part].double()
                    expected[i] += float(change.square().sum()) / 2 / 2
            last = mean
        squares = {v: s.tolist() for v, s in profile.threads.items()}
        for found, right in zip(profile.variance(squares), expected):
            self.assertAlmostEqual(found / right, 1, delta=1e-6)

    def test_variance_across_threads_equals_a_hand_calculation(self) -> None:
        self.check(4)

    def test_variance_of_successive_steps_equals_a_hand_calculation(self) -> None:
        self.check(1)


def frozen_run(rule: object, epochs: int = 4, **options: object) -> dict:
    """An elastic job that tells what happened to its weights in each epoch."""
    model = scene.network()
    optimizer = scene.optimizer_of(model)
    seen: dict = {"epochs": [], "modes": [], "steps": []}

    def over(job: Elastic) -> None:
        layers = [farm.digest(*layer.params) for layer in job.layers]
        seen["epochs"].append([layers, job.freezer.nfrozen, job.nbytes])
        seen["steps"].append(job.step)
        seen["modes"].append([model[1].training, model[5].training])

    freeze = Options(rule=rule, warmup_epochs=0, measure_every=1)
    job = Elastic(
        model,
        optimizer,
        scene.Noisy(),
        threads=4,
        batch_size=scene.BATCH,
        epochs=epochs,
        seed=scene.SEED,
        freeze=freeze,
        on_epoch=over,
        **options,
    )
    for x, y in job:
        job.backward(cross_entropy(model(x), y))
    seen["weights"] = farm.digest(*model.parameters())
    seen["log"] = [vars(d) for d in job.freezer.log()]
    seen["modes"].append([model[1].training, model[5].training])
    if job.place.rank > 0:
        seen = {"weights 1": seen["weights"], "log 1": seen["log"]}
    job.close()
    return seen


def two_after_one(known: object) -> int:
    """A rule: two layers from the first epoch on, none from the third."""
    return 2 if known.epoch in (1, 2) else 0


class Freezing(unittest.TestCase):
    """While it trains."""

    def test_only_frozen_layers_stand_still(self) -> None:
        seen = farm.run(1, lambda: frozen_run(two_after_one))
        first, second, third, fourth = (layers for layers, _, _ in seen["epochs"])
        self.assertEqual([n for _, n, _ in seen["epochs"]], [2, 2, 0, 0])
        self.assertEqual(first[:2], third[:2])
        self.assertTrue(all(a != b for a, b in zip(first[2:], second[2:])))
        self.assertTrue(all(a != b for a, b in zip(third, fourth)))
        self.assertEqual(seen["modes"], [[False] * 2] * 2 + [[True] * 2] * 3)

    def test_bytes_reduced_shrink_to_the_share_that_trains(self) -> None:
        ways = ["memory"]
        ways += ["distributed"] if torch.distributed.is_available() else []
        for way in ways:
            seen = farm.run(2, lambda: frozen_run(two_after_one, through=way))
            sent = [0] + [n for _, _, n in seen["epochs"]]
            steps = [0] + seen["steps"]
            whole, frozen = (
                (sent[i + 1] - sent[i]) / (steps[i + 1] - steps[i]) for i in (0, 1)
            )
            sizes = [layer.nelements for layer in layers_of(scene.network())]
            # torch.distributed: the slices of both processes are rounded up to
            # 16 elements
            more = 32 / sum(sizes) if way == "distributed" else 0.0
            share = sum(sizes[2:]) / sum(sizes)
            self.assertAlmostEqual(frozen / whole, share, delta=more, msg=way)
            self.assertEqual(seen["weights"], seen["weights 1"])
            self.assertEqual(seen["log"], seen["log 1"])

    def test_a_replay_of_the_log_is_the_same_bits_on_other_processes(self) -> None:
        seen = farm.run(1, lambda: frozen_run("penalty"))
        log = [Decided(**d) for d in seen["log"]]
        self.assertEqual(len(log), 4)
        again = farm.run(2, lambda: frozen_run("off", replay=log))
        self.assertEqual(again["weights"], seen["weights"])
        self.assertEqual(again["steps"], seen["steps"])
        other = [Decided(d.step, d.epoch, d.kind, 3 - d.value, d.psi) for d in log]
        twin = farm.run(1, lambda: frozen_run("off", replay=other))
        self.assertNotEqual(twin["weights"], seen["weights"])

    def stop_frozen(self) -> str:
        """Stopped with two layers frozen; the folder of its checkpoint."""
        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)

        def stopped() -> dict:
            count = iter(range(100))

            def update() -> None:
                if next(count) == 6:
                    os.kill(os.getpid(), 10)
                job.optimizer.step()

            model = scene.network()
            job = Elastic(
                model,
                scene.optimizer_of(model),
                scene.Noisy(),
                threads=4,
                batch_size=scene.BATCH,
                epochs=4,
                seed=scene.SEED,
                folder=folder,
                freeze=Options(rule=two_after_one, warmup_epochs=0, measure_every=1),
                update=update,
            )
            for x, y in job:
                job.backward(cross_entropy(model(x), y))
            return {}

        farm.finish(farm.start(1, stopped, FIRN_JOB="frozen"), 83)
        return folder

    def test_a_stop_while_frozen_does_not_change_the_bits(self) -> None:
        folder = self.stop_frozen()
        whole = farm.run(1, lambda: frozen_run(two_after_one))
        found = farm.run(
            2, lambda: frozen_run(two_after_one, folder=folder), FIRN_JOB="frozen"
        )
        self.assertEqual(found["weights"], whole["weights"])

    def test_a_job_resumed_under_a_lower_limit_thaws_and_logs_it(self) -> None:
        folder = self.stop_frozen()
        seen = farm.run(
            2,
            lambda: frozen_run(two_after_one, folder=folder),
            FIRN_JOB="frozen",
            FIRN_FREEZE_MAX="0.25",
        )
        frozen = [d["value"] for d in seen["log"]]
        self.assertEqual(frozen[:2], [2, 1])
        self.assertGreater(seen["log"][1]["step"], seen["log"][0]["step"])
        self.assertEqual(max(frozen[1:]), 1)
        self.assertEqual(seen["log"], seen["log 1"])
        self.assertEqual(seen["weights"], seen["weights 1"])

    def test_no_rule_freezes_more_than_firn_freeze_max(self) -> None:
        def most(rule: object, **env: str) -> int:
            seen = farm.run(1, lambda: frozen_run(rule), **env)
            return max(d["value"] for d in seen["log"])

        self.assertEqual(most(two_after_one, FIRN_FREEZE_MAX="0.5"), 2)
        self.assertEqual(most(two_after_one, FIRN_FREEZE_MAX="0.49"), 1)
        self.assertEqual(most("freezeout"), 3)
        self.assertEqual(most("freezeout", FIRN_FREEZE_MAX="0.5"), 2)
        with self.assertRaisesRegex(AssertionError, "FIRN_FREEZE_MAX is '90%'"):
            most("off", FIRN_FREEZE_MAX="90%")

    def test_a_program_may_have_a_limit_of_its_own(self) -> None:
        def most(own: float) -> int:
            freezer = Freezer(Options(frozen_max=own), [1, 1, 1, 1])
            found = freezer.most
            freezer.close()
            return found

        self.assertEqual([most(0), most(0.5), most(0.3), most(1)], [3, 2, 1, 3])

    def test_an_exception_of_a_rule_is_raised(self) -> None:
        with self.assertRaisesRegex(AssertionError, "no idea"):
            farm.run(1, lambda: frozen_run(self.raises))

    @staticmethod
    def raises(known: object) -> int:
        raise RuntimeError("no idea")

    def test_freezeout_freezes_by_its_schedule_and_anneals_each_layer(self) -> None:
        def work(most: float = 0.0) -> dict:
            model = scene.network()
            layers = layers_of(model)
            optimizer = torch.optim.SGD(param_groups(layers, 0.1), lr=0.1)
            rates: list = []
            job = Elastic(
                model,
                optimizer,
                scene.Noisy(),
                threads=2,
                batch_size=4,
                epochs=6,
                layers=layers,
                freeze=Options(
                    rule="freezeout", first=0.5, cubic=False, frozen_max=most
                ),
                on_epoch=lambda j: rates.append(
                    [j.freezer.nfrozen] + [g["lr"] for g in optimizer.param_groups]
                ),
            )
            for x, y in job:
                job.backward(cross_entropy(model(x), y))
            job.close()
            return {"rates": rates}

        rates = farm.run(1, work)["rates"]
        frozen = [row[0] for row in rates]
        self.assertEqual(frozen, sorted(frozen))
        self.assertEqual(frozen[0], 0)
        self.assertEqual(frozen[-1], 3)
        self.assertLess(rates[1][1], rates[1][4])
        # With one layer at most the others train on to the end, as the last.
        rates = farm.run(1, lambda: work(0.25), FIRN_FREEZE_MAX="0.5")["rates"]
        self.assertEqual(max(row[0] for row in rates), 1)
        self.assertEqual(rates[1][2:4], [rates[1][4]] * 2)
        self.assertLess(rates[1][1], rates[1][4])


if __name__ == "__main__":
    unittest.main()
