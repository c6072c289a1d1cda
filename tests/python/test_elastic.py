"""Elastic runs have the bits of DDP on V processes, and ablated ones have not."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import unittest

import farm
import scene

from firn import FirnError
from firn.torch import Elastic

SOAK = bool(os.environ.get("FIRN_SOAK"))


def ddp(nprocs: int, **options: object) -> dict:
    """The reference on this number of processes."""
    return farm.run(
        nprocs,
        lambda: scene.ddp(int(os.environ["RANK"]), nprocs, **options),
    )


def elastic(nprocs: int, **options: object) -> dict:
    """An elastic job on this number of processes."""
    found = farm.run(nprocs, lambda: scene.elastic(**options))
    found.pop("steps")
    return found


class Placement(unittest.TestCase):
    """V = 4 wherever its threads are."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.reference = ddp(4)

    def same(self, found: dict) -> None:
        """Fails with the names of what differs."""
        self.assertEqual(farm.differing(self.reference, found), [])

    def test_one_process_equals_ddp_on_four(self) -> None:
        self.same(elastic(1))

    def test_two_processes_equal_ddp_on_four(self) -> None:
        self.same(elastic(2))

    def test_three_processes_equal_ddp_on_four(self) -> None:
        self.same(elastic(3))

    def test_four_processes_equal_ddp_on_four(self) -> None:
        self.same(elastic(4))

    def test_a_scrambled_placement_equals_ddp_on_four(self) -> None:
        self.same(elastic(3, layout=[0, 1, 2, 0]))

    def test_threads_that_go_backwards_equal_ddp_on_four(self) -> None:
        self.same(elastic(2, layout=[1, 1, 0, 0]))

    def test_a_chain_with_constant_memory_equals_ddp_on_four(self) -> None:
        self.same(elastic(2, chain=True))

    def test_gradients_sent_during_the_backward_pass_equal_ddp_on_four(self) -> None:
        found = elastic(
            2, through="distributed", one_backward=True, bucket_mb=0.004
        )
        self.same(found)

    def test_a_scrambled_placement_by_gloo_equals_ddp_on_four(self) -> None:
        self.same(elastic(3, through="distributed", layout=[0, 1, 2, 0]))

    def test_two_hosts_that_speak_by_tcp_equal_ddp_on_four(self) -> None:
        found = farm.run(
            2,
            lambda: scene.elastic(layout=[0, 1, 1, 0]),
            LOCAL_WORLD_SIZE="1",
            FIRN_GROUP_KEY=secrets.token_hex(32),
            LOCAL_RANK="0",
        )
        found.pop("steps")
        self.same(found)

    def test_gradients_in_slots_of_one_process_equal_ddp_on_four(self) -> None:
        self.same(elastic(1, offload=True))

    def test_gradients_that_are_added_as_they_come_equal_ddp_on_four(self) -> None:
        self.same(elastic(1, one_backward=True))

    def test_other_seeds_change_all_but_the_place_in_the_data(self) -> None:
        found = elastic(1, sampler_seed=1)
        self.assertIn("weights", farm.differing(self.reference, found))

    # Each of these leaves something out that must be there.

    def test_without_random_states_weights_and_generators_differ(self) -> None:
        differing = farm.differing(self.reference, elastic(2, ablate=["rng"]))
        self.assertIn("weights", differing)
        self.assertIn("torch 1", differing)

    def test_without_buffers_only_buffers_differ(self) -> None:
        differing = farm.differing(self.reference, elastic(2, ablate=["buffers"]))
        self.assertTrue(differing)
        self.assertTrue(all(key.startswith("buffers") for key in differing))

    def test_a_sampler_by_process_differs(self) -> None:
        found = elastic(2, ablate=["sampler"])
        self.assertIn("weights", farm.differing(self.reference, found))

    def test_sums_by_process_differ_in_weights_and_not_in_generators(self) -> None:
        found = elastic(2, layout=[0, 1, 0, 1], ablate=["sum"])
        differing = farm.differing(self.reference, found)
        self.assertIn("weights", differing)
        self.assertNotIn("torch 1", differing)


class OtherJobs(unittest.TestCase):
    """Other optimisers, buffers that are not spread, other V."""

    def test_adam_on_two_processes_equals_ddp(self) -> None:
        reference = ddp(4, kind="adam", epochs=1)
        found = elastic(2, kind="adam", epochs=1)
        self.assertEqual(farm.differing(reference, found), [])

    def test_buffers_of_their_own_equal_ddp_that_does_not_spread_them(self) -> None:
        reference = ddp(3, broadcast_buffers=False)
        found = elastic(2, threads=3, broadcast_buffers=False)
        self.assertEqual(farm.differing(reference, found), [])
        spread = elastic(1, threads=3)
        self.assertIn("buffers 1", farm.differing(reference, spread))


class Stops(unittest.TestCase):
    """Checkpoints, SIGUSR1, other numbers of processes."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def part(self, nprocs: int, stop_at: int = 0, **options: object) -> dict:
        """A stretch of the same job; the last one returns."""
        work = lambda: scene.elastic(  # noqa: E731
            stop_at=stop_at, folder=self.folder, **options
        )
        children = farm.start(nprocs, work, FIRN_JOB="resized")
        return farm.finish(children, 83 if stop_at else 0)

    def test_a_run_resized_by_signals_equals_one_without_stops(self) -> None:
        whole = elastic(1)
        self.part(4, 1)
        self.part(2, 3, layout=[1, 0, 0, 1])
        self.part(1, 5)
        found = self.part(3)
        self.assertEqual(found.pop("steps"), 8)
        self.assertEqual(farm.differing(whole, found), [])

    def test_a_run_goes_on_in_the_order_of_its_checkpoint(self) -> None:
        whole = elastic(1, sum="chain", epochs=1)
        self.assertIn("weights", farm.differing(whole, elastic(1, epochs=1)))
        self.part(2, 2, sum="chain", epochs=1)
        found = self.part(3, epochs=1)  # nothing says which order
        found.pop("steps")
        self.assertEqual(farm.differing(whole, found), [])

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self) -> None:
        whole = elastic(1, kind="adam")

        def dies() -> dict:
            return scene.elastic(
                folder=self.folder,
                kind="adam",
                every_steps=2,
                update=lambda: os.kill(os.getpid(), 9),
            )

        self.part(2, 3, kind="adam")
        with self.assertRaises(AssertionError):
            farm.finish(farm.start(2, dies, FIRN_JOB="resized"))
        found = self.part(1, kind="adam")
        found.pop("steps")
        self.assertEqual(farm.differing(whole, found), [])

    def test_checkpoints_are_written_as_time_goes_by(self) -> None:
        def kept(every_s: str) -> list[str]:
            """Checkpoints of a job that is killed in its fourth step."""
            count = iter(range(100))

            def update() -> None:
                if next(count) == 3:
                    os.kill(os.getpid(), 9)

            work = lambda: scene.elastic(  # noqa: E731
                folder=self.folder, update=update
            )
            env = {"FIRN_JOB": "often", "FIRN_CKPT_EVERY_S": every_s}
            with self.assertRaisesRegex(AssertionError, "ended with -9"):
                farm.finish(farm.start(2, work, **env))
            return sorted(f for f in os.listdir(self.folder) if f[0] != ".")

        self.assertEqual(kept("1e9"), [])
        self.assertEqual(kept("1e-9")[-1], "often-000000000003.ckpt")

    def test_an_incomplete_checkpoint_is_skipped(self) -> None:
        whole = elastic(1)
        self.part(1, 3)
        self.part(1, 5)
        newest = sorted(os.listdir(self.folder))[-1]
        path = os.path.join(self.folder, newest)
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 100)
        found = self.part(2)
        found.pop("steps")
        self.assertEqual(farm.differing(whole, found), [])

    def test_another_number_of_threads_is_refused(self) -> None:
        self.part(1, 2)
        with self.assertRaisesRegex(AssertionError, "of 4 threads cannot go on with 3"):
            self.part(1, threads=3)

    def test_a_loop_left_in_the_middle_of_a_step_is_not_taken_up(self) -> None:
        def work() -> dict:
            model = scene.network()
            job = Elastic(model, scene.optimizer_of(model), scene.Noisy(), threads=2)
            next(iter(job))
            with self.assertRaisesRegex(FirnError, "middle of a step"):
                next(iter(job))
            with self.assertRaisesRegex(FirnError, "middle of a step"):
                job.save()
            return {}

        farm.run(1, work)

    def test_an_order_to_stop_without_a_folder_is_an_error(self) -> None:
        with self.assertRaisesRegex(AssertionError, "set FIRN_DIR"):
            farm.run(1, lambda: scene.elastic(stop_at=1))


@unittest.skipUnless(SOAK, "FIRN_SOAK is not set")
class Many(unittest.TestCase):
    """The long matrix."""

    def test_eight_threads_on_three_and_five_equal_ddp_on_eight(self) -> None:
        for kind in ("sgd", "adam"):
            reference = ddp(8, kind=kind)
            for nprocs in (1, 3, 5):
                found = elastic(nprocs, threads=8, kind=kind)
                self.assertEqual(farm.differing(reference, found), [])
            found = elastic(3, threads=8, kind=kind, layout=[2, 0, 1, 1, 0, 2, 2, 0])
            self.assertEqual(farm.differing(reference, found), [])

    def test_fifty_random_resizes_change_nothing(self) -> None:
        import random

        rng = random.Random(6)
        whole = elastic(1, epochs=16)
        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        for step in range(1, 51):
            nprocs = rng.randint(1, 4)
            layout = list(range(nprocs)) + rng.choices(range(nprocs), k=4 - nprocs)
            rng.shuffle(layout)
            options = dict(stop_at=step, folder=folder, layout=layout, epochs=16)
            work = lambda o=options: scene.elastic(**o)  # noqa: E731
            farm.finish(farm.start(nprocs, work, FIRN_JOB="resized"), 83)
        work = lambda: scene.elastic(folder=folder, epochs=16)  # noqa: E731
        found = farm.run(3, work, FIRN_JOB="resized")
        found.pop("steps")
        self.assertEqual(farm.differing(whole, found), [])


if __name__ == "__main__":
    unittest.main()
