"""Mistakes are refused with a sentence, and what is kept is kept exactly."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

import farm
import scene
import torch
from torch import nn
from torch.nn.functional import mse_loss

from firn import FirnError
from firn.ckpt import Checkpoint
from firn.torch import Elastic, hashing, pack, sampling, streams


class Rows(torch.utils.data.Dataset):
    """Eight numbers each, and their sum."""

    def __init__(self, n: int = 24) -> None:
        self.x = torch.randn(n, 8, generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[i], self.x[i].sum().reshape(1)


class Batches:
    """The same rows, a batch at a time: __getitems__ and no __getitem__."""

    def __init__(self) -> None:
        self.rows = Rows()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.rows.x[indices]
        return x, torch.stack([row.sum().reshape(1) for row in x])


class Masked(nn.Module):
    """With buffers of kinds that checkpoint files have no number for."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 1)
        self.register_buffer("causal", torch.ones(8, 8).tril().bool())
        self.register_buffer("count", torch.zeros((), dtype=torch.int16))
        self.register_buffer("small", torch.arange(-4, 4, dtype=torch.int8))
        self.register_buffer("wave", torch.ones(3, dtype=torch.complex64))
        self.register_buffer("empty", torch.zeros(0, dtype=torch.bool))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.causal[0, 7] = ~self.causal[0, 7]
        return self.b(torch.relu(self.a(x)) @ self.causal.float())


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(model: nn.Module, data: Any, **options: Any) -> dict:
    """A job to its end: weights and buffers."""
    stop_at = options.pop("stop_at", 0)
    optimizer = options.pop("optimizer", None) or sgd(model)
    options = {"threads": 4, "batch_size": 2, "epochs": 2, **options}
    job = Elastic(model, optimizer, data, **options)
    for x, y in job:
        if stop_at and job.step == stop_at and job.place.rank == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        job.backward(mse_loss(model(x), y))
    found = {"weights": farm.digest(*model.parameters()), "steps": job.step}
    found["epoch loss"] = job.epoch_loss
    for v in job.mine:
        for name, buffer in job.buffers.of(v).items():
            found[f"{name} {v}"] = farm.digest(buffer)
    job.close()
    return found


class Refused(unittest.TestCase):
    """At opening, before anything is trained."""

    def refuses(self, sentence: str, *given: Any, **options: Any) -> None:
        with self.assertRaisesRegex(FirnError, sentence):
            Elastic(*given, **options)

    def test_a_wrapped_model_is_refused(self) -> None:
        model = nn.Linear(8, 1)
        wrapped = nn.DataParallel(model)
        self.refuses("DataParallel splits", wrapped, sgd(model), Rows())
        outer = nn.Sequential(nn.ReLU(), wrapped)
        self.refuses("'1' of the model is wrapped", outer, sgd(model), Rows())

    def test_models_of_ddp_and_fsdp_are_refused(self) -> None:
        def work() -> dict:
            import torch.distributed as dist

            dist.init_process_group("gloo", rank=0, world_size=1)
            model = nn.Linear(8, 1)
            ddp = nn.parallel.DistributedDataParallel(model)
            self.refuses("DistributedDataParallel", ddp, sgd(model), Rows())
            try:
                from torch.distributed.fsdp import fully_shard
            except (ImportError, ValueError):  # before 2.6; 1.13 on Python 3.11
                return {}
            from torch.distributed.device_mesh import init_device_mesh

            sharded = fully_shard(nn.Linear(8, 1), mesh=init_device_mesh("cpu", (1,)))
            self.refuses("FSDPModule", sharded, sgd(sharded), Rows())
            scene._kept.extend((ddp, dist.group.WORLD))
            return {}

        farm.run(1, work)

    def test_parameters_without_data_are_refused(self) -> None:
        model = nn.Linear(8, 1, device="meta")
        self.refuses("meta device", model, sgd(model), Rows())
        lazy = nn.LazyLinear(1)
        self.refuses("has no shape yet", lazy, sgd(nn.Linear(1, 1)), Rows())

    def test_unsupported_optimizers_are_refused(self) -> None:
        model = nn.Linear(8, 1)
        lbfgs = torch.optim.LBFGS(model.parameters())
        self.refuses("LBFGS evaluates the loss several", model, lbfgs, Rows())
        sparse = torch.optim.SparseAdam(list(model.parameters()))
        self.refuses("SparseAdam needs sparse", model, sparse, Rows())
        self.refuses("which has no step", model, object(), Rows())
        other = sgd(nn.ModuleList([model, nn.Linear(2, 2)]))
        self.refuses("2 of the 4 tensors of the optimizer", model, other, Rows())

    def test_unsupported_schedulers_are_refused(self) -> None:
        model = nn.Linear(8, 1)
        optimizer = sgd(model)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        self.refuses(
            "ReduceLROnPlateau", model, optimizer, Rows(), scheduler=plateau
        )
        other = torch.optim.lr_scheduler.StepLR(sgd(model), 1)
        self.refuses("another optimizer", model, optimizer, Rows(), scheduler=other)
        self.refuses("has no step", model, optimizer, Rows(), scheduler=object())

    def test_unsupported_data_sets_are_refused(self) -> None:
        model = nn.Linear(8, 1)
        optimizer = sgd(model)
        loader = torch.utils.data.DataLoader(Rows())
        self.refuses("is a DataLoader", model, optimizer, loader)
        self.refuses("without __len__", model, optimizer, iter([]))
        self.refuses("is empty", model, optimizer, Rows(0))
        only_long = type("OnlyLong", (), {"__len__": lambda self: 3})()
        self.refuses(
            "a OnlyLong without __getitem__ or __getitems__",
            *(model, optimizer, only_long),
        )

        class Stateless(torch.utils.data.IterableDataset):
            def __iter__(self) -> Any:
                return iter(range(3))

        self.refuses("has no state_dict", model, optimizer, Stateless())
        self.refuses("needs steps_per_epoch", model, optimizer, Stream())
        self.refuses(
            "cannot be read by data workers",
            *(model, optimizer, Stream()),
            **dict(steps_per_epoch=2, workers=1),
        )

    def test_a_data_set_that_hands_out_whole_batches_trains_the_same_bits(self) -> None:
        found = []
        for data in (Rows(), Batches()):
            torch.manual_seed(3)
            model = nn.Linear(8, 1)
            collate = None if isinstance(data, Rows) else lambda batch: batch
            job = Elastic(model, sgd(model), data, threads=2, batch_size=3, collate=collate)
            with job:
                for x, y in job:
                    job.backward(mse_loss(model(x), y))
            found.append(farm.digest(*model.parameters()))
        self.assertEqual(found[0], found[1])

    def test_options_that_do_not_exist_are_refused_with_the_right_name(self) -> None:
        model = nn.Linear(8, 1)
        given = (model, sgd(model), Rows())
        self.refuses("do you mean 'workers'", *given, num_workers=2)
        self.refuses("do you mean 'threads'", *given, thread=2)
        self.refuses("use sampler= and batch_size=", *given, batch_sampler=[])
        self.refuses("cannot travel", *given, worker_init_fn=len)
        self.refuses("on_stop is 'quit'", *given, on_stop="quit")
        self.refuses("epochs is 0, less than 1", *given, epochs=0)

    def test_objects_that_cannot_be_saved_are_refused(self) -> None:
        model = nn.Linear(8, 1)
        given = (model, sgd(model), Rows())
        self.refuses("has no state_dict", *given, also={"ema": object()})

        class Odd:
            def state_dict(self) -> dict:
                return {"seen": {1, 2}}

            def load_state_dict(self, state: dict) -> None:
                pass

        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        self.refuses("a set cannot be put", *given, also={"odd": Odd()}, folder=folder)

    def test_a_layer_list_that_leaves_out_a_parameter_is_refused(self) -> None:
        from firn.torch.freeze import Layer

        model = nn.Linear(8, 1)
        layers = [Layer("bias", [model], [model.bias])]
        self.refuses("is in no layer", model, sgd(model), Rows(), layers=layers)


class Turns(unittest.TestCase):
    """In the loop."""

    def loop(self, body: Any, model: nn.Module | None = None) -> None:
        """One turn of a job."""
        model = model or nn.Linear(8, 1)
        optimizer = sgd(model)
        job = Elastic(model, optimizer, Rows(), threads=2, batch_size=2)
        try:
            for x, y in job:
                job.backward(mse_loss(model(x).sum(-1, keepdim=True), y))
                body(model, optimizer)
        finally:
            job.close()

    @unittest.skipUnless(
        hasattr(torch.optim.Optimizer, "register_step_pre_hook"),
        "this PyTorch's optimisers have no hooks (before 2.0)",
    )
    def test_a_step_left_in_the_loop_is_refused(self) -> None:
        with self.assertRaisesRegex(FirnError, r"optimizer.step\(\) was called in"):
            self.loop(lambda model, optimizer: optimizer.step())

    def test_another_optimizer_in_the_loop_is_refused(self) -> None:
        with self.assertRaisesRegex(FirnError, "weights changed during a turn"):
            self.loop(lambda model, optimizer: sgd(model).step())

    def test_weights_clipped_in_the_loop_are_refused(self) -> None:
        def clip(model: nn.Module, _: object) -> None:
            with torch.no_grad():
                model.weight.clamp_(-1, 1)

        with self.assertRaisesRegex(FirnError, "weights changed during a turn"):
            self.loop(clip)

    @unittest.skipIf(
        torch.__version__.startswith("1."), "zero_grad() leaves zeros before PyTorch 2.0"
    )
    def test_gradients_cleared_after_the_backward_pass_are_refused(self) -> None:
        with self.assertRaisesRegex(FirnError, r"remove zero_grad\(\)"):
            self.loop(lambda model, optimizer: optimizer.zero_grad())

    def test_an_optimizer_steps_again_after_the_job_is_closed(self) -> None:
        model = nn.Linear(8, 1)
        optimizer = sgd(model)
        job = Elastic(model, optimizer, Rows(), threads=2, batch_size=2)
        for x, y in job:
            job.backward(mse_loss(model(x), y))
        job.close()
        optimizer.step()


class Kept(unittest.TestCase):
    """Checkpoints."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def part(self, nprocs: int, work: Any, ended: int = 0) -> dict:
        return farm.finish(farm.start(nprocs, work, FIRN_JOB="kept"), ended)

    def test_boolean_and_small_integer_buffers_survive_a_stop(self) -> None:
        run = lambda **o: lambda: train(Masked(), Rows(), **o)  # noqa: E731
        whole = farm.run(1, run(broadcast_buffers=False))
        more = dict(broadcast_buffers=False, folder=self.folder)
        self.part(2, run(stop_at=2, **more), 83)
        found = self.part(1, run(**more))
        self.assertEqual(farm.differing(whole, found), [])
        self.assertGreater(whole["epoch loss"], 0)

    def test_buffers_of_all_kinds_go_through_torch_distributed(self) -> None:
        run = lambda **o: lambda: train(Masked(), Rows(), **o)  # noqa: E731
        one = farm.run(1, run())
        two = farm.run(2, run(through="distributed"))
        self.assertEqual(farm.differing(one, two), [])

    def test_every_kind_of_number_is_stored_with_its_bits(self) -> None:
        for name, dtype in pack.RAW.items():
            size = torch.empty((), dtype=dtype).element_size()
            for shape in ((), (3,), (2, 0), (2, 2)):
                count = size * int(torch.Size(shape).numel())
                raw = torch.arange(count, dtype=torch.uint8)
                raw = raw % 2 if dtype == torch.bool else raw
                tensor = raw.view(dtype).reshape(shape) if count else None
                if tensor is None:
                    tensor = torch.empty(shape, dtype=dtype)
                stored = pack.to_stored(tensor)
                self.assertEqual(stored.dtype, torch.uint8, name)
                found = pack.of_stored(stored.clone(), dtype)
                self.assertEqual((found.dtype, found.shape), (dtype, tensor.shape))
                again = pack.to_stored(found)
                self.assertTrue(torch.equal(again, stored), name)
        text, tensors = pack.pack({"mask": torch.tensor([True, False])}, "optim")
        found = pack.unpack(text, tensors)["mask"]
        self.assertEqual(found.tolist(), [True, False])

    def adapters(self, seed: int = 3, width: int = 8) -> nn.Module:
        """A frozen backbone and a head."""
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))
        for p in model[0].parameters():
            p.requires_grad_(False)
        return model

    def test_a_checkpoint_of_adapters_leaves_the_backbone_out(self) -> None:
        whole = farm.run(1, lambda: train(self.adapters(), Rows()))
        more = dict(folder=self.folder, save_frozen=False)
        work = lambda **o: lambda: train(self.adapters(), Rows(), **more, **o)  # noqa
        self.part(2, work(stop_at=2), 83)
        (name,) = (f for f in os.listdir(self.folder) if f.endswith(".ckpt"))
        with Checkpoint.open(os.path.join(self.folder, name)) as ckpt:
            names = [v.name for v in ckpt if v.name.startswith("model/")]
            self.assertEqual(names, ["model/2.weight", "model/2.bias"])
        with self.assertRaisesRegex(AssertionError, "load the same backbone"):
            self.part(1, lambda: train(self.adapters(4), Rows(), **more))
        with self.assertRaisesRegex(AssertionError, "of 72 numbers in 2 parameters"):
            other = lambda: nn.Sequential(  # noqa: E731
                nn.Identity(), nn.ReLU(), nn.Linear(8, 1)
            )
            self.part(1, lambda: train(other(), Rows(), **more))
        found = self.part(1, work())
        self.assertEqual(farm.differing(whole, found), [])

    def test_a_finished_job_is_not_trained_on(self) -> None:
        def run() -> dict:
            model = Masked()
            job = Elastic(
                *(model, sgd(model), Rows()),
                **dict(threads=4, batch_size=2, epochs=2, folder=self.folder),
                on_step=lambda job: job.finish() if job.step == 2 else None,
            )
            turns = 0
            for x, y in job:
                turns += 1
                job.backward(mse_loss(model(x), y))
            job.close()
            return {"turns": turns, "progress": job.progress}

        self.assertEqual(self.part(1, run), {"turns": 8, "progress": 1.0})
        self.assertEqual(self.part(1, run), {"turns": 0, "progress": 1.0})

    def test_max_steps_ends_the_training(self) -> None:
        found = farm.run(1, lambda: train(Masked(), Rows(), max_steps=4))
        self.assertEqual(found["steps"], 4)


class Weights(unittest.TestCase):
    """The hash, and its comparison across processes."""

    def test_a_hash_worked_by_hand(self) -> None:
        bits = torch.tensor([5, 7], dtype=torch.int32)
        piece = (6 * 1 + 8 * 3) * hashing._K
        total = (hashing._M + piece) % 2**64
        self.assertEqual(hashing.hash_of([bits]), (total ^ total >> 32) & (2**62 - 1))

    def test_every_changed_bit_and_every_swap_changes_the_hash(self) -> None:
        base = torch.randn(700)
        first = hashing.hash_of([base])
        for bit in range(0, 700 * 32, 97):
            changed = base.clone()
            changed.view(torch.int32)[bit // 32] ^= 1 << bit % 31
            self.assertNotEqual(hashing.hash_of([changed]), first)
        swapped = base.clone()
        swapped[:2] = base[:2].flip(0)
        self.assertNotEqual(hashing.hash_of([swapped]), first)
        self.assertEqual(hashing.hash_of([base.clone()]), first)

    def test_long_tensors_and_all_kinds_of_numbers_are_hashed(self) -> None:
        long = torch.zeros(hashing._PIECE * 2 + 3, dtype=torch.int8)
        first = hashing.hash_of([long])
        long[-1] = 1
        self.assertNotEqual(hashing.hash_of([long]), first)
        for dtype in (torch.bool, torch.bfloat16, torch.float64, torch.complex64):
            one, two = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
            self.assertNotEqual(hashing.hash_of([one]), hashing.hash_of([two]))

    def test_a_process_with_other_weights_is_found_and_named(self) -> None:
        def work(where: str) -> dict:
            model = Masked()
            optimizer = sgd(model)

            def update() -> None:
                optimizer.step()
                if os.environ["RANK"] == "1":
                    with torch.no_grad():
                        model.b.bias.add_(1e-6)

            options: dict = dict(compare_every=3, folder=None)
            if where == "checkpoint":
                options = dict(compare_every=50, folder=folder, every_steps=2)
            train(model, Rows(), optimizer=optimizer, update=update, **options)
            return {}

        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        for where, step in (("loop", 3), ("checkpoint", 2)):
            sentence = (
                f"after step {step} the weights of process 1 differ from those of "
                "process 0 in 1 of 4 parameters, first 'b.bias'"
            )
            with self.assertRaisesRegex(AssertionError, sentence):
                farm.run(2, lambda: work(where))
        self.assertEqual([f for f in os.listdir(folder) if f.endswith(".ckpt")], [])


class Stream(torch.utils.data.IterableDataset):
    """Rows one after the other, with a state."""

    def __init__(self, n: int = 13) -> None:
        self.rows, self.at = Rows(n), 0

    def __iter__(self) -> Any:
        while self.at < len(self.rows):
            self.at += 1
            yield self.rows[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict:
        return {"at": self.at}

    def load_state_dict(self, state: dict) -> None:
        self.at = state["at"]


class Sharded(Stream):
    """Divides itself."""

    def shard(self, num_shards: int, index: int) -> "Sharded":
        self.rows.x = self.rows.x[index::num_shards]
        return self


class Data(unittest.TestCase):
    """Streams and samplers."""

    def test_threads_take_every_vth_sample_of_a_stream_and_begin_again(self) -> None:
        for kind in (Stream, Sharded):
            stream = streams._Stream(kind(5), 2, 1)
            found = [stream.next()[0] for _ in range(4)]
            rows = Rows(5)
            for sample, i in zip(found, (1, 3, 1, 3)):
                self.assertTrue(torch.equal(sample, rows[i][0]))

    def test_a_stream_has_the_same_bits_on_two_processes_and_after_stops(self) -> None:
        run = lambda **o: lambda: train(  # noqa: E731
            Masked(), Stream(), steps_per_epoch=3, **o
        )
        whole = farm.run(1, run())
        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        for nprocs, stop_at in ((1, 2), (2, 3)):  # in an epoch, and between two
            work = run(folder=folder, stop_at=stop_at)
            farm.finish(farm.start(nprocs, work, FIRN_JOB="stream"), 83)
        found = farm.run(2, run(folder=folder), FIRN_JOB="stream")
        self.assertEqual(farm.differing(whole, found), [])

    def test_an_empty_stream_is_an_error(self) -> None:
        with self.assertRaisesRegex(FirnError, "is empty"):
            streams._Stream(Stream(0), 1, 0).next()

    def test_a_samplers_order_is_divided_among_threads(self) -> None:
        order = sampling.Order([4, 3, 2, 1, 0], 0, 5)
        parts = [list(sampling.Part(order, 2, v, False)) for v in range(2)]
        self.assertEqual(parts, [[4, 2, 0], [3, 1, 4]])
        parts = [list(sampling.Part(order, 2, v, True)) for v in range(2)]
        self.assertEqual(parts, [[4, 2], [3, 1]])

    def test_a_random_sampler_has_the_same_bits_on_two_processes(self) -> None:
        for generator in (None, torch.Generator()):
            run = lambda g=generator: train(  # noqa: E731
                Masked(),
                Rows(),
                sampler=torch.utils.data.WeightedRandomSampler(
                    [1.0 + i for i in range(24)], 24, generator=g
                ),
            )
            one, two = farm.run(1, run), farm.run(2, run)
            self.assertEqual(farm.differing(one, two), [])
            self.assertNotEqual(one, farm.run(1, lambda: train(Masked(), Rows())))

    def test_orders_that_cannot_be_repeated_are_refused(self) -> None:
        class Counting:
            count = 0

            def __iter__(self) -> Any:
                self.count += 1
                return iter([self.count % 3])

        with self.assertRaisesRegex(FirnError, "another order each time"):
            sampling.Order(Counting(), 0, 5)
        with self.assertRaisesRegex(FirnError, "gave 7"):
            sampling.Order([7], 0, 5)
        split = torch.utils.data.DistributedSampler(Rows(), 2, 0)
        with self.assertRaisesRegex(FirnError, "is a DistributedSampler"):
            sampling.Order(split, 0, 24)


TRAINER = """
import sys, time
import farm, test_guards
from firn.torch import loader
data = test_guards.Rows()
source = loader.Shared(data, loader.Plan(data, 1, 2), [0], workers=2, pool=2)
source.begin(0, 0)
source.next(0, 0, 0)
print(*(process.pid for process in source._pool), flush=True)
sys.stdin.read()
"""

STOPPED = """
import sys
import firn.torch
print("ready", flush=True)
sys.stdin.readline()
import farm, test_guards
test_guards.train(test_guards.Masked(), test_guards.Rows())
"""


def is_alive(pid: int) -> bool:
    """Is there such a process that is not a zombie?"""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@unittest.skipUnless(os.path.isdir("/proc/self"), "there is no /proc")
class Ends(unittest.TestCase):
    """Processes that are killed, and signals that come early."""

    def start(self, program: str, **env: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            **dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True),
            env={**os.environ, **env},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_data_workers_end_with_a_trainer_that_is_killed(self) -> None:
        process = self.start(TRAINER)
        workers = [int(word) for word in process.stdout.readline().split()]
        self.assertEqual(len(workers), 2)
        self.assertTrue(all(map(is_alive, workers)))
        process.kill()
        limit = time.monotonic() + 120
        while any(map(is_alive, workers)) and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertFalse(any(map(is_alive, workers)))
        process.stdin.close()

    def test_a_stop_signal_before_training_begins_ends_cleanly(self) -> None:
        folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, folder)
        for env in ({}, {"FIRN_DIR": folder}):
            process = self.start(STOPPED, **env)
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGUSR1)
            process.communicate("go\n")
            self.assertEqual(process.returncode, 83)
        self.assertEqual(os.listdir(folder), ["train-000000000000.ckpt"])


if __name__ == "__main__":
    unittest.main()
