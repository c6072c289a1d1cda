"""quant_memory.py - peak memory of quantised, offloaded and cut-down training.

The ways of training that modern_memory.py leaves out, on some of its models
with random weights: QLoRA (nf4, constants quantised twice) and 8-bit AdamW by
bitsandbytes, the optimizer on the host, activations on the host, DoRA,
Adafactor, Lion, selective checkpointing, chunked and fused losses. Trains three
steps (two with offload) and writes the peak of the last. Each way has rows marked `fit` and
`held` in turn over the models: terms may be corrected by the first, accuracy is
stated on the second.

    quant_memory.py --list                 prints the rows, runs nothing
    quant_memory.py --bnb FOLDER OUT.csv   measures on the first CUDA device
    quant_memory.py --tiny OUT.csv         small models on the CPU: a test of
                                           this script; no memory columns
    quant_memory.py --seconds N ...        stops after N seconds (125); run
                                           again with the same OUT.csv, it goes
                                           on

--bnb names a folder that holds the package bitsandbytes, for machines where it
is not installed. Rows that need it are left out if it cannot be imported.

Modes: those of modern_memory.py, and qlora (all matrices but the output in nf4,
the rest in bf16), qlora-fp32 (the rest in fp32 as peft's
prepare_model_for_kbit_training() has it, under autocast), dora. Checkpointing:
0 none, 1 layers, 2 selective (products and attention are kept). Offload:
`optimizer` (gradients are copied to the host tensor by tensor, the moments and
the step are there), `activations` (torch.autograd.graph.save_on_cpu). Loss:
`chunked` (the logits in bf16, an eighth of them in fp32 at a time), `fused` (an
eighth of the logits at a time, their gradient in the forward pass).
"""
import argparse
import csv
import gc
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import modern_memory as plain  # noqa: E402

COLUMNS = ("part model family layers mode lora_rank lora_on optimizer "
           "checkpointing offload loss seq micro_batch repeat params trainable "
           "peak_alloc_mib peak_reserved_mib static_alloc_mib").split()
KEY = COLUMNS[1:14]
ALL = "q+k+v+o+gate+up+down"
MODELS = ("llama-3.2-1b qwen2.5-1.5b llama-3.1-8b gemma-2b mistral-7b "
          "qwen3-1.7b phi-3-mini pythia-1b opt-1.3b gemma-2-2b").split()
MOVED = ("llama-3.2-1b qwen2.5-1.5b mistral-7b qwen3-1.7b phi-3-mini "
         "pythia-1b").split()  # copies to the host take seconds
# mode, rank, adapters on, optimizer, checkpointing, offload, loss, sequence,
# micro-batch, whether deep: as many layers as the model has, up to 32
WAYS = [
    ("qlora", 16, ALL, "adamw", 0, "", "plain", 1024, 1, 0),
    ("qlora", 16, ALL, "adamw", 1, "", "plain", 2048, 2, 1),
    ("bf16", 0, "", "adamw-8bit", 0, "", "plain", 1024, 2, 0),
    ("bf16", 0, "", "adamw", 0, "optimizer", "plain", 1024, 2, 0),
    ("bf16", 0, "", "adamw-fused", 0, "activations", "plain", 1024, 2, 0),
    ("bf16", 0, "", "adamw-fused", 1, "activations", "plain", 2048, 2, 1),
    ("qlora-fp32", 16, "q+v", "adamw", 1, "", "plain", 1024, 2, 0),
    ("amp", 0, "", "adamw-8bit", 1, "", "plain", 1024, 2, 0),
    ("bf16", 0, "", "adamw-8bit", 1, "", "plain", 512, 1, 0),
    ("amp", 0, "", "adamw", 1, "optimizer", "plain", 512, 1, 0),
    ("amp", 0, "", "sgd", 0, "activations", "plain", 1024, 2, 0),
    ("lora", 16, ALL, "adamw", 0, "activations", "plain", 1024, 2, 0),
    ("qlora", 64, ALL, "adamw-8bit", 0, "", "plain", 2048, 2, 0),
    ("qlora-fp32", 16, ALL, "adamw-8bit", 0, "", "plain", 1024, 1, 0),
    ("dora", 16, ALL, "adamw", 0, "", "plain", 1024, 1, 0),
    ("dora", 16, "q+v", "adamw", 1, "", "plain", 1024, 2, 0),
    ("bf16", 0, "", "adafactor", 1, "", "plain", 512, 1, 0),
    ("bf16", 0, "", "lion", 1, "", "plain", 512, 1, 0),
    ("bf16", 0, "", "adamw-fused", 2, "", "plain", 2048, 2, 0),
    ("bf16", 0, "", "sgd", 1, "", "chunked", 2048, 4, 0),
    ("bf16", 0, "", "sgd", 1, "", "fused", 2048, 4, 0),
    ("lora", 16, ALL, "adamw", 1, "", "chunked", 2048, 4, 0),
]
NEEDS_BNB = ("qlora", "qlora-fp32", "adamw-8bit", "lion")
CHUNKS = 8
state = {"bnb": None}


def rows():
    """All rows, those of a way together; a way's rows are marked in turn."""
    known = dict(plain.configs())
    out = []
    for w, way in enumerate(WAYS):
        mode, rank, on, optimizer, ckpt, offload, loss, seq, batch, deep = way
        for m, name in enumerate(MOVED if offload else MODELS):
            config = known[name]
            most = 2 if offload == "optimizer" else 4
            if deep:
                most = 12 if mode == "bf16" else 32
            layers = min(plain.layers_of(config), most)
            out.append(dict(zip(KEY, (
                name, config["model_type"], layers, mode, rank, on, optimizer,
                ckpt, offload, loss, seq, batch, 0)),
                part=("fit", "held")[(w + m) % 2]))
    repeats = [dict(row, repeat=1) for row in out[::41]]
    return out + repeats


def in_turns():
    """The rows in an order that makes a run cut short tell most: of each way
    one model before the next model, of the next way another model; rows with
    offload, which take seconds, at the end."""
    seen, order = {}, []
    for row in rows():
        way = tuple(row[k] for k in KEY[3:10])
        ways = len(seen) if way not in seen else seen[way][0]
        turn = seen.get(way, (ways, -1))[1] + 1
        seen[way] = (ways, turn)
        shift = (turn - 3 * ways) % len(MODELS)
        order.append((row["offload"] != "", row["repeat"], shift, ways, row))
    return [item[4] for item in sorted(order, key=lambda item: item[:4])]


def quantise(model, is_double=True):
    """Replaces all matrices but the output by bitsandbytes' in nf4."""
    import torch
    bnb = state["bnb"]
    head = model.get_output_embeddings()
    found = [(name, m) for name, m in model.named_modules()
             if type(m) is torch.nn.Linear and m is not head]
    for name, module in found:
        weight = module.weight.data
        with torch.device("meta"):
            packed = bnb.nn.Linear4bit(
                module.in_features, module.out_features,
                module.bias is not None, torch.bfloat16,
                compress_statistics=is_double, quant_type="nf4")
        packed.weight = bnb.nn.Params4bit(
            weight, requires_grad=False, compress_statistics=is_double,
            quant_type="nf4", module=packed).to(weight.device)
        packed.bias = module.bias
        model.set_submodule(name, packed)
    model.is_loaded_in_4bit = True
    for parameter in model.parameters():
        parameter.requires_grad = False


def adapt(model, row):
    """peft's adapters on the projections of the row."""
    from peft import (LoraConfig, get_peft_model,
                      prepare_model_for_kbit_training)
    if row["mode"] == "qlora-fp32":
        model = prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=False)
    names = plain.ADAPTED.get(row["family"], {
        p: p + "_proj" for p in ALL.split("+")})
    targets = sorted({names[p] for p in row["lora_on"].split("+")} - {""})
    return get_peft_model(model, LoraConfig(
        r=row["lora_rank"], lora_alpha=2 * row["lora_rank"], lora_dropout=0.0,
        target_modules=targets, use_dora=row["mode"] == "dora"))


def build(config, row, device):
    """The model, adapted and checkpointed as the row says; its parameters."""
    import torch
    mode = row["mode"]
    kind = "amp" if mode == "amp" else "bf16"
    model = plain.build(config, row["layers"], kind, device)
    params = sum(p.numel() for p in model.parameters())
    if mode.startswith("qlora"):
        quantise(model)
    if row["lora_rank"]:
        model = adapt(model, row)
    if row["checkpointing"]:
        if row["lora_rank"]:
            model.enable_input_require_grads()
        words = {"use_reentrant": False}
        if row["checkpointing"] == 2:
            from torch.utils.checkpoint import \
                create_selective_checkpoint_contexts
            aten = torch.ops.aten
            kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,
                    aten._scaled_dot_product_flash_attention.default,
                    aten._scaled_dot_product_efficient_attention.default,
                    aten._scaled_dot_product_cudnn_attention.default]
            words["context_fn"] = lambda: create_selective_checkpoint_contexts(
                kept)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=words)
    return model, params


class HostAdamW:
    """AdamW whose moments and fp32 weights are on the host. A step copies one
    gradient at a time to the host and the new weights back."""

    def __init__(self, params):
        import torch
        self.params = params
        self.hosts = [p.detach().to("cpu", torch.float32) for p in params]
        self.inner = torch.optim.AdamW(self.hosts, lr=1e-5, fused=True)

    def zero_grad(self, set_to_none=True):
        for p in self.params:
            p.grad = None

    def step(self):
        import torch
        for p, host in zip(self.params, self.hosts):
            host.grad = p.grad.to("cpu").to(torch.float32)
        self.inner.step()
        with torch.no_grad():
            for p, host in zip(self.params, self.hosts):
                p.copy_(host.to(p.dtype))


def optimizer_of(row, params):
    import torch
    name, bnb = row["optimizer"], state["bnb"]
    if row["offload"] == "optimizer":
        return HostAdamW(params)
    if name == "adamw-8bit":
        return bnb.optim.AdamW8bit(params, lr=1e-5)
    if name == "lion":
        return bnb.optim.Lion(params, lr=1e-5)
    if name == "adafactor":
        return torch.optim.Adafactor(params, lr=1e-5, foreach=False)
    return plain.optimizer_of(name, params)


def fused_loss(hidden, weight, labels):
    """Cross-entropy whose gradient is made in the forward pass, an eighth of
    the tokens at a time."""
    import torch

    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            grad_x, grad_w = torch.empty_like(x), None
            if w.requires_grad:
                grad_w = torch.zeros_like(w)
            total = 0.0
            parts = zip(x.chunk(CHUNKS), labels.chunk(CHUNKS),
                        grad_x.chunk(CHUNKS))
            for part, target, to in parts:
                logits = (part @ w.t()).float()
                logits = torch.log_softmax(logits, dim=-1)
                total -= logits.gather(1, target[:, None]).sum()
                logits.exp_()
                logits.scatter_add_(1, target[:, None], torch.full_like(
                    target[:, None], -1, dtype=logits.dtype))
                gradient = logits.div_(len(labels)).to(x.dtype)
                del logits
                torch.mm(gradient, w, out=to)
                if grad_w is not None:
                    grad_w.addmm_(gradient.t(), part)
                del gradient
            ctx.save_for_backward(grad_x, grad_w)
            return total / len(labels)

        @staticmethod
        def backward(ctx, out):
            grad_x, grad_w = ctx.saved_tensors
            return grad_x.mul_(out), None if grad_w is None else \
                grad_w.mul_(out)

    return Fused.apply(hidden, weight)


def loss_of(model, data, row):
    """The library's loss, or one that makes the logits in pieces."""
    import torch
    from torch.utils.checkpoint import checkpoint
    if row["loss"] == "plain":
        return model(**data).loss
    inner = model.get_base_model() if row["lora_rank"] else model
    head = inner.get_output_embeddings()
    body = inner.base_model  # without the output
    hidden = body(input_ids=data["input_ids"]).last_hidden_state
    hidden = hidden.flatten(0, 1)
    labels = data["labels"].flatten()
    if row["loss"] == "fused":
        return fused_loss(hidden, head.weight, labels)

    def piece(logits, target):
        return torch.nn.functional.cross_entropy(logits.float(), target,
                                                 reduction="sum")
    total = 0
    pieces = [head(h) for h in hidden.chunk(CHUNKS)]
    for logits, target in zip(pieces, labels.chunk(CHUNKS)):
        total = total + checkpoint(piece, logits, target, use_reentrant=False)
    return total / len(labels)


def one_step(model, optimizer, data, row, device):
    import contextlib
    import torch
    optimizer.zero_grad(set_to_none=True)
    moved = contextlib.nullcontext()
    if row["offload"] == "activations":
        moved = torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda")
    is_cast = row["mode"] in ("amp", "qlora-fp32")
    with moved, torch.autocast(device, torch.bfloat16, enabled=is_cast):
        loss = loss_of(model, data, row)
    loss.backward()
    optimizer.step()


def measure(config, row, device):
    """Parameters, trained ones, and the peaks of the last step in MiB."""
    import torch
    is_cuda = device == "cuda"
    model, params = build(config, row, device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(row, trained)
    data = plain.inputs_of(model, row["family"], row["seq"],
                           row["micro_batch"], device)
    gc.collect()
    static = torch.cuda.memory_allocated() if is_cuda else 0
    last = 1 if row["offload"] else 2  # a step with all of the state
    for step in range(last + 1):
        if is_cuda and step == last:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        one_step(model, optimizer, data, row, device)
    out = [params, sum(p.numel() for p in trained)]
    if not is_cuda:
        return out + ["", "", ""]
    torch.cuda.synchronize()
    return out + [round(n / 2**20) for n in
                  (torch.cuda.max_memory_allocated(),
                   torch.cuda.max_memory_reserved(), static)]


def small_rows():
    """For --tiny: each way once, each on the next model, small and short."""
    for w, way in enumerate(WAYS):
        same = [r for r in rows() if (
            r["mode"], r["lora_rank"], r["lora_on"], r["optimizer"],
            r["checkpointing"], r["offload"], r["loss"]) == way[:7]]
        row = same[w % len(same)]
        yield dict(row, layers=2, seq=16, micro_batch=2,
                   lora_rank=4 if row["lora_rank"] else 0)


def key_of(row):
    return tuple(str(row[k]) for k in KEY)


def open_bnb(folder):
    """Imports bitsandbytes, from `folder` if one is given."""
    if folder:
        sys.path.insert(0, folder)
    try:
        import bitsandbytes
        state["bnb"] = bitsandbytes
    except Exception as error:
        print("no bitsandbytes:", repr(error)[:200], flush=True)


def heading():
    """Provenance: the machine and the versions, in lines that begin with #."""
    import peft
    import torch
    import transformers
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else \
        "a CPU"
    bnb = getattr(state["bnb"], "__version__", "none")
    return ("# bench/gpu/quant_memory.py on %s: PyTorch %s, transformers %s, "
            "peft %s, bitsandbytes %s\n" % (device, torch.__version__,
                                            transformers.__version__,
                                            peft.__version__, bnb))


def again(args, end):
    """Starts this script again: CUDA is of no use to the process any more."""
    words = [sys.executable, os.path.abspath(__file__), args.out, "--seconds",
             str(end - time.monotonic())]
    os.execv(sys.executable, words + (["--bnb", args.bnb] if args.bnb else []))


def run(args):
    import torch
    device = "cpu" if args.tiny else "cuda"
    end = time.monotonic() + args.seconds
    known = dict(plain.configs())
    open_bnb(args.bnb)
    done = set()
    if os.path.exists(args.out):
        with open(args.out) as f:
            lines = (line for line in f if not line.startswith("#"))
            done = {key_of(row) for row in csv.DictReader(lines)}
    failed = 0
    with open(args.out, "a", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        if not done:
            f.write(heading())
            out.writerow(COLUMNS)
        for row in small_rows() if args.tiny else in_turns():
            if key_of(row) in done:
                continue
            is_bnb = row["mode"] in NEEDS_BNB or row["optimizer"] in NEEDS_BNB
            if is_bnb and state["bnb"] is None:
                continue
            if time.monotonic() > end:
                print("out of time: run again with the same file", flush=True)
                return failed
            config = known[row["model"]]
            broken = ""
            try:
                result = measure(plain.tiny(config) if args.tiny else config,
                                 row, device)
            except torch.OutOfMemoryError:
                result = [""] * 5
            except Exception as error:  # one broken way costs its rows only
                broken = repr(error)
                print(*key_of(row), broken[:300], flush=True)
            if broken:
                failed += 1
                if not args.tiny and "CUDA" in broken:
                    out.writerow([row[c] for c in COLUMNS[:14]] + [""] * 5)
                    f.close()
                    again(args, end)
            else:
                out.writerow([row[c] for c in COLUMNS[:14]] + result)
                f.flush()
            gc.collect()
            if not args.tiny:
                torch.cuda.empty_cache()
    print("memory done", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(
        description="Peak memory of quantised and offloaded training.")
    parser.add_argument("out", nargs="?", metavar="OUT.csv")
    parser.add_argument("--list", action="store_true",
                        help="print the rows and run nothing")
    parser.add_argument("--tiny", action="store_true",
                        help="small models on the CPU, to test this script")
    parser.add_argument("--bnb", metavar="FOLDER",
                        help="folder of the package bitsandbytes")
    parser.add_argument("--seconds", type=float, default=125)
    args = parser.parse_args()
    if args.list:
        for row in rows():
            print(row["part"], *key_of(row))
    elif args.out is None:
        parser.error("OUT.csv is missing")
    else:
        sys.exit(1 if run(args) and args.tiny else 0)


if __name__ == "__main__":
    main()
