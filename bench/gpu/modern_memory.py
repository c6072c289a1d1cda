"""modern_memory.py - peak memory of training models as people run them.

Builds each model of bench/gpu/configs with random weights (nothing is
downloaded), trains three steps and writes the peak of the third step. A row is
a model cut to some layers, a mode, an optimizer, checkpointing, a sequence
length and a micro-batch. Every second row of a family is marked `fit`, the
others `held`: constants may be fitted to the first, accuracy is stated on the
second.

    modern_memory.py --list            prints the rows, runs nothing
    modern_memory.py OUT.csv           measures on the first CUDA device
    modern_memory.py --tiny OUT.csv    small models on the CPU: a test of this
                                       script; the memory columns are empty
    modern_memory.py --seconds N ...   stops after N seconds; run again with the
                                       same OUT.csv, it goes on

Modes: amp (bf16 autocast over fp32 weights), bf16, fp32, lora (frozen bf16
base, adapters in fp32 as peft has them). Optimizers: adamw (foreach and fused
off), adamw-foreach, adamw-fused, sgd with momentum. zero_grad() frees the
gradients; attention is sdpa where the model has it.
"""
import argparse
import csv
import gc
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("part model family layers mode lora_rank lora_on optimizer "
           "checkpointing seq micro_batch repeat params trainable "
           "peak_alloc_mib peak_reserved_mib static_alloc_mib").split()
KEY = COLUMNS[1:12]
# mode, rank, adapters on, optimizer, checkpointing, sequence, micro-batch
WAYS = [
    ("bf16", 0, "", "adamw-fused", 0, 1024, 2),
    ("bf16", 0, "", "adamw", 1, 2048, 2),
    ("bf16", 0, "", "adamw-foreach", 1, 1024, 1),
    ("bf16", 0, "", "sgd", 0, 512, 4),
    ("amp", 0, "", "adamw", 0, 1024, 2),
    ("amp", 0, "", "adamw-fused", 1, 1024, 4),
    ("fp32", 0, "", "adamw", 0, 512, 2),
    ("lora", 16, "q+v", "adamw", 0, 1024, 2),
    ("lora", 64, "q+k+v+o+gate+up+down", "adamw", 0, 1024, 1),
    ("lora", 16, "q+k+v+o+gate+up+down", "adamw", 1, 2048, 2),
]
NO_LORA = ("bert", "roberta", "t5", "vit", "gpt2")
LAYER_KEYS = ("num_hidden_layers", "num_layers", "num_decoder_layers",
              "n_layer")
SHORT = {"bert": 512, "roberta": 512, "gpt2": 1024}  # learned positions
ADAPTED = {  # names of the projections
    "phi3": {"q": "qkv_proj", "k": "qkv_proj", "v": "qkv_proj", "o": "o_proj",
             "gate": "gate_up_proj", "up": "gate_up_proj", "down": "down_proj"},
    "gpt_neox": {"q": "query_key_value", "k": "query_key_value",
                 "v": "query_key_value", "o": "dense", "gate": "",
                 "up": "dense_h_to_4h", "down": "dense_4h_to_h"},
    "opt": {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj",
            "gate": "", "up": "fc1", "down": "fc2"},
    "deepseek_v2": {"q": "q_proj", "k": "kv_b_proj", "v": "kv_b_proj",
                    "o": "o_proj", "gate": "gate_proj", "up": "up_proj",
                    "down": "down_proj"},
    "deepseek_v3": {"q": "q_b_proj", "k": "kv_b_proj", "v": "kv_b_proj",
                    "o": "o_proj", "gate": "gate_proj", "up": "up_proj",
                    "down": "down_proj"},
}


def configs():
    """Name and config of each file, by name."""
    folder = os.path.join(HERE, "configs")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as f:
                yield name[:-5], json.load(f)


def layers_of(config):
    return next(config[k] for k in LAYER_KEYS if k in config)


def depths(name, config):
    """Layers to measure: few, and as many as an H200 holds."""
    whole = layers_of(config)
    big = config["model_type"] in ("deepseek_v2", "qwen2_moe")
    return [2, 4] if big else [min(4, whole), min(whole, 16)]


def rows():
    """All rows, each a dict of the columns of KEY and `part`."""
    out = []
    for name, config in configs():
        family, n = config["model_type"], 0
        for layers in depths(name, config):
            for mode, rank, on, optimizer, ckpt, seq, batch in WAYS:
                if mode == "lora" and family in NO_LORA:
                    continue
                row = dict(zip(KEY, (name, family, layers, mode, rank, on,
                                     optimizer, ckpt,
                                     min(seq, SHORT.get(family, seq)), batch,
                                     0)))
                row["part"] = ("fit", "held")[n % 2]
                out.append(row)
                n += 1
        out.append(dict(out[-1], repeat=1))  # the spread of a measurement
    return out


def in_turns():
    """The rows with each way of all models before the next way, so that a run
    cut short has rows of every family."""
    seen, order = {}, []
    for row in rows():
        turn = seen[row["model"]] = seen.get(row["model"], -1) + 1
        order.append((turn, row["model"], row))
    return [row for _, _, row in sorted(order, key=lambda item: item[:2])]


def tiny(config):
    """The same family with small numbers."""
    small = {"hidden_size": 64, "n_embd": 64, "d_model": 64,
             "intermediate_size": 96, "ffn_dim": 96, "d_ff": 96,
             "num_attention_heads": 4, "n_head": 4, "num_heads": 4,
             "head_dim": 16, "d_kv": 16, "vocab_size": 128,
             "word_embed_proj_dim": 64, "num_experts": 4,
             "num_local_experts": 4, "n_routed_experts": 4,
             "num_experts_per_tok": 2, "moe_intermediate_size": 32,
             "shared_expert_intermediate_size": 32, "q_lora_rank": 24,
             "kv_lora_rank": 16, "qk_nope_head_dim": 16,
             "qk_rope_head_dim": 8, "v_head_dim": 16, "image_size": 32,
             "patch_size": 8, "pad_token_id": 0}
    out = {k: small[k] if k in small and v is not None else v
           for k, v in config.items()}
    if "num_key_value_heads" in out:
        whole = out["num_key_value_heads"] == config["num_attention_heads"]
        out["num_key_value_heads"] = 4 if whole else 2
    return out


def build(config, layers, mode, device):
    """The model of the config's `architectures`, with random weights."""
    import torch
    import transformers
    config = dict(config)
    kind = getattr(transformers, config.pop("architectures")[0])
    for key in LAYER_KEYS:
        if key in config:
            config[key] = layers
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made.use_cache = False
    eager = made.model_type == "gemma2"  # sdpa has no softcap
    dtype = torch.bfloat16 if mode in ("bf16", "lora") else torch.float32
    with torch.device(device):
        model = kind._from_config(
            made, dtype=dtype, attn_implementation="eager" if eager else "sdpa")
    return model.train()


def adapt(model, family, rank, on):
    """peft's LoRA: bf16 base, adapters in fp32."""
    from peft import LoraConfig, get_peft_model
    names = ADAPTED.get(family, {p: p + "_proj" for p in
                                 "q k v o gate up down".split()})
    targets = sorted({names[p] for p in on.split("+")} - {""})
    return get_peft_model(model, LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=targets))


def optimizer_of(name, params):
    import torch
    if name == "sgd":
        return torch.optim.SGD(params, lr=1e-5, momentum=0.9)
    if name == "adamw":
        return torch.optim.AdamW(params, lr=1e-5, foreach=False, fused=False)
    return torch.optim.AdamW(params, lr=1e-5, foreach=name == "adamw-foreach",
                             fused=name == "adamw-fused")


def inputs_of(model, family, seq, batch, device):
    import torch
    config = model.config
    if family == "vit":
        size = config.image_size
        dtype = next(p.dtype for p in model.parameters())
        return {"pixel_values": torch.randn(batch, config.num_channels, size,
                                            size, device=device, dtype=dtype),
                "labels": torch.zeros(batch, dtype=torch.long, device=device)}
    tokens = torch.randint(0, config.vocab_size, (batch, seq), device=device)
    return {"input_ids": tokens, "labels": tokens}


def measure(config, row, device):
    """Parameters, trained ones, and the peaks of the third step in MiB."""
    import torch
    is_cuda = device == "cuda"
    model = build(config, row["layers"], row["mode"], device)
    params = sum(p.numel() for p in model.parameters())
    if row["mode"] == "lora":
        model = adapt(model, row["family"], row["lora_rank"], row["lora_on"])
    if row["checkpointing"]:
        if row["mode"] == "lora":
            model.enable_input_require_grads()
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False})
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(row["optimizer"], trained)
    data = inputs_of(model, row["family"], row["seq"], row["micro_batch"],
                     device)
    static = torch.cuda.memory_allocated() if is_cuda else 0
    for step in range(3):
        if is_cuda and step == 2:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16,
                            enabled=row["mode"] == "amp"):
            loss = model(**data).loss
        loss.backward()
        optimizer.step()
        del loss
    out = [params, sum(p.numel() for p in trained)]
    if not is_cuda:
        return out + ["", "", ""]
    torch.cuda.synchronize()
    return out + [round(n / 2**20) for n in
                  (torch.cuda.max_memory_allocated(),
                   torch.cuda.max_memory_reserved(), static)]


def key_of(row):
    return tuple(str(row[k]) for k in KEY)


def small_rows():
    """For --tiny: the first two ways of each family, short."""
    seen = {}
    for row in rows():
        n = seen.setdefault(row["family"], 0)
        is_lora = row["mode"] == "lora"
        if row["repeat"] or (n >= 1 and not is_lora) or n >= 2:
            continue
        seen[row["family"]] = n + 1
        yield dict(row, layers=2, seq=16, micro_batch=2, lora_rank=4
                   if is_lora else 0, mode="fp32" if not is_lora else "lora")


def run(args):
    import torch
    device = "cpu" if args.tiny else "cuda"
    end = time.monotonic() + args.seconds
    known = dict(configs())
    done = set()
    if os.path.exists(args.out):
        with open(args.out) as f:
            done = {key_of(row) for row in csv.DictReader(f)}
    with open(args.out, "a", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        if not done:
            out.writerow(COLUMNS)
        for row in small_rows() if args.tiny else in_turns():
            if key_of(row) in done:
                continue
            if time.monotonic() > end:
                print("out of time: run again with the same file", flush=True)
                return
            config = known[row["model"]]
            try:
                result = measure(tiny(config) if args.tiny else config, row,
                                 device)
            except torch.OutOfMemoryError:
                result = [""] * 5
            except Exception as error:  # one broken family costs its rows only
                print(*key_of(row), repr(error)[:200], flush=True)
                if not args.tiny and "CUDA" in repr(error):
                    out.writerow([row[c] for c in COLUMNS[:12]] + [""] * 5)
                    f.close()  # CUDA is of no use to this process any more
                    os.execv(sys.executable, [
                        sys.executable, os.path.abspath(__file__), args.out,
                        "--seconds", str(end - time.monotonic())])
                gc.collect()
                continue
            gc.collect()
            if not args.tiny:
                torch.cuda.empty_cache()
            out.writerow([row[c] for c in COLUMNS[:12]] + result)
            f.flush()
    print("memory done", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description="Peak memory of training models as people run them.")
    parser.add_argument("out", nargs="?", metavar="OUT.csv")
    parser.add_argument("--list", action="store_true",
                        help="print the rows and run nothing")
    parser.add_argument("--tiny", action="store_true",
                        help="small models on the CPU, to test this script")
    parser.add_argument("--seconds", type=float, default=500)
    args = parser.parse_args()
    if args.list:
        for row in rows():
            print(row["part"], *key_of(row))
    elif args.out is None:
        parser.error("OUT.csv is missing")
    else:
        run(args)


if __name__ == "__main__":
    main()
