#!/usr/bin/env python3
"""Peak memory and step time of one tensor-parallel rank of GPT-2 on one GPU.

Megatron's mixed precision with Adam, 20 bytes a parameter:

    bf16 weight 2, bf16 gradient 2 (kept), fp32 gradient 4 (kept),
    fp32 weight 4, Adam's two moments in fp32 8

column `gradients`: kept (20 bytes, as above) or fused (18 bytes: a gradient is
added to the fp32 one as soon as it exists, and its bf16 tensor is freed).

The rank has the shapes of 1/t of the model: h x 3h/t, h/t x h, h x 4h/t,
4h/t x h, a/t heads, 1/t of the vocabulary (padded to a multiple of 128 t); its
norms, the biases of the row-parallel layers, the positions and the residual
path are whole. No message is sent: the sums over the ranks are in place in
Megatron and take no memory of the allocator; NCCL's own buffers are not in
these numbers. Attention keeps its matrices (5 bytes a head and position), with
dropout 0.1; GELU is fused; the loss is computed over the rank's part of the
vocabulary in fp32.

Output: one CSV row per case, of the third step; `params` are those of the
rank. docs/measurements/h200/megatron_memory.csv has the rows `kept`,
megatron_fused.csv those `fused`.
"""
import sys
import time

import torch
import torch.nn.functional as F

START = time.time()
LIMIT_S = 55.0
DEV = "cuda"
BF16 = torch.bfloat16
MIB = 1048576.0


class VocabLoss(torch.autograd.Function):
    """Cross-entropy over the rank's part of the vocabulary, in fp32."""

    @staticmethod
    def forward(ctx, logits, labels):
        shifted = logits - logits.max(dim=-1, keepdim=True).values
        picked = shifted.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        torch.exp(shifted, out=shifted)
        total = shifted.sum(dim=-1)
        shifted.div_(total.unsqueeze(-1))
        ctx.save_for_backward(shifted, labels)
        return (total.log() - picked).mean()

    @staticmethod
    def backward(ctx, grad):
        softmax, labels = ctx.saved_tensors
        ones = torch.full_like(labels, -1, dtype=softmax.dtype).unsqueeze(-1)
        softmax.scatter_add_(-1, labels.unsqueeze(-1), ones)
        softmax.mul_(grad / labels.numel())
        return softmax, None


class Rank:
    def __init__(self, hidden, layers, heads, vocab, seq, t):
        self.h, self.l, self.a, self.t, self.seq = hidden, layers, heads, t, seq
        block = 128 * t
        self.vocab = (vocab + block - 1) // block * block // t
        self.params = []
        h, s = hidden, seq
        self.tok = self.new(self.vocab, h)
        self.pos = self.new(s, h)
        self.blocks = []
        for _ in range(layers):
            self.blocks.append({
                "n1": self.new(h), "n1b": self.new(h),
                "qkv": self.new(3 * h // t, h), "qkvb": self.new(3 * h // t),
                "out": self.new(h, h // t), "outb": self.new(h),
                "n2": self.new(h), "n2b": self.new(h),
                "up": self.new(4 * h // t, h), "upb": self.new(4 * h // t),
                "down": self.new(h, 4 * h // t), "downb": self.new(h)})
        self.n = self.new(h)
        self.nb = self.new(h)
        self.mask = torch.ones(s, s, device=DEV, dtype=torch.bool).triu(1)

    def new(self, *shape):
        p = torch.empty(*shape, device=DEV, dtype=BF16)
        p.normal_(0, 0.02) if len(shape) > 1 else p.fill_(1.0)
        p.requires_grad_(True)
        self.params.append(p)
        return p

    def attention(self, x, p):
        b, s, _ = x.shape
        a, width = self.a // self.t, self.h // self.a
        qkv = F.linear(x, p["qkv"], p["qkvb"]).view(b, s, a, 3 * width)
        q, k, v = (y.transpose(1, 2) for y in qkv.chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(2, 3))
        scores = scores.mul_(width ** -0.5).masked_fill_(self.mask, -10000.0)
        weights = F.dropout(F.softmax(scores, dim=-1), 0.1)
        del scores
        y = torch.matmul(weights, v).transpose(1, 2).reshape(b, s, -1)
        return F.linear(y, p["out"], p["outb"])

    def loss(self, tokens, labels):
        x = F.embedding(tokens, self.tok) + self.pos
        x = F.dropout(x, 0.1)
        for p in self.blocks:
            y = F.layer_norm(x, (self.h,), p["n1"], p["n1b"])
            x = x + F.dropout(self.attention(y, p), 0.1)
            y = F.layer_norm(x, (self.h,), p["n2"], p["n2b"])
            y = F.gelu(F.linear(y, p["up"], p["upb"]))
            x = x + F.dropout(F.linear(y, p["down"], p["downb"]), 0.1)
        x = F.layer_norm(x, (self.h,), self.n, self.nb)
        logits = F.linear(x, self.tok)
        return VocabLoss.apply(logits.float(), labels)


class Adam:
    """fp32 weights and moments; `kept` or `fused` gradients."""

    def __init__(self, params, is_kept):
        self.params, self.is_kept = params, is_kept
        self.main = [p.detach().float() for p in params]
        self.grad = [torch.zeros_like(m) for m in self.main]
        for m, g in zip(self.main, self.grad):
            m.grad = g
        self.opt = torch.optim.AdamW(self.main, lr=1e-4, fused=True)
        self.hooks = []
        for p, g in zip(params, self.grad):
            if is_kept:
                p.grad = torch.zeros_like(p)
            else:
                self.hooks.append(p.register_post_accumulate_grad_hook(self.hook(g)))

    @staticmethod
    def hook(main_grad):
        def add(p):
            main_grad.add_(p.grad)
            p.grad = None
        return add

    def zero(self):
        torch._foreach_zero_(self.grad)
        if self.is_kept:
            torch._foreach_zero_([p.grad for p in self.params])

    def step(self):
        if self.is_kept:
            torch._foreach_copy_(self.grad, [p.grad for p in self.params])
        self.opt.step()
        with torch.no_grad():
            torch._foreach_copy_(self.params, self.main)


def measure(rank, adam, batch):
    tokens = torch.randint(0, rank.vocab, (batch, rank.seq), device=DEV)
    labels = torch.randint(0, rank.vocab, (batch, rank.seq), device=DEV)
    marks = None
    for step in range(3):
        if step == 2:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        adam.zero()
        marks[0].record()
        loss = rank.loss(tokens, labels)
        marks[1].record()
        loss.backward()
        marks[2].record()
        adam.step()
        marks[3].record()
        value = loss.item()
        del loss
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / MIB
    reserved = torch.cuda.max_memory_reserved() / MIB
    static = torch.cuda.memory_allocated() / MIB
    ms = [marks[i].elapsed_time(marks[i + 1]) for i in range(3)]
    return peak, reserved, static, ms, value


SHAPES = {
    "gpt2-124m": (768, 12, 12), "gpt2-350m": (1024, 24, 16),
    "gpt2-774m": (1280, 36, 20), "gpt2-7b": (4096, 32, 32)}
CASES = [  # model, seq, t, gradients, batches of one rank
    ("gpt2-7b", 1024, 4, "kept", (1, 2, 4, 8)),
    ("gpt2-7b", 1024, 4, "fused", (1, 2, 4)),
    ("gpt2-350m", 1024, 1, "kept", (1, 2, 4, 8, 16)),
    ("gpt2-350m", 1024, 2, "kept", (1, 2, 4, 8, 16)),
    ("gpt2-350m", 1024, 4, "kept", (1, 2, 4, 8, 16)),
    ("gpt2-350m", 1024, 1, "fused", (1, 4, 16)),
    ("gpt2-7b", 1024, 8, "kept", (1, 2, 4, 8)),
    ("gpt2-7b", 1024, 2, "kept", (1, 2, 4)),
    ("gpt2-124m", 1024, 1, "kept", (1, 4, 16)),
    ("gpt2-774m", 1024, 1, "kept", (1, 4, 8)),
    ("gpt2-350m", 512, 1, "kept", (1, 4, 16)),
    ("gpt2-124m", 512, 1, "kept", (1, 4, 16)),
    ("gpt2-774m", 512, 1, "kept", (1, 4, 16))]


def main():
    torch.manual_seed(1)
    print("# %s, PyTorch %s, CUDA %s, bf16; one rank's shapes, vocabulary "
          "50257" % (torch.cuda.get_device_name(0), torch.__version__,
                     torch.version.cuda))
    print("model,hidden,layers,heads,vocab,seq,micro_batch,tensor,precision,"
          "attn,checkpointing,optimizer,params,peak_alloc_mib,"
          "peak_reserved_mib,static_alloc_mib,fwd_ms,bwd_ms,opt_ms,gradients",
          flush=True)
    for model, seq, t, gradients, batches in CASES:
        if time.time() - START > LIMIT_S:
            print("# stopped before %s seq %d t %d %s: %.0f s are over" %
                  (model, seq, t, gradients, LIMIT_S), flush=True)
            continue
        h, l, a = SHAPES[model]
        rank = Rank(h, l, a, 50257, seq, t)
        count = sum(p.numel() for p in rank.params)
        adam = Adam(rank.params, gradients == "kept")
        for batch in batches:
            torch.cuda.empty_cache()
            try:
                peak, reserved, static, ms, value = measure(rank, adam, batch)
            except torch.cuda.OutOfMemoryError:
                print("# %s t %d batch %d: out of memory" % (model, t, batch),
                      flush=True)
                break
            if value != value:
                print("# loss of the next row is not a number")
            print("%s,%d,%d,%d,50257,%d,%d,%d,megatron,eager,0,adamw,%d,%.0f,"
                  "%.0f,%.0f,%.2f,%.2f,%.2f,%s" %
                  (model, h, l, a, seq, batch, t, count, peak, reserved,
                   static, *ms, gradients), flush=True)
        for hook in adam.hooks:
            hook.remove()
        del rank, adam
        torch.cuda.empty_cache()
    print("# %.1f s" % (time.time() - START))


if __name__ == "__main__":
    sys.exit(main())
