"""Trains a language model on the GPUs that the scheduler plans for it.

The command of a job with ``model:`` and no number of GPUs (docs/parallel.md):

    run: python3 examples/python/llm_parallel.py --text README.md --steps 200
    batch: 16
    model: {hidden: 256, layers: 4, heads: 8, vocab: 256, seq: 128}
    checkpoint: {grace: 60}

Shape, sequence length, batch, precision, optimiser, attention and activation
checkpointing come from the job file (FIRN_MODEL and the variables beside it),
the plan from FIRN_TENSOR, FIRN_REPLICAS and FIRN_SHARDED. Options replace them,
so that the program runs without a scheduler too. Samples are windows of a text,
byte by byte, or made up; sample k is the same one whatever the plan. Process 0
prints the loss of every step.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from typing import Any

# A stop before the training begins: nothing is lost, the attempt ends and the
# next one goes on from the checkpoint that is there. Later stops are Parallel's.
trains = False
signal.signal(signal.SIGUSR1, lambda *_: trains or os._exit(83))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from firn.torch.parallel import Parallel, Training, cross_entropy  # noqa: E402


class Attention(nn.Module):
    """Heads that a process has: all of them, or those of its part."""

    def __init__(self, hidden: int, heads: int, kind: str) -> None:
        super().__init__()
        self.head_dim, self.kind = hidden // heads, kind
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.o_proj = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        split = (batch, length, -1, self.head_dim)
        q = self.q_proj(x).view(split).transpose(1, 2)
        k = self.k_proj(x).view(split).transpose(1, 2)
        v = self.v_proj(x).view(split).transpose(1, 2)
        if self.kind == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) / self.head_dim**0.5
            later = torch.ones(length, length, dtype=torch.bool, device=x.device)
            scores = scores.masked_fill(later.triu(1), float("-inf"))
            out = scores.softmax(-1) @ v
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """Four times as wide as the model."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(hidden, 4 * hidden)
        self.down_proj = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.gelu(self.up_proj(x), approximate="tanh"))


class Layer(nn.Module):
    """Attention and MLP, each behind a normalisation."""

    def __init__(self, hidden: int, heads: int, kind: str) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(hidden)
        self.self_attn = Attention(hidden, heads, kind)
        self.before_mlp = nn.LayerNorm(hidden)
        self.mlp = MLP(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class Model(nn.Module):
    """A decoder with the shape of GPT-2."""

    def __init__(
        self, hidden: int, layers: int, heads: int, vocab: int, seq: int, kind: str
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, hidden)
        self.positions = nn.Embedding(seq, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, kind) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocab, bias=False)
        for name, param in self.named_parameters():
            if param.dim() > 1:
                nn.init.normal_(param, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(param)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        at = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed_tokens(tokens) + self.positions(at)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def hugging_face(kind: str, shape: dict[str, int], attention: str) -> nn.Module:
    """A model of transformers with this shape and weights that are drawn."""
    import transformers

    classes = {
        "llama": transformers.LlamaConfig,
        "mistral": transformers.MistralConfig,
        "qwen2": transformers.Qwen2Config,
        "gpt2": transformers.GPT2Config,
    }
    if kind not in classes:
        return transformers.AutoModelForCausalLM.from_pretrained(
            kind, attn_implementation=attention
        )
    words: dict[str, Any] = dict(
        vocab_size=shape["vocab"],
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        max_position_embeddings=shape["seq"],
    )
    if kind == "gpt2":
        words.update(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
    else:
        words.update(
            num_key_value_heads=shape["heads"], intermediate_size=4 * shape["hidden"]
        )
    config = classes[kind](**words)
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=attention
    )


class Text:
    """Sample k: a window of the text, or of made-up tokens, drawn by k."""

    def __init__(self, path: str | None, vocab: int, seq: int) -> None:
        self.vocab, self.seq = vocab, seq
        self.tokens = None
        if path:
            with open(path, "rb") as file:
                raw = bytearray(file.read())
            self.tokens = torch.frombuffer(raw, dtype=torch.uint8).long() % vocab
            if len(self.tokens) <= seq + 1:
                raise SystemExit(f"{path} has no {seq + 2} bytes")

    def __getitem__(self, numbers: list[int]) -> torch.Tensor:
        rows = []
        for number in numbers:
            draw = torch.Generator().manual_seed(number)
            if self.tokens is None:
                first = torch.randint(self.vocab, (1,), generator=draw)
                rows.append((first + torch.arange(self.seq + 1) * 7) % self.vocab)
            else:
                last = len(self.tokens) - self.seq - 1
                at = int(torch.randint(last, (1,), generator=draw))
                rows.append(self.tokens[at : at + self.seq + 1])
        return torch.stack(rows)


def optimizer_of(kind: str, lr: float) -> Any:
    """A function from parameters to the optimiser that the job names."""
    if kind == "adamw":
        return lambda params: torch.optim.AdamW(params, lr=lr)
    momentum = 0.9 if kind == "sgd" else 0.0
    return lambda params: torch.optim.SGD(params, lr=lr, momentum=momentum)


def options() -> argparse.Namespace:
    """Of the command line; None and 0: as the job says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="own", help="own, llama, qwen2, mistral, "
                        "gpt2, or a name or folder of Hugging Face weights")
    for name in ("hidden", "layers", "heads", "vocab", "seq", "batch", "micro"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--text", help="file of bytes; without it, made-up tokens")
    parser.add_argument("--every", type=int, default=0, help="steps of a checkpoint")
    parser.add_argument("--wait-at", type=int, default=0, help="after this step, "
                        "wait for the scheduler's order to stop (for tests)")
    return parser.parse_args()


def main() -> None:
    """One process of the training."""
    global trains
    o = options()
    said = Training.of_environment()
    small = dict(hidden=64, layers=2, heads=4, vocab=256, seq=32)
    shape = {k: getattr(o, k) or said.number(k, n) for k, n in small.items()}
    torch.manual_seed(1)
    if o.kind == "own":
        model: nn.Module = Model(**shape, kind=said.attention)
    else:
        model = hugging_face(o.kind, shape, said.attention)
    text = Text(o.text, shape["vocab"], shape["seq"])

    def tell(run: Parallel) -> None:
        if run.plan.rank != 0:
            return
        print(f"step {run.step} loss {run.loss:.6f}", flush=True)
        while run.step == o.wait_at and run.reporter.orders().stop <= 0:
            time.sleep(0.05)

    run = Parallel(
        model,
        optimizer_of(said.optimizer, o.lr),
        steps=o.steps,
        batch=o.batch or said.batch or 8,
        micro=o.micro,
        clip=o.clip,
        logits="split",
        every_steps=o.every,
        on_step=tell,
    )
    if run.plan.rank == 0:
        held = sum(one.param.to_local().numel() if hasattr(one.param, "to_local")
                   else one.param.numel() for one in run.held)
        print(f"plan {run.plan}: {held} parameters on this process, "
              f"from step {run.step}", flush=True)
    trains = True
    for samples in run:
        tokens = text[samples].to(run.device)
        out = model(tokens[:, :-1])
        logits = out if torch.is_tensor(out) else out.logits
        run.backward(cross_entropy(logits, tokens[:, 1:]))
    run.close()


if __name__ == "__main__":
    main()
