"""Shared data workers give the batches of the stock loader, also after a stop."""

from __future__ import annotations

import shutil
import tempfile
import unittest

import farm
import scene
import torch

from firn.torch import loader, states

V, W, EPOCHS = 3, 2, 2


class Curious(scene.Noisy):
    """Also asks which worker it is in."""

    def __getitem__(self, i: int) -> tuple:
        info = torch.utils.data.get_worker_info()
        who = (info.id, info.num_workers, info.seed % 2**31) if info else (-1, 0, 0)
        return (*super().__getitem__(i), torch.tensor(who))


def stock(v: int) -> list[str]:
    """Rank v of V with a stock loader of W workers: a hash of each batch, and
    of the generators behind it."""
    data = Curious(31)
    sampler = torch.utils.data.DistributedSampler(data, V, v)
    batches = torch.utils.data.DataLoader(data, 3, sampler=sampler, num_workers=W)
    states.seed(20 + v)
    found = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        found += [farm.digest(*batch) for batch in batches]
    return found + [farm.digest(states.encode(states.take())["torch"])]


class Threads:
    """V threads over a shared pool, without a model."""

    def __init__(self, pool: int) -> None:
        data = Curious(31)
        self.plan = loader.Plan(data, V, 3)
        self.source = loader.Shared(data, self.plan, range(V), workers=W, pool=pool)
        self.rng = {}
        for v in range(V):
            states.seed(20 + v)
            self.rng[v] = states.take()

    def begin(self, epoch: int) -> None:
        """All threads, each in its own generators."""
        for v in range(V):
            states.give(self.rng[v])
            self.source.begin(v, epoch)
            self.rng[v] = states.take()

    def draw(self, epoch: int, batch: int, found: dict[int, list[str]]) -> None:
        """A batch of each thread."""
        for v in range(V):
            found[v].append(farm.digest(*self.source.next(v, epoch, batch)))


class SharedWorkers(unittest.TestCase):
    """One pool for all threads."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.expected = {v: stock(v) for v in range(V)}

    def test_pools_of_one_and_three_give_the_stock_batches(self) -> None:
        for pool in (1, 3):
            found: dict[int, list[str]] = {v: [] for v in range(V)}
            threads = Threads(pool)
            for epoch in range(EPOCHS):
                threads.begin(epoch)
                for batch in range(threads.plan.nbatches):
                    threads.draw(epoch, batch, found)
            threads.source.close()
            for v in range(V):
                last = farm.digest(states.encode(threads.rng[v])["torch"])
                self.assertEqual(found[v] + [last], self.expected[v])

    def test_prefetched_batches_are_drawn_again_after_a_stop(self) -> None:
        found: dict[int, list[str]] = {v: [] for v in range(V)}
        threads = Threads(2)
        threads.begin(0)
        for batch in range(2):
            threads.draw(0, batch, found)
        saved = [threads.source.save(v) for v in range(V)]
        threads.source.close()
        again = Threads(1)
        for v in range(V):
            again.source.load(v, 0, 2, saved[v])
        for batch in range(2, again.plan.nbatches):
            again.draw(0, batch, found)
        again.source.close()
        for v in range(V):
            self.assertEqual(found[v], self.expected[v][: len(found[v])])

    def test_starting_from_a_seed_instead_of_the_saved_states_differs(self) -> None:
        threads = Threads(1)
        threads.begin(0)
        fresh: dict[int, list[str]] = {v: [] for v in range(V)}
        threads.source._feed.start(2, threads.plan.nbatches)
        for v in range(V):
            for j in range(W):
                state = loader._FRESH.pack(b"seed", v, j)
                threads.source._feed.seed(v, j, state)
        threads.source._forget()
        threads.source._ask()
        threads.draw(0, 2, fresh)
        threads.source.close()
        self.assertNotEqual(fresh[0][0], self.expected[0][2])

    def test_an_error_of_the_data_set_names_its_batch(self) -> None:
        class Broken(Curious):
            def __getitem__(self, i: int) -> tuple:
                raise KeyError("no such picture")

        data = Broken(31)
        source = loader.Shared(data, loader.Plan(data, 1, 3), [0], workers=1)
        source.begin(0, 0)
        with self.assertRaisesRegex(Exception, "batch 0 of thread 0: KeyError"):
            source.next(0, 0, 0)
        source.close()


class Resumed(unittest.TestCase):
    """The whole job with shared workers."""

    def test_a_job_with_workers_resumes_on_other_processes_and_pools(self) -> None:
        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        whole = farm.run(2, lambda: scene.elastic(workers=2, pool=2))
        part = lambda **o: lambda: scene.elastic(  # noqa: E731
            workers=2, folder=folder, **o
        )
        first = farm.start(1, part(stop_at=2, pool=1), FIRN_JOB="fed")
        farm.finish(first, 83)
        found = farm.run(3, part(pool=1), FIRN_JOB="fed")
        self.assertEqual(farm.differing(whole, found), [])
        inline = farm.run(1, lambda: scene.elastic())
        self.assertIn("weights", farm.differing(whole, inline))


if __name__ == "__main__":
    unittest.main()
