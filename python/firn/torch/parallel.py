"""A language model on the GPUs of the scheduler's plan: tensor parallelism,
replicas, sharded weights.

    run = Parallel(model, lambda params: torch.optim.AdamW(params, lr=3e-4),
                   steps=1000, batch=64)
    for samples in run:
        tokens = data[samples]
        run.backward(cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]))
    run.close()

The plan comes from FIRN_TENSOR, FIRN_REPLICAS and FIRN_SHARDED (see
``parallel_plan``); without them there are WORLD_SIZE replicas. Each turn of the
loop is one forward and backward pass over some samples of the global batch.
After the last pass of a step the gradients are summed, the optimiser takes its
step, and the run may be checkpointed or stopped (SIGUSR1, or the scheduler's
order): the processes then end with status 83 and go on from there when they are
started again, with any plan.

The loss must be the mean over the samples of the pass, the same number in all
processes of a tensor-parallel group, which all get the same samples.

Invariants:
1. Step k trains samples k batch .. (k + 1) batch - 1, whatever the plan, so the
   loss of each step is the same but for the order of floating-point sums.
2. Random generators are seeded before each pass from (seed, step, first sample
   of the pass): all processes of a tensor-parallel group draw alike, and a run
   that goes on draws what it would have drawn.
3. The optimiser has only plain local tensors, whatever holds the model.

Cost beside PyTorch's own: one message of two numbers a step between the hosts'
processes, and one small sum over the tensor-parallel group.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import zlib
from typing import Any, Callable, Iterator, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from firn._lib import EXIT_CHECKPOINT, FirnError
from firn.group import amount_of, number_of
from firn.report import Reporter
from firn.torch import parallel_files as files
from firn.torch import parallel_sync as sync
from firn.torch.parallel_files import weights
from firn.torch.parallel_layers import OTHER, Held, Splitter, check, local_of
from firn.torch.parallel_layers import shape_of
from firn.torch.parallel_loss import cross_entropy
from firn.torch.parallel_plan import CHECKPOINTINGS, PRECISIONS, Plan, Training
from firn.torch.parallel_plan import shares

__all__ = ["Parallel", "Plan", "Training", "cross_entropy", "shares", "weights"]

# Optimisers that treat each number by itself, so that parts can be stepped.
_BY_ELEMENT = (
    "Adadelta Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD".split()
)
_NOT_RESTORED = ("params", "param_names", "foreach", "fused", "capturable")


def _one_of(value: str, known: tuple[str, ...], what: str) -> str:
    """The value, if it is known."""
    if value not in known:
        raise FirnError(f"{what} is '{value}', not one of {', '.join(known)}")
    return value


def _device_of(backend: str | None) -> tuple[torch.device, str]:
    """This process's GPU, or the CPU; and the back end of its messages."""
    if not torch.cuda.is_available():
        return torch.device("cpu"), backend or "gloo"
    local = number_of("LOCAL_RANK", 0, 0, 1 << 16)
    count = torch.cuda.device_count()
    if backend is None and local >= count:
        raise FirnError(
            f"process {local} of this host has no GPU of its own: there are {count}"
        )
    device = torch.device("cuda", local % count)
    torch.cuda.set_device(device)
    return device, backend or "cpu:gloo,cuda:nccl"


class Parallel:
    """One process's part of a language model's training.

    model          is split in place. All processes build the same one; where
                   they differ, process 0's weights are used.
    optimizer      a function from a list of (name, parameter) to an optimiser
                   of torch.optim that treats each number by itself
    steps          at which the training ends
    batch          samples of a step, over all replicas (default: FIRN_BATCH)
    micro          most samples of a pass (default: the replica's share of the
                   batch in FIRN_PASSES passes)
    precision      fp32, bf16, amp, megatron (default: FIRN_PRECISION)
    checkpointing  off, or layers: activations of layers are computed again
                   (default: FIRN_CHECKPOINTING)
    logits         whole, or split: with tensor parallelism the model returns
                   logits as a DTensor, of which a process has 1/t, for
                   ``cross_entropy`` of this module
    clip           the most that the norm of the gradient may be; 0: any
    folder         of checkpoints (default: FIRN_DIR); None: none are written
    every_steps    steps between two checkpoints; 0: none between. Those by
                   FIRN_CKPT_EVERY_S are written beside them
    keep           checkpoints that stay
    also           objects with state_dict() and load_state_dict() whose state
                   is JSON (a learning-rate scheduler), by name; or a function
                   from the optimiser to such a mapping
    on_step        called with the run after every step, in all processes
    report_every   steps between two reports and two values of ``loss``
    plan           default: of the environment
    backend        of torch.distributed (default: gloo on CPUs, nccl on GPUs)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Callable[[list], torch.optim.Optimizer],
        *,
        steps: int,
        batch: int = 0,
        micro: int = 0,
        precision: str | None = None,
        checkpointing: str | None = None,
        logits: str = "whole",
        clip: float = 0.0,
        folder: str | None = None,
        every_steps: int = 0,
        keep: int = 2,
        also: Any = None,
        on_step: Callable[["Parallel"], None] | None = None,
        report_every: int = 1,
        seed: int = 0,
        plan: Plan | None = None,
        backend: str | None = None,
        resume: bool = True,
        on_stop: str = "exit",
    ) -> None:
        said = Training.of_environment()
        self.plan = plan = plan or Plan.of_environment()
        self.model, self.steps, self.seed, self.clip = model, steps, seed, clip
        self.batch = batch or said.batch
        if self.batch < 1:
            raise FirnError("how many samples has a step? Set batch= or FIRN_BATCH")
        self.passes = shares(self.batch, plan, micro, said.passes)
        precision = precision or said.precision
        self.precision = _one_of(precision, PRECISIONS, "precision")
        word = checkpointing or said.checkpointing
        self.checkpointing = _one_of(word, CHECKPOINTINGS, "checkpointing")
        self.logits = _one_of(logits, ("whole", "split"), "logits")
        self.folder = folder or os.environ.get("FIRN_DIR") or None
        self.job = os.environ.get("FIRN_JOB") or "train"
        self.every_steps, self.keep = every_steps, keep
        self._every_s = amount_of("FIRN_CKPT_EVERY_S", 1e9)
        self.on_step, self.report_every = on_step, max(1, report_every)
        self.on_stop = on_stop
        self.shape = shape_of(model)
        check(self.shape, model, plan.tensor)
        if callable(getattr(optimizer, "step", None)):
            raise FirnError(
                "'optimizer' is an optimiser; give the function that makes it "
                "from the parameters: they change when the model is split"
            )
        self.device, self._backend = _device_of(backend)
        self.reporter = Reporter(speaks=plan.rank == 0)
        self._join()
        self._share_weights()
        self._split()
        self._open_optimizer(optimizer, also)
        self.step = self.samples = 0
        self.loss, self.norm = float("nan"), float("nan")
        self.stopped = False
        self._saved_s = time.monotonic()
        # Time and step of the last report, or of this process's first step, which
        # is slow and says nothing of the others.
        self._reported: tuple[float, int] | None = None
        self._saved_step = -1  # of the newest checkpoint that this run knows
        self._inside = False
        self._sum: torch.Tensor | None = None
        if resume and self.folder:
            self.resume()

    # --- opening -----------------------------------------------------------

    def _join(self) -> None:
        """The other processes, and their mesh."""
        plan = self.plan
        self.mesh: Any = None
        self._tensor_group = self._replica_group = None
        self._joined = False
        if plan.nprocs == 1:
            return
        if not dist.is_initialized():
            dist.init_process_group(self._backend)
            self._joined = True
        if dist.get_world_size() != plan.nprocs:
            raise FirnError(
                f"the plan has {plan.nprocs} processes, torch.distributed "
                f"{dist.get_world_size()}"
            )
        self.mesh = init_device_mesh(
            self.device.type,
            (plan.replicas, plan.tensor),
            mesh_dim_names=("replica", "tensor"),
        )
        if plan.tensor > 1:
            self._tensor_group = self.mesh["tensor"].get_group()
        if plan.replicas > 1:
            self._replica_group = self.mesh["replica"].get_group()

    def _share_weights(self) -> None:
        """Process 0's weights in all processes, sent only where they differ."""
        if self.plan.nprocs == 1:
            return
        tensors = [param.data for param in self.model.parameters()]
        tensors += list(self.model.buffers())
        sums = torch.zeros(2, len(tensors), dtype=torch.float64)
        for i, tensor in enumerate(tensors):
            values = tensor.detach().double()
            sums[0, i], sums[1, i] = values.sum(), values.abs().sum()
        sizes = torch.tensor([len(tensors), -len(tensors)])
        dist.all_reduce(sizes, dist.ReduceOp.MAX)
        if int(sizes[0]) != -int(sizes[1]):
            raise FirnError("the processes have built models with other parameters")
        first = sums.clone()
        dist.broadcast(first, 0)
        (differs,) = self._agreed(not torch.equal(first, sums))
        for tensor in tensors if differs else ():
            host = tensor.detach().cpu().contiguous()
            dist.broadcast(host, 0)
            tensor.copy_(host)

    def _split(self) -> None:
        """Tensor parallelism, devices, recomputed activations, FSDP."""
        model, plan = self.model, self.plan
        config = getattr(model, "config", None)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        if self.precision == "bf16":
            model.to(torch.bfloat16)
        mesh = self.mesh["tensor"] if plan.tensor > 1 else None
        splitter = Splitter(self.shape, mesh, plan.tensor)
        for name, layer in self.shape.layers:
            splitter.layer(name, layer)
            self._to_device(layer)
            if self.checkpointing == "layers":
                _recompute(layer)
        splitter.vocabulary(self.logits == "whole")
        self._to_device(model)
        self.held = splitter.held(model)
        if plan.sharded and plan.replicas > 1:
            self._shard()
        elif self.precision in ("amp", "megatron"):
            self._autocast()
        self._check_boxes()
        trained = [one for one in self.held if one.param.requires_grad]
        self._trained = trained
        self._replicas: sync.Replicas | None = None
        if self._replica_group is not None and not plan.sharded:
            self._replicas = sync.Replicas(trained, self._replica_group)

    def _to_device(self, module: nn.Module) -> None:
        """What tensor parallelism has not moved yet."""
        for part in module.modules():
            for param in part.parameters(recurse=False):
                if param.device != self.device:
                    param.data = param.data.to(self.device)
            for name, buffer in part.named_buffers(recurse=False):
                if buffer.device != self.device:
                    keeps = name not in part._non_persistent_buffers_set
                    part.register_buffer(name, buffer.to(self.device), keeps)

    def _shard(self) -> None:
        """FSDP over the replicas, a layer at a time."""
        options: dict[str, Any] = {"mesh": self.mesh["replica"]}
        if self.precision == "megatron":
            options["mp_policy"] = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32
            )
        elif self.precision == "amp":
            self._autocast()
        for _, layer in self.shape.layers:
            fully_shard(layer, **options)
        fully_shard(self.model, **options)
        params = dict(self.model.named_parameters())
        for one in self.held:
            one.param = params[one.name]

    def _autocast(self) -> None:
        """bf16 products over fp32 weights."""
        inner, kind = self.model.forward, self.device.type

        def forward(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(kind, torch.bfloat16):
                return inner(*args, **kwargs)

        self.model.forward = forward  # type: ignore[method-assign]

    def _box(self, one: Held) -> files.Box:
        """What this process holds of a parameter."""
        plan = self.plan
        if plan.replicas == 1 and plan.sharded:
            plan = Plan(plan.tensor, 1, False, plan.rank)
        return files.box_of(one.shape, one.dim, plan)

    def _check_boxes(self) -> None:
        """PyTorch has divided the parameters as files have them."""
        for one in self.held:
            size, local = self._box(one).size, local_of(one.param)
            if tuple(local.shape) != size:
                raise FirnError(
                    f"'{one.name}' is {tuple(local.shape)} here, not {size}: this "
                    "version of PyTorch divides tensors in another way"
                )

    def _open_optimizer(self, make: Callable, also: Any) -> None:
        """An optimiser over local tensors."""
        self._leaves: dict[str, nn.Parameter] = {}
        for one in self._trained:
            local = local_of(one.param.data).detach()
            self._leaves[one.name] = nn.Parameter(local)
        self.optimizer = make(list(self._leaves.items()))
        name = type(self.optimizer).__name__
        if name not in _BY_ELEMENT:
            raise FirnError(
                f"{name} may need whole matrices, and a process has parts of them; "
                f"usable optimisers: {', '.join(_BY_ELEMENT)}"
            )
        named = {id(leaf): name for name, leaf in self._leaves.items()}
        self._order = []
        for group in self.optimizer.param_groups:
            for leaf in group["params"]:
                if id(leaf) not in named:
                    raise FirnError(
                        "the optimiser has a parameter that it was not given: use "
                        "the list that the function gets"
                    )
                self._order.append(named[id(leaf)])
        things = also(self.optimizer) if callable(also) else also
        self.also: Mapping[str, Any] = things or {}

    # --- the loop ------------------------------------------------------------

    def __iter__(self) -> Iterator[list[int]]:
        """Numbers of the samples of each pass, to the end of the training."""
        if self.step < self.steps:
            self.stopped = self._stops_early()
        while self.step < self.steps and not self.stopped:
            for number, one in enumerate(self.passes):
                self._pass, self._inside = one, True
                self._begin(is_last=number + 1 == len(self.passes))
                yield [self.samples + i for i in one.samples]
                if self._inside:
                    raise FirnError("a turn of the loop without run.backward(loss)")
            self._update()
            self._boundary()
        self._end()

    def _begin(self, is_last: bool) -> None:
        """Before a pass: random generators, and when gradients are summed."""
        word = f"{self.seed} {self.step} {self._pass.samples[0]}"
        torch.manual_seed(zlib.crc32(word.encode()))
        # FSDP scatters the gradients of every pass: a process never has all.
        if self._replicas is not None and is_last:
            self._replicas.arm()

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of this turn; ``loss`` is the mean of its samples."""
        if not self._inside:
            raise FirnError("run.backward() is called once in each turn of the loop")
        if loss.dim() != 0:
            raise FirnError(f"the loss has shape {tuple(loss.shape)}, not one number")
        self._inside = False
        share = self._pass.share
        # FSDP divides the sum of the replicas by their number.
        times = self.plan.replicas if self.plan.sharded else 1
        (loss * (share * times)).backward()
        part = loss.detach().float() * share
        self._sum = part if self._sum is None else self._sum + part

    def _update(self) -> None:
        """Sums the gradients and steps the optimiser."""
        if self._replicas is not None:
            self._replicas.finish()
        if self._tensor_group is not None:
            group, tensor = self._tensor_group, self.plan.tensor
            sync.sum_over_tensor_group(self._trained, group, tensor)
        if self.clip > 0:
            groups = (self._tensor_group, self._replica_group)
            norm = sync.norm_of(self._trained, *groups, self.plan.sharded)
            sync.clip(self._trained, norm, self.clip)
            self._norm = norm
        for one in self._trained:
            leaf, local = self._leaves[one.name], local_of(one.param.data)
            if leaf.data_ptr() != local.data_ptr():
                leaf.data = local
            leaf.grad = sync.gradient_of(one)
        self.optimizer.step()
        for one in self._trained:
            one.param.grad = self._leaves[one.name].grad = None
        self.step += 1
        self.samples += self.batch

    def _boundary(self) -> None:
        """Between two steps: loss, reports, checkpoints, the order to stop."""
        if self.step % self.report_every == 0 or self.step == self.steps:
            self._report()
        elif self._reported is None:
            self._step_s()
        self._sum = None
        if self.on_step is not None:
            self.on_step(self)
        every = self.every_steps
        is_due = every > 0 and self.step % every == 0
        late = self._every_s > 0 and time.monotonic() - self._saved_s >= self._every_s
        stop, late = self._agreed(self.reporter.orders().stop > 0, late)
        if stop and self.step < self.steps:
            self.stopped = True
        elif (is_due or late) and self.step < self.steps:
            try:
                self.save()
            except FirnError as error:  # training goes on: the older one stays
                self.say(str(error))

    def _agreed(self, *asked: bool) -> list[bool]:
        """What any process wants, all do."""
        if self.plan.nprocs == 1:
            return list(asked)
        flags = torch.tensor(asked, dtype=torch.int32)
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return [bool(flag) for flag in flags.tolist()]

    def _stops_early(self) -> bool:
        """An order to stop that came before the first step. A process that
        loads its modules may have left already: the others follow it."""
        try:
            return self._agreed(self.reporter.orders().stop > 0)[0]
        except RuntimeError:
            if self.on_stop == "exit" and self.reporter.orders().stop > 0:
                os._exit(EXIT_CHECKPOINT)
            raise

    def say(self, text: str) -> None:
        """A line of process 0 on standard error."""
        if self.plan.rank == 0:
            print(f"firn: {text}", file=sys.stderr, flush=True)

    def can(self) -> list[str]:
        """What it does when the scheduler orders it (firn.report.CAN):
        passes, recomputed activations and sharded weights always, resize with a
        folder for checkpoints, tensor where the layers of the model are known by
        their parts."""
        found = ["passes", "recompute", "sharded"]
        found += ["resize"] if self.folder else []
        found += ["tensor"] if self.shape.kind != OTHER else []
        return sorted(found)

    def _step_s(self) -> float:
        """Seconds of a step since the last report; -1: not known yet."""
        now, last = time.monotonic(), self._reported
        self._reported = (now, self.step)
        if last is None or self.step <= last[1]:
            return -1.0
        return (now - last[0]) / (self.step - last[1])

    def _report(self) -> None:
        """The loss over all replicas; process 0 tells the scheduler."""
        assert self._sum is not None
        total = self._sum.double().reshape(1)
        if self._replica_group is not None:
            dist.all_reduce(total, group=self._replica_group)
        self.loss = float(total)
        if self.clip > 0:
            self.norm = float(self._norm)
        if self.plan.rank != 0:
            return
        step_s = self._step_s()
        memory = -1.0
        if self.device.type == "cuda":
            memory = torch.cuda.max_memory_reserved(self.device) / 2**20
        self.reporter.say(
            step=self.step,
            progress=self.step / self.steps,
            step_s=step_s,
            loss=self.loss,
            memory_mib=memory,
            batch=self.batch,
            passes=len(self.passes),
            nprocs=self.plan.nprocs,
            can=self.can(),
        )

    # --- checkpoints ---------------------------------------------------------

    def _items(self) -> list[files.Item]:
        """All tensors of a checkpoint; which of them this process writes."""
        plan, found = self.plan, []
        turns = 1 if plan.sharded else plan.replicas
        states = self.optimizer.state
        for number, one in enumerate(self.held):
            box = self._box(one)
            mine = one.dim is not None or plan.tensor_rank == 0
            mine = mine and (plan.sharded or number % turns == plan.replica)
            tensors = {f"model/{one.name}": local_of(one.param.data)}
            leaf = self._leaves.get(one.name)
            state = {} if leaf is None else states.get(leaf, {})
            for key, value in sorted(state.items()):
                if not torch.is_tensor(value) or value.dim() == 0:
                    continue
                if tuple(value.shape) != box.size:
                    raise FirnError(
                        f"the optimiser keeps '{key}' of shape {tuple(value.shape)} "
                        f"for '{one.name}': it cannot be divided"
                    )
                tensors[f"optim/{one.name}/{key}"] = value
            for name, local in tensors.items():
                item = files.Item(name, one.shape, one.original, box, local, mine)
                found.append(item)
        for name, buffer in self._buffers():
            shape = tuple(buffer.shape)
            box = files.Box((0,) * len(shape), shape)
            is_first = plan.rank == 0
            found.append(
                files.Item(f"buffer/{name}", shape, shape, box, buffer, is_first)
            )
        return found

    def _buffers(self) -> list[tuple[str, torch.Tensor]]:
        """Buffers that belong into a checkpoint."""
        found = []
        for name, module in self.model.named_modules():
            for part, buffer in module.named_buffers(recurse=False):
                if part not in module._non_persistent_buffers_set:
                    found.append((f"{name}.{part}" if name else part, buffer))
        return found

    def _header(self) -> dict:
        """What is no tensor: counters, the optimiser's numbers, ``also``."""
        numbers = {}
        for name, leaf in self._leaves.items():
            for key, value in self.optimizer.state.get(leaf, {}).items():
                if torch.is_tensor(value) and value.dim() == 0:
                    numbers[f"{name}/{key}"] = value.item()
                elif isinstance(value, (int, float)):
                    numbers[f"{name}/{key}"] = value
        groups = [
            {k: v for k, v in group.items() if k not in _NOT_RESTORED and _is_json(v)}
            for group in self.optimizer.param_groups
        ]
        header = {
            "samples": self.samples,
            "batch": self.batch,
            "optimizer": type(self.optimizer).__name__,
            "numbers": numbers,
            "groups": groups,
            "also": {name: thing.state_dict() for name, thing in self.also.items()},
        }
        try:
            json.dumps(header, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise FirnError(f"the state of 'also' is no JSON: {error}") from None
        return header

    def save(self) -> str:
        """Writes a checkpoint now, between two steps; collective."""
        if not self.folder:
            raise FirnError("there is no folder for checkpoints: set FIRN_DIR")
        path = files.write(
            self.folder,
            self.job,
            self.step,
            self.plan,
            self._items(),
            self._header(),
            self.keep,
        )
        self._saved_s, self._saved_step = time.monotonic(), self.step
        return path

    def resume(self) -> bool:
        """Goes on from the newest checkpoint that can be read; collective."""
        assert self.folder is not None
        steps: list[int] = []

        def look() -> str:
            found = files.steps_in(self.folder, self.job) if self.plan.rank == 0 else []
            return json.dumps(found)

        steps = json.loads(files.agree(self.plan, look)[0])
        refused = ""
        for step in steps:
            path = files.path_of(self.folder, self.job, step)
            try:
                files.agree(self.plan, lambda: self._load(path))
            except FirnError as error:
                refused = str(error)
                self.say(f"the checkpoint of step {step} is skipped: {refused}")
                continue
            self._saved_step = self.step
            return True
        if steps:
            raise FirnError(f"no checkpoint in {self.folder} can be read: {refused}")
        return False

    def _load(self, path: str) -> str:
        """One checkpoint into model and optimiser."""
        with files.Reader(path) as reader:
            header = reader.header
            kind = type(self.optimizer).__name__
            if header["optimizer"] != kind:
                raise FirnError(
                    f"{path} is of optimiser {header['optimizer']}, not {kind}"
                )
            states: dict[str, dict[str, Any]] = {}
            boxes = {one.name: (one.shape, self._box(one)) for one in self.held}
            for one in self.held:
                local = local_of(one.param.data)
                shape, box = boxes[one.name]
                local.copy_(reader.read(f"model/{one.name}", shape, box, local.dtype))
            for name, buffer in self._buffers():
                shape = tuple(buffer.shape)
                box = files.Box((0,) * len(shape), shape)
                buffer.copy_(reader.read(f"buffer/{name}", shape, box, buffer.dtype))
            for name in reader.tensors:
                kind, _, rest = name.partition("/")
                param, _, key = rest.rpartition("/")
                if kind == "optim" and param in self._leaves:
                    states.setdefault(param, {})[key] = reader.read(
                        name, *boxes[param], None
                    )
        self._load_optimizer(header, states)
        self.step, self.samples = int(header["step"]), int(header["samples"])
        for name, thing in self.also.items():
            if name not in header["also"]:
                raise FirnError(f"{path} has no '{name}' of also=")
            thing.load_state_dict(header["also"][name])
        return ""

    def _load_optimizer(self, header: dict, states: dict[str, dict[str, Any]]) -> None:
        """Tensors, numbers and options into the optimiser."""
        for name, value in header["numbers"].items():
            param, _, key = name.rpartition("/")
            states.setdefault(param, {})[key] = value
        old = self.optimizer.state_dict()
        if len(header["groups"]) != len(old["param_groups"]):
            raise FirnError(
                f"the optimiser had {len(header['groups'])} groups of parameters, "
                f"and has {len(old['param_groups'])} now"
            )
        for group, saved in zip(old["param_groups"], header["groups"]):
            for key, value in saved.items():
                is_tuple = isinstance(group.get(key), tuple)
                group[key] = tuple(value) if is_tuple else value
        found = {}
        for number, name in enumerate(self._order):
            state = states.get(name)
            if state:
                if "step" in state and not torch.is_tensor(state["step"]):
                    state["step"] = torch.tensor(float(state["step"]))
                found[number] = state
        self.optimizer.load_state_dict({**old, "state": found})

    # --- the end ---------------------------------------------------------------

    def _end(self) -> None:
        """Trained to the end, or ordered to stop: a last checkpoint."""
        if self.folder and self._saved_step != self.step:
            self.save()
        if not self.stopped or self.on_stop != "exit":
            return
        if not self.folder:
            raise FirnError(
                "ordered to stop, but there is no folder for a checkpoint: set FIRN_DIR"
            )
        self.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_CHECKPOINT)  # gloo's own end sometimes waits for ever

    def close(self) -> None:
        """Frees everything but the model."""
        if self._replicas is not None:
            self._replicas.close()
        self.reporter.close()
        if self._joined and dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            dist.destroy_process_group()
            self._joined = False

    def __enter__(self) -> "Parallel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_json(value: Any) -> bool:
    """A number, a word, a truth value, nothing, or a list of these."""
    if isinstance(value, (list, tuple)):
        return all(_is_json(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _recompute(layer: nn.Module) -> None:
    """The layer's activations are computed again in the backward pass."""
    inner = layer.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return inner(*args, **kwargs)
        return checkpoint(inner, *args, use_reentrant=False, **kwargs)

    layer.forward = forward  # type: ignore[method-assign]
