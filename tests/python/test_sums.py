"""The order of sums: its shape by hand, and the same bits by every way between
processes and in every placement."""

from __future__ import annotations

import os
import unittest

import farm
import torch

from firn import FirnError, fold, tree
from firn.group import Group, Place, even_layout
from firn.torch import reduce, sums

try:
    import torch.distributed as dist

    HAS_DIST = dist.is_available()
except ImportError:
    HAS_DIST = False


class Shape(unittest.TestCase):
    """Worked by hand."""

    def test_threads_are_split_at_the_largest_power_of_two_below(self) -> None:
        at = [tree.split(n) for n in range(2, 10)]
        self.assertEqual(at, [1, 2, 2, 4, 4, 4, 4, 8])

    def test_six_and_seven_threads_are_added_as_written(self) -> None:
        def written(n: int) -> str:
            text = [f"g{v}" for v in range(n)]
            for i, j in tree.steps([(v, v + 1) for v in range(n)]):
                text[i] = f"({text[i]}+{text[j]})"
            return text[0]

        self.assertEqual(written(6), "(((g0+g1)+(g2+g3))+(g4+g5))")
        self.assertEqual(written(7), "(((g0+g1)+(g2+g3))+((g4+g5)+g6))")
        self.assertEqual(written(3), "((g0+g1)+g2)")

    def test_a_process_holds_the_largest_aligned_blocks(self) -> None:
        owner = [0, 0, 0, 1, 1, 1, 2, 2]
        found = tree.blocks(owner)
        self.assertEqual(found, [(0, 2), (2, 3), (3, 4), (4, 6), (6, 8)])
        self.assertEqual(tree.blocks([0] * 7), [(0, 7)])
        self.assertEqual(tree.blocks([1, 1, 1, 1, 0, 0, 0]), [(0, 4), (4, 7)])

    def test_one_unit_that_is_lost_in_a_chain_is_kept_in_a_tree(self) -> None:
        big = 2.0**24  # big + 1 is big, big + 2 is not
        x = torch.tensor([big, 1, 1, 1])
        out = torch.empty(1)
        at = [x[v:].data_ptr() for v in range(4)]
        fold.tree_f32(out.data_ptr(), at, 1)
        self.assertEqual(out.item(), big + 2)
        fold.fold_f32(out.data_ptr(), at, 1)
        self.assertEqual(out.item(), big)

    def test_the_c_fold_makes_the_same_additions(self) -> None:
        for owner in ([0] * 7, even_layout(8, 3), even_layout(13, 4)):
            parts = tree.blocks(owner)
            x = torch.randn(len(parts), 99)
            out = torch.empty(99)
            first = [a for a, _ in parts] + [len(owner)]
            fold.tree_f32(out.data_ptr(), [r.data_ptr() for r in x], 99, 1.0, first)
            rows = list(x.clone())
            for i, j in tree.additions(parts, "tree"):
                rows[i] += rows[j]
            self.assertTrue(torch.equal(out, rows[0]))


def network() -> torch.nn.Module:
    """Parameters of several shapes; the last one is used by even threads."""
    torch.manual_seed(3)
    return torch.nn.ParameterList(
        torch.nn.Parameter(torch.randn(shape)) for shape in ((7, 5), (33,), (2, 3, 4))
    )


def turn(model: torch.nn.Module, thread: int, step: int) -> None:
    """One backward pass with gradients of very different sizes."""
    g = torch.Generator().manual_seed(1000 * step + thread)
    loss = torch.zeros(())
    for i, p in enumerate(model):
        if i < 2 or thread % 2 == 0:
            scale = torch.exp(8 * torch.randn(p.shape, generator=g))
            loss = loss + (p * scale).sum()
    loss.backward()


def means(model: torch.nn.Module, way: object, mine: list[int], **do: bool) -> list:
    """The means of two steps, as a reducer makes them."""
    found = []
    for step in range(2):
        for thread in mine:
            for p in model:
                p.grad = None
            way.begin(bool(do.get("one_backward")))
            turn(model, thread, step)
            way.put(thread)
        way.mean()
        found += [p.grad.detach().clone() for p in model]
    return found


def expected(nthreads: int, order: str) -> str:
    """By torch's own additions, in the order as it is defined."""
    found = []
    for step in range(2):
        rows = []
        for thread in range(nthreads):
            model = network()
            turn(model, thread, step)
            rows.append(
                [torch.zeros_like(p) if p.grad is None else p.grad for p in model]
            )
        for i, j in tree.additions([(v, v + 1) for v in range(nthreads)], order):
            for a, b in zip(rows[i], rows[j]):
                a += b
        found += [g / nthreads for g in rows[0]]
    return farm.digest(*found)


LAYOUTS = {
    2: ([0, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 1, 0, 1, 0]),
    3: ([2, 0, 1, 1, 0, 2, 2, 1],),
    4: ([3, 2, 2, 1, 0, 0, 0],),
}


def places(nprocs: int, nthreads: tuple[int, ...]) -> list[Place]:
    """The placements that are tried on this number of processes."""
    layouts = [even_layout(v, nprocs) for v in nthreads if v >= nprocs]
    found = []
    for owner in layouts + list(LAYOUTS.get(nprocs, ())):
        place = Place.of_environment(len(owner), owner)
        found.append(place)
    return found


def by_all_ways(nprocs: int, orders: tuple[str, ...] = tree.ORDERS) -> dict:
    """In one process: digests by way, placement and order."""
    found = {}
    for k, place in enumerate(places(nprocs, (6, 7, 8))):
        for order in orders:
            name = f"{place.owner} {order}"
            model = network()
            flat = reduce.Flat([list(model)])
            group = Group(place, flat.n, order=order, name=f"s{k}{order}")
            way = reduce.Slots(flat, place, group)
            found[f"{name} slots"] = farm.digest(*means(model, way, place.mine))
            way.close()
            group.close()
            if order == tree.TREE:
                group = Group(place, flat.n, chain=True, name=f"c{k}")
                kind = reduce.Compact if group.slot(place.mine[0]) is None else None
                if kind is not None:
                    way = kind(flat, place, group)
                    found[f"{name} compact"] = farm.digest(
                        *means(model, way, place.mine)
                    )
                group.close()
            if not HAS_DIST:
                continue
            for small in (False, True):
                way = sums.Exchange(
                    flat, place, order=order, bucket_bytes=64 if small else 1 << 20
                )
                digest = farm.digest(
                    *means(model, way, place.mine, one_backward=not small)
                )
                found[f"{name} distributed {small}"] = digest
                way.close()
    if HAS_DIST:
        dist.barrier()
    return {f"{key} in {os.environ['RANK']}": value for key, value in found.items()}


class Ways(unittest.TestCase):
    """Every P, V = 6, 7, 8, even and mixed placements."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.want = {
            (v, order): expected(v, order) for v in (6, 7, 8) for order in tree.ORDERS
        }

    def check(self, nprocs: int, *orders: str) -> None:
        """All ways on this number of processes."""
        found = farm.run(nprocs, lambda: by_all_ways(nprocs, orders or tree.ORDERS))
        self.assertTrue(found)
        for name, digest in found.items():
            layout, _, rest = name.partition("] ")
            key = (layout.count(",") + 1, rest.split()[0])
            self.assertEqual(digest, self.want[key], name)

    def test_one_process_sums_on_its_device(self) -> None:
        for (nthreads, order), want in self.want.items():
            for one_backward in (False, True):
                model = network()
                flat = reduce.Flat([list(model)])
                way = reduce.Running(flat, nthreads, order)
                found = means(
                    model, way, list(range(nthreads)), one_backward=one_backward
                )
                # one_backward asks for every parameter in every turn; here
                # adding zeros to what is not zero changes nothing
                self.assertEqual(farm.digest(*found), want)

    def test_two_processes(self) -> None:
        self.check(2)

    @unittest.skipUnless(HAS_DIST, "PyTorch has no torch.distributed")
    def test_two_processes_by_single_messages(self) -> None:
        from firn.torch import exchange

        exchange._can_swap[0] = exchange._can_gather[0] = False
        self.addCleanup(exchange._can_swap.__setitem__, 0, True)
        self.addCleanup(exchange._can_gather.__setitem__, 0, True)
        self.check(2, "tree")

    def test_three_processes(self) -> None:
        self.check(3)

    def test_four_processes(self) -> None:
        self.check(4, "tree")

    def test_six_processes(self) -> None:
        self.check(6, "tree")

    def test_eight_processes(self) -> None:
        self.check(8, "tree")


@unittest.skipUnless(HAS_DIST, "PyTorch has no torch.distributed")
class Bytes(unittest.TestCase):
    """What is sent, in sizes of the gradient."""

    def test_aligned_blocks_send_as_much_as_a_ring(self) -> None:
        from firn.torch.exchange import bytes_sent

        for nprocs in (2, 4, 8):
            ring = 2 * (nprocs - 1) / nprocs
            self.assertEqual(bytes_sent(even_layout(8, nprocs)), [ring] * nprocs)
        # Three processes hold two, two and one block: 2/3 of each, and 2/3.
        self.assertEqual(bytes_sent(even_layout(8, 3)), [2.0, 2.0, 4 / 3])
        # A chain sends the gradient of every thread.
        self.assertEqual(bytes_sent(even_layout(8, 2), "chain"), [2.5, 2.5])


class Orders(unittest.TestCase):
    """Which order holds."""

    def test_an_order_is_named_or_refused(self) -> None:
        self.assertEqual(sums.Sums(None).order, "tree")
        self.assertEqual(sums.Sums("chain").order, "chain")
        with self.assertRaisesRegex(FirnError, "is 'ring', not tree or chain"):
            sums.word_of("ring", "FIRN_SUM", tree.ORDERS)
        with self.assertRaisesRegex(FirnError, "FIRN_THROUGH is 'mail', not"):
            os.environ["FIRN_THROUGH"] = "mail"
            self.addCleanup(os.environ.pop, "FIRN_THROUGH")
            sums.word_of(None, "FIRN_THROUGH", sums.WAYS)

    def test_the_checkpoints_order_holds_unless_another_is_asked_for(self) -> None:
        self.assertEqual(sums.Sums(None).take("chain"), ("chain", ""))
        order, message = sums.Sums("tree").take("chain")
        self.assertEqual(order, "tree")
        self.assertIn("summed in the order 'chain'", message)
        with self.assertRaisesRegex(FirnError, "train/sum"):
            sums.Sums(None).take("ring")

    def test_memory_of_a_running_sum_grows_with_the_logarithm(self) -> None:
        model = network()
        flat = reduce.Flat([list(model)])
        way = reduce.Running(flat, 64)
        most = 0
        for thread in range(64):
            for p in model:
                p.grad = torch.ones_like(p)
            way.put(thread)
            most = max(most, len(way._held))
        self.assertEqual(most, 6)
        way.mean()
        self.assertTrue(all(bool((p.grad == 1).all()) for p in model))


if __name__ == "__main__":
    unittest.main()
