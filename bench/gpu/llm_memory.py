"""llm_memory.py - peak memory of one training step of LLaMA-shaped models.

Writes $OUT/llm_memory.csv. Random weights, random tokens, PyTorch's caching
allocator; peak over three steps; static = what is left after a step with
gradients kept (weights, gradients, optimizer state). Precisions: amp = bf16
autocast over fp32 weights; fp32; bf16 = everything. A configuration that does
not fit is written with empty numbers.
"""
import csv
import gc
import os
import statistics
import sys
import time

import torch

SHAPES = {  # hidden, layers, heads, key-value heads, MLP width, vocabulary
    "llama-160m": (768, 12, 12, 12, 3072, 32000),
    "llama-350m": (1024, 24, 16, 16, 2816, 32000),
    "llama-1.1b": (2048, 22, 32, 4, 5632, 32000),
    "llama-3b": (3200, 26, 32, 32, 8640, 32000),
    "llama-7b": (4096, 32, 32, 32, 11008, 32000),
    "llama-3-8b": (4096, 32, 32, 8, 14336, 128256),
}
# model, sequence, micro-batch, precision, attention, checkpointing, optimizer
RUNS = [(m, s, b, p, a, c, "adamw")
        for m in ("llama-160m", "llama-350m", "llama-1.1b")
        for s, b in ((512, 2), (1024, 4), (2048, 2))
        for p in ("amp", "fp32", "bf16")
        for a, c in (("eager", 0), ("sdpa", 0), ("sdpa", 1))]
RUNS += [("llama-1.1b", 1024, 4, p, "sdpa", 0, "sgd")
         for p in ("amp", "fp32", "bf16")]
RUNS += [(m, s, b, p, "sdpa", c, "adamw")
         for m, p in (("llama-3b", "amp"), ("llama-3b", "bf16"),
                      ("llama-7b", "bf16"), ("llama-3-8b", "bf16"))
         for s, b, c in ((1024, 1, 0), (2048, 1, 0), (2048, 2, 1))]


def build(name, attention, dtype):
    from transformers import LlamaConfig, LlamaForCausalLM
    h, layers, heads, kv, mlp, vocab = SHAPES[name]
    config = LlamaConfig(
        hidden_size=h, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv, intermediate_size=mlp, vocab_size=vocab,
        max_position_embeddings=4096, tie_word_embeddings=False,
        use_cache=False, attn_implementation=attention)
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.train()


def one(name, seq, batch, precision, attention, checkpointing, optimizer):
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = build(name, attention, dtype)
    if checkpointing:
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False})
    params = sum(p.numel() for p in model.parameters())
    if optimizer == "adamw":
        opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
    else:
        opt = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    x = torch.randint(0, SHAPES[name][5], (batch, seq), device="cuda")
    times = []
    for i in range(3):
        if i == 1:
            torch.cuda.reset_peak_memory_stats()
        e = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        opt.zero_grad(set_to_none=True)
        e[0].record()
        with torch.autocast("cuda", torch.bfloat16,
                            enabled=precision == "amp"):
            loss = model(input_ids=x, labels=x).loss
        e[1].record()
        loss.backward()
        e[2].record()
        opt.step()
        e[3].record()
        torch.cuda.synchronize()
        del loss
        times.append([e[j].elapsed_time(e[j + 1]) for j in range(3)])
    t = [statistics.median(c) for c in zip(*times[1:])]
    mib = 2**20
    return [params, round(torch.cuda.max_memory_allocated() / mib),
            round(torch.cuda.max_memory_reserved() / mib),
            round(torch.cuda.memory_allocated() / mib)] + \
        [round(v, 2) for v in t]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.environ["OUT"]
    deadline = time.time() + float(os.environ.get("SECONDS_MAX", "500"))
    with open(os.path.join(out, "llm_memory.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow("model,hidden,layers,heads,kv_heads,mlp,vocab,seq,"
                   "micro_batch,precision,attn,checkpointing,optimizer,params,"
                   "peak_alloc_mib,peak_reserved_mib,static_alloc_mib,fwd_ms,"
                   "bwd_ms,opt_ms".split(","))
        for name, seq, batch, prec, attn, ckpt, opt in RUNS:
            if time.time() > deadline:
                print("out of time before", name, seq, batch, prec, flush=True)
                return
            try:
                row = one(name, seq, batch, prec, attn, ckpt, opt)
            except torch.OutOfMemoryError:
                row = [""] * 7
            gc.collect()
            torch.cuda.empty_cache()
            h, layers, heads, kv, mlp, vocab = SHAPES[name]
            w.writerow([name, h, layers, heads, kv, mlp, vocab, seq, batch,
                        prec, attn, ckpt, opt] + row)
            f.flush()
    print("memory done", flush=True)


main()
