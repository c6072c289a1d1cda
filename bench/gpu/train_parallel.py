"""train_parallel.py - what a split model costs and holds, on one GPU.

Writes parallel.csv: milliseconds of a step, peak MiB of tensors and the loss
after the last step, for the example's model in two sizes

    plain      a loop of PyTorch alone, the same batch and precision
    alone      firn.torch.parallel, t = 1 d = 1
    tensor     t = 2, two processes on one GPU, gloo (the small size only)
    replicas   d = 2, two processes on one GPU, gloo (the small size only)
    sharded    d = 2 with sharded weights (FSDP), as above
    tensor-sharded   t = 2, d = 2 with sharded weights: four processes

NCCL refuses two processes on one GPU, so the last four send their messages
through host memory by gloo: their memory and losses are those of two GPUs, their
times are not, and the table says so in its column "link". With the large size
they had not come back after 100 s on an H200. A run that fails, or takes longer
than --limit seconds, has a row that says "failed", and the script then ends
with an error and the end of that run's output. --only names runs.

    python3 train_parallel.py --out DIR
    python3 train_parallel.py --device cpu --tiny --out DIR     # a smoke test
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import trainkit  # finds firn, and builds its library where there is none

sys.path.insert(0, os.path.join(trainkit.ROOT, "examples", "python"))

WARM, STEPS = 3, 12
# name: (processes, tensor, sharded weights)
RUNS = {"plain": (1, 1, 0), "alone": (1, 1, 0), "tensor": (2, 2, 0),
        "replicas": (2, 1, 0), "sharded": (2, 1, 1), "tensor-sharded": (4, 2, 1)}
SHAPES = {
    "tiny": dict(hidden=64, layers=2, heads=4, vocab=256, seq=32),
    "small": dict(hidden=512, layers=4, heads=8, vocab=4096, seq=256),
    "large": dict(hidden=2048, layers=12, heads=16, vocab=50257, seq=1024),
}


def measure(run, device, times, peaks):
    """Called after each step."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        peaks.append(torch.cuda.max_memory_allocated(device) / 2**20)
    times.append(time.perf_counter())


def plain(args, model, text, device, batch):
    """The loop that the others are compared with."""
    import torch
    from torch.nn import functional as F

    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, peaks, loss = [], [], None
    for step in range(WARM + STEPS):
        tokens = text[list(range(step * batch, (step + 1) * batch))].to(device)
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        measure(None, device, times, peaks)
    return times, peaks, float(loss.detach())


def worker(args):
    """One process; process 0 prints its result as JSON."""
    import torch
    from llm_parallel import Model, Text

    from firn.torch.parallel import Parallel, cross_entropy

    torch.manual_seed(1)
    shape = SHAPES[args.shape]
    model, batch = Model(**shape, kind="sdpa"), 8 if args.shape == "large" else 4
    text = Text(None, shape["vocab"], shape["seq"])
    if args.worker == "plain":
        device = torch.device(args.device)
        times, peaks, loss = plain(args, model, text, device, batch)
    else:
        times, peaks = [], []
        run = Parallel(
            model,
            lambda params: torch.optim.AdamW(params, lr=1e-3),
            steps=WARM + STEPS,
            batch=batch,
            precision="amp",
            clip=1.0,
            logits="split",
            backend="gloo",
            on_step=lambda r: measure(r, r.device, times, peaks),
        )
        wanted = RUNS[args.worker]
        plan = run.plan
        if (plan.tensor * plan.replicas, plan.tensor, int(plan.sharded)) != wanted:
            raise SystemExit(f"the plan is {plan}, not {wanted}")
        for samples in run:
            tokens = text[samples].to(run.device)
            run.backward(cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]))
        loss = run.loss
        run.close()
    gaps = [1e3 * (b - a) for a, b in zip(times[WARM - 1 :], times[WARM:])]
    if int(os.environ.get("RANK", "0")) == 0:
        peak = max(peaks) if peaks else 0.0
        print(json.dumps([statistics.median(gaps), peak, loss]), flush=True)


def environment(name, rank, port):
    """Of a process of a run: its place and its plan, and nothing of a scheduler."""
    nprocs, tensor, sharded = RUNS[name]
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("FIRN_") or key == "FIRN_TRAIN_LIB"}
    env.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(nprocs),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), FIRN_TENSOR=str(tensor),
        FIRN_REPLICAS=str(nprocs // tensor), FIRN_SHARDED=str(sharded),
        PYTHONFAULTHANDLER="1",
    )
    return env


def start(name, shape, args):
    """All processes of one run; what process 0 printed. A run that fails raises
    RuntimeError with the end of what its processes wrote."""
    nprocs = RUNS[name][0]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [sys.executable, __file__, "--worker", name, "--device", args.device]
    words += ["--shape", shape]
    children = []
    for rank in range(nprocs):
        env = environment(name, rank, port)
        if args.device == "cpu":
            env["CUDA_VISIBLE_DEVICES"] = ""
        files = [tempfile.TemporaryFile() for _ in range(2)]
        child = subprocess.Popen(words, env=env, stdout=files[0], stderr=files[1])
        children.append((child, *files))
    reason = wait_for([child for child, *_ in children], args.limit)
    outputs = []
    for _, *files in children:
        for file in files:
            file.seek(0)
            outputs.append(file.read().decode(errors="replace"))
            file.close()
    if reason:
        texts = "\n".join(text[-3000:] for text in outputs[1::2])
        raise RuntimeError(f"{name}, {shape}: {reason}\n{texts}")
    return json.loads(outputs[0].splitlines()[-1])


def wait_for(children, limit_s):
    """Until all have ended; why the run failed, or "". The others of a run do
    not wait for a process that is gone: they are ended."""
    until, reason = time.monotonic() + limit_s, ""
    while not reason:
        codes = [child.poll() for child in children]
        if any(codes):
            reason = f"its processes ended with {codes}"
        elif None not in codes:
            return ""
        elif time.monotonic() > until:
            reason = f"not done after {limit_s:g} s"
        else:
            time.sleep(0.05)
    for signal_number in (signal.SIGABRT, signal.SIGKILL):
        for child in children:
            if child.poll() is None:
                child.send_signal(signal_number)
        for child in children:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                pass
    return reason


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=".")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a run")
    parser.add_argument("--only", default=",".join(RUNS), help="runs, by commas")
    parser.add_argument("--worker", choices=tuple(RUNS))
    parser.add_argument("--shape", choices=tuple(SHAPES))
    args = parser.parse_args()
    if args.worker:
        worker(args)
        return
    os.makedirs(args.out, exist_ok=True)
    small = "tiny" if args.tiny else "small"
    todo = [(name, small) for name in RUNS]
    if not args.tiny:
        todo += [("plain", "large"), ("alone", "large")]
    todo = [run for run in todo if run[0] in args.only.split(",")]
    failures = write(todo, args)
    if failures:
        raise SystemExit("\n".join(["train_parallel.py failed", *failures]))


def write(todo, args):
    """The table; why runs failed."""
    failures = []
    table = trainkit.Table(
        os.path.join(args.out, "parallel.csv"),
        ["run", "shape", "processes", "tensor", "link", "ms", "peak_mib", "loss"],
        args, "milliseconds: the median of twelve steps")
    for name, shape in todo:
        nprocs, tensor, _ = RUNS[name]
        link = "none" if nprocs == 1 else "gloo through host memory on one device"
        try:
            found = [float(x) for x in start(name, shape, args)]
        except RuntimeError as error:
            failures.append(str(error))
            found = ["failed"] * 3
        table.row(name, shape, nprocs, tensor, link, *found)
    table.close()
    return failures


if __name__ == "__main__":
    main()
