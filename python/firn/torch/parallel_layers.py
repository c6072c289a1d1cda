"""Layers of language models, split over the t GPUs of a tensor-parallel group.

What is split (Megatron-LM's way; h is the hidden size):

    attention   q, k, v by output (whole heads), o by input
    MLP         gate and up by output, down by input
    vocabulary  embedding and head by token, in uneven parts where need be
    the rest    (normalisations, positions) is held by all t GPUs

Linear layers and embeddings become DTensors by PyTorch's ``ColwiseParallel`` and
``RowwiseParallel``. GPT-2's ``Conv1D`` has transposed weights, and its c_attn
holds q, k and v side by side: columns 0 to 3h cut into t parts would give one
process q alone. So the weight is held as (h, 3, h) and cut along its last
dimension: a process has its heads of q, k and v, in the order in which the
attention splits them; the same reshaped tensor is in checkpoints, whatever t is.

Shapes are recognised by the names of the parts, not by classes: ``self_attn``
with q_proj, k_proj, v_proj, o_proj beside ``mlp`` (Llama, Qwen, Mistral, and the
example's model); ``attn`` with c_attn, c_proj beside ``mlp`` (GPT-2).

Invariants:
1. A model that is not understood, or that t does not divide, is refused with a
   sentence before anything is changed.
2. Every parameter has a ``Held``: its shape in files, the dimension along which
   the group splits it, and whether its gradient is a sum over the group.
3. Tied weights stay tied.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Iterable, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.distributed.tensor.parallel import parallelize_module

from firn._lib import FirnError

LLAMA, GPT2, OTHER = "llama", "gpt2", "other"
_EMBEDDINGS = ("embed_tokens", "wte", "tok_embeddings")
_HEADS = ("lm_head",)


# --- sums over the group -----------------------------------------------------


class _SumOfGradients(torch.autograd.Function):
    """Its input; the gradient is summed over the group."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class _Sum(torch.autograd.Function):
    """The sum over the group; the gradient goes to all."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        x = x.contiguous().clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        return grad, None


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


# --- GPT-2's layers ----------------------------------------------------------


class Columns(nn.Module):
    """A Conv1D whose output is split; ``parts`` things lie side by side in it.

    The weight is (inputs, outputs), or (inputs, parts, outputs / parts).
    """

    def __init__(self, conv: nn.Module, mesh: Any, parts: int = 1) -> None:
        super().__init__()
        inputs, outputs = conv.weight.shape
        weight, bias = conv.weight.detach(), conv.bias.detach()
        if parts > 1:
            weight = weight.reshape(inputs, parts, outputs // parts)
            bias = bias.reshape(parts, outputs // parts)
        self.group = mesh.get_group() if mesh is not None else None
        self.weight = _split(weight, mesh, weight.dim() - 1, conv.weight)
        self.bias = _split(bias, mesh, bias.dim() - 1, conv.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """This process's outputs."""
        if self.group is not None:
            x = _SumOfGradients.apply(x, self.group)
        weight, bias = local_of(self.weight), local_of(self.bias)
        weight = weight.reshape(weight.shape[0], -1)
        out = torch.addmm(bias.reshape(-1), x.reshape(-1, x.shape[-1]), weight)
        return out.view(*x.shape[:-1], -1)


class Rows(nn.Module):
    """A Conv1D whose input is split: the outputs of the group are summed."""

    def __init__(self, conv: nn.Module, mesh: Any) -> None:
        super().__init__()
        self.group = mesh.get_group()
        self.weight = _split(conv.weight.detach(), mesh, 0, conv.weight)
        self.bias = _split(conv.bias.detach(), mesh, None, conv.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All outputs."""
        out = torch.matmul(x, local_of(self.weight))
        return _Sum.apply(out, self.group) + local_of(self.bias)


def _split(
    tensor: torch.Tensor, mesh: Any, dim: int | None, old: nn.Parameter
) -> nn.Parameter:
    """The tensor as a parameter that the group holds together."""
    if mesh is not None:
        placement = Replicate() if dim is None else Shard(dim)
        tensor = distribute_tensor(tensor.contiguous(), mesh, [placement], **_quiet)
    return nn.Parameter(tensor, requires_grad=old.requires_grad)


# All processes have the same weights already: nothing has to be sent. (Older
# versions of PyTorch send them from the first process of the group.)
_quiet: dict[str, Any] = (
    {"src_data_rank": None}
    if "src_data_rank" in inspect.signature(distribute_tensor).parameters
    else {}
)


# --- the shape of a model ----------------------------------------------------


@dataclass
class Held:
    """A parameter and how it is held."""

    name: str
    param: nn.Parameter
    shape: tuple[int, ...]  # of the whole, as files have it
    original: tuple[int, ...]  # as the model was built with it
    dim: int | None = None  # along which the tensor-parallel group splits it
    is_partial: bool = False  # each process of the group has a part of the sum


@dataclass
class Shape:
    """The parts of a language model."""

    kind: str
    layers: list[tuple[str, nn.Module]]
    embedding: tuple[str, nn.Module] | None = None
    head: tuple[str, nn.Module] | None = None
    is_tied: bool = False
    sizes: dict[str, int] = field(default_factory=dict)


def _has(module: Any, *names: str) -> bool:
    """It has children of all these names."""
    return all(isinstance(getattr(module, name, None), nn.Module) for name in names)


def _kind_of(layer: nn.Module) -> str:
    """Which of the known shapes a layer has."""
    if _has(layer, "self_attn", "mlp") and _has(
        layer.self_attn, "q_proj", "k_proj", "v_proj", "o_proj"
    ):
        return LLAMA
    if _has(layer, "attn", "mlp") and _has(layer.attn, "c_attn", "c_proj"):
        return GPT2
    return OTHER


def _layers_of(model: nn.Module) -> tuple[str, list[tuple[str, nn.Module]]]:
    """The longest list of equal layers, preferably of a known shape."""
    best: tuple[str, list] = (OTHER, [])
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or len(module) == 0:
            continue
        layers = [(f"{name}.{i}", layer) for i, layer in enumerate(module)]
        kind = _kind_of(module[0])
        rank = (kind != OTHER, len(layers))
        if rank > (best[0] != OTHER, len(best[1])):
            best = (kind, layers)
    return best


def _named(model: nn.Module, names: Iterable[str], kind: type) -> tuple | None:
    """The first module of one of these names."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in names and isinstance(module, kind):
            return name, module
    return None


def shape_of(model: nn.Module) -> Shape:
    """The parts of the model; ``kind`` is "other" for one that is not known."""
    kind, layers = _layers_of(model)
    found = Shape(kind, layers)
    found.embedding = _named(model, _EMBEDDINGS, nn.Embedding)
    found.head = _named(model, _HEADS, nn.Linear)
    if found.embedding and found.head:
        found.is_tied = found.embedding[1].weight is found.head[1].weight
    return found


# --- what t must divide ------------------------------------------------------


def _sizes(kind: str, layer: nn.Module) -> dict[str, int]:
    """What the group divides, of one layer."""
    if kind == GPT2:
        attention = layer.attn
        heads = getattr(attention, "num_heads", 0)
        return {
            "attention heads": heads,
            "neurons of an MLP": layer.mlp.c_fc.weight.shape[1],
        }
    attention, mlp = layer.self_attn, layer.mlp
    width = getattr(attention, "head_dim", 0)
    if not isinstance(width, int) or width < 1:
        raise FirnError("the model's attention has no 'head_dim': it cannot be split")
    return {
        "attention heads": attention.q_proj.weight.shape[0] // width,
        "key-value heads": attention.k_proj.weight.shape[0] // width,
        "neurons of an MLP": mlp.up_proj.weight.shape[0],
    }


def _expect_parts(name: str, layer: nn.Module, kind: str) -> None:
    """No parameter of attention or MLP is unknown."""
    if kind == LLAMA:
        width = layer.self_attn.head_dim
        attention, mlp, known = layer.self_attn, layer.mlp, _llama_parts
    else:
        attention, mlp, known = layer.attn, layer.mlp, _gpt2_parts
        width = -1
    if kind == LLAMA and not _has(mlp, "up_proj", "down_proj"):
        raise FirnError(
            f"{name}.mlp has no up_proj and down_proj: a mixture of experts or "
            "another MLP, which tensor parallelism is not written for"
        )
    for module in (attention, mlp):
        for part, param in module.named_parameters():
            of_head = part in ("q_norm.weight", "k_norm.weight")
            if of_head and param.numel() == width:
                continue
            if part.rpartition(".")[0] not in known:
                raise FirnError(
                    f"{name} has a parameter '{part}', which tensor parallelism "
                    "is not written for: run it with FIRN_TENSOR=1"
                )


_llama_parts = ("q_proj", "k_proj", "v_proj", "o_proj") + (
    "gate_proj",
    "up_proj",
    "down_proj",
)
_gpt2_parts = ("c_attn", "c_proj", "c_fc")


def check(shape: Shape, model: nn.Module, tensor: int) -> None:
    """Refuses what cannot be split over ``tensor`` GPUs, with a sentence."""
    if tensor == 1:
        return
    if shape.kind == OTHER:
        raise FirnError(
            f"{type(model).__name__} has no layers like those of Llama, Qwen, "
            f"Mistral or GPT-2: it cannot be split over FIRN_TENSOR={tensor} GPUs"
        )
    for name, layer in shape.layers:
        if _kind_of(layer) != shape.kind:
            raise FirnError(f"layer {name} differs in kind from the first one")
        _expect_parts(name, layer, shape.kind)
        for what, count in _sizes(shape.kind, layer).items():
            if count < 1 or count % tensor != 0:
                raise FirnError(
                    f"a layer is to be split over FIRN_TENSOR={tensor} GPUs, but "
                    f"the model has {count} {what}, which {tensor} does not divide"
                )
    if shape.embedding is None or shape.head is None:
        raise FirnError(
            "the model has no embedding (embed_tokens, wte) and no lm_head that "
            "could be split"
        )
    vocab = shape.head[1].weight.shape[0]
    if -(-vocab // tensor) * (tensor - 1) >= vocab:
        raise FirnError(f"a vocabulary of {vocab} tokens for FIRN_TENSOR={tensor} GPUs")


# --- splitting ---------------------------------------------------------------


class Splitter:
    """Splits the parts of one model, layer by layer."""

    def __init__(self, shape: Shape, mesh: Any, tensor: int) -> None:
        self.shape, self.tensor = shape, tensor
        self.mesh = mesh if tensor > 1 else None
        self.notes: dict[str, tuple] = {}  # by name: whole, original, dim
        self.partial: set[str] = set()

    def layer(self, name: str, layer: nn.Module) -> None:
        """One layer of the model, in place."""
        if self.shape.kind == GPT2:
            self._gpt2(name, layer)
        elif self.mesh is not None:
            self._llama(name, layer)

    def vocabulary(self, whole: bool) -> None:
        """Embedding and head; tied ones stay tied. ``whole``: every process
        gets all logits; else they stay split, as a DTensor."""
        if self.mesh is None or not (self.shape.embedding and self.shape.head):
            return
        (one, embedding), (two, head) = self.shape.embedding, self.shape.head
        self._apply(one, embedding, RowwiseParallel(input_layouts=Replicate()), 0)
        split = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
        gathered = ColwiseParallel(output_layouts=Replicate())
        self._apply(two, head, gathered if whole else split, 0)
        if self.shape.is_tied:
            head.weight = embedding.weight

    def _apply(self, name: str, module: nn.Module, style: Any, dim: int) -> None:
        """A linear layer or an embedding; ``dim`` is that of the weight."""
        before = {part: p for part, p in module.named_parameters()}
        parallelize_module(module, self.mesh, style, **_quiet)
        for part, param in module.named_parameters():
            old = before[part]
            param.requires_grad_(old.requires_grad)
            is_split = part == "weight" or dim == 0
            self._note(f"{name}.{part}", old.shape, dim if is_split else None)

    def _note(
        self,
        name: str,
        whole: Sequence[int],
        dim: int | None,
        original: Sequence[int] | None = None,
    ) -> None:
        """Remembers how a parameter is held."""
        self.notes[name] = (tuple(whole), tuple(original or whole), dim)

    def _llama(self, name: str, layer: nn.Module) -> None:
        """Projections by PyTorch's styles."""
        attention, mlp = layer.self_attn, layer.mlp
        by_output = [("self_attn", part) for part in ("q_proj", "k_proj", "v_proj")]
        by_output += [("mlp", part) for part in ("gate_proj", "up_proj")]
        for owner, part in by_output:
            module = getattr(getattr(layer, owner), part, None)
            if module is not None:
                self._apply(f"{name}.{owner}.{part}", module, ColwiseParallel(), 0)
        self._apply(f"{name}.self_attn.o_proj", attention.o_proj, RowwiseParallel(), 1)
        self._apply(f"{name}.mlp.down_proj", mlp.down_proj, RowwiseParallel(), 1)
        for part in ("q_norm", "k_norm"):  # of the heads that are here
            if _has(attention, part):
                self.partial.add(f"{name}.self_attn.{part}.weight")
        for part in ("num_heads", "num_key_value_heads", "num_attention_heads"):
            count = getattr(attention, part, None)
            if isinstance(count, int):
                setattr(attention, part, count // self.tensor)

    def _gpt2(self, name: str, layer: nn.Module) -> None:
        """Conv1D by the layers above; c_attn also where t is 1, so that its
        shape in files is the same."""
        attention, mlp = layer.attn, layer.mlp
        inputs, outputs = attention.c_attn.weight.shape
        is_split = self.mesh is not None
        attention.c_attn = Columns(attention.c_attn, self.mesh, parts=3)
        whole = (inputs, 3, outputs // 3)
        at = f"{name}.attn.c_attn"
        self._note(f"{at}.weight", whole, 2 if is_split else None, (inputs, outputs))
        self._note(f"{at}.bias", whole[1:], 1 if is_split else None, (outputs,))
        if not is_split:
            return
        attention.split_size //= self.tensor
        attention.num_heads //= self.tensor
        for owner, module in (("attn", attention), ("mlp", mlp)):
            old, at = module.c_proj, f"{name}.{owner}.c_proj"
            module.c_proj = Rows(old, self.mesh)
            self._note(f"{at}.weight", old.weight.shape, 0)
            self._note(f"{at}.bias", old.bias.shape, None)
        old, at = mlp.c_fc, f"{name}.mlp.c_fc"
        mlp.c_fc = Columns(old, self.mesh)
        self._note(f"{at}.weight", old.weight.shape, 1)
        self._note(f"{at}.bias", old.bias.shape, 0)

    def held(self, model: nn.Module) -> list[Held]:
        """All parameters, tied ones once, in the order of the model."""
        found = []
        for name, param in model.named_parameters():
            shape = tuple(param.shape)
            whole, original, dim = self.notes.get(name, (shape, shape, None))
            found.append(
                Held(name, param, whole, original, dim, name in self.partial)
            )
        return found
