"""train_huggingface.py - whether elastic jobs of Hugging Face's libraries have the
same bits on this device: on one process, on two that share it, and after a stop.

Writes huggingface.csv, a row for each case and run:

  trainer   the Trainer of transformers, GPT-2, clipping, bf16, activation
            checkpoints
  fp16      the same in fp16, with the Trainer's gradient scaler (GPUs only)
  peft      the Trainer with LoRA adapters of peft; checkpoints hold these alone
  accelerate   a loop of Accelerate in bf16, with clipping and rates by the step

Runs: `one` process, `two` processes, `resumed` (two processes that stop in the
middle, then one), and `seed`, a control run whose threads start from another seed
and that must differ. Equal are the weights, the moments of the optimiser and the
logged losses (Trainer). As under a scheduler that may resize the job, each process
is alone to the libraries (docs/resize.md). All runs of a case are made at once: no
times are measured.

    python3 train_huggingface.py --out DIR
    python3 train_huggingface.py --device cpu --tiny --out DIR     # a smoke test
"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import trainkit

V, STOP_AT, STOPPED = 4, 3, 83
COLUMNS = ("case", "run", "processes", "steps", "weights", "optimizer", "losses",
           "expected")


def digest(tensors):
    """A short hash of tensors."""
    hashed = hashlib.sha256()
    for t in tensors:
        hashed.update(t.detach().float().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]


def of_optimizer(optimizer):
    """A hash of its moments."""
    states = (s for g in optimizer.param_groups for s in
              (optimizer.state.get(p, {}) for p in g["params"]))
    return digest(s[k] for s in states for k in sorted(s) if k.startswith("exp_avg"))


def language_model(tiny):
    """GPT-2, of transformers, with dropout."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    width, layers = (16, 2) if tiny else (256, 4)
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=512, n_positions=64, n_embd=width, n_layer=layers, n_head=2,
        bos_token_id=0, eos_token_id=0, use_cache=False))


def sentences(n=48):
    """Random tokens with repetitions."""
    import torch

    half = torch.randint(0, 512, (n, 16), generator=torch.Generator().manual_seed(7))
    tokens = torch.cat([half, half], 1)
    return [{"input_ids": row, "labels": row} for row in tokens]


def by_trainer(case, args):
    """A script of the Trainer, with the two lines."""
    import transformers
    from transformers import Trainer, TrainingArguments

    from firn.transformers import elastic

    class Stops(transformers.TrainerCallback):
        def on_step_begin(self, _, state, control, **more):
            if state.global_step == args["stop_at"] and state.is_world_process_zero:
                os.kill(os.getpid(), signal.SIGUSR1)

    model, options = language_model(args["tiny"]), {}
    if case == "peft":
        import peft

        config = peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["c_attn"],
                                 fan_in_fan_out=True)
        model, options = peft.get_peft_model(model, config), {"save_frozen": False}
    how = {"fp16": dict(fp16=True), "peft": {}}.get(
        case, dict(bf16=True, gradient_checkpointing=True))
    given = TrainingArguments(
        output_dir=args["folder"], per_device_train_batch_size=4, num_train_epochs=2,
        learning_rate=1e-3, logging_steps=2, save_strategy="no", report_to=[],
        disable_tqdm=True, max_grad_norm=0.5, use_cpu=args["device"] == "cpu",
        seed=args["seed"], **how)
    trainer = elastic(
        Trainer(model=model, args=given, train_dataset=sentences(),
                callbacks=[Stops()] if args["stop_at"] else []), threads=V, **options)
    out = trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return (out.global_step, [p for p in trainer.model.parameters() if p.requires_grad],
            trainer.optimizer, [] if args["resumes"] else losses)


def by_accelerate(args):
    """A loop of Accelerate, with the two lines."""
    import torch
    from torch.utils.data import DataLoader

    from firn.accelerate import Accelerator

    accelerator = Accelerator(threads=V, epochs=2, folder=args["folder"],
                              seed=args["seed"], mixed_precision="bf16",
                              cpu=args["device"] == "cpu")
    model = language_model(args["tiny"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    model, optimizer, loader, rates = accelerator.prepare(
        model, optimizer, DataLoader(sentences(), 4, shuffle=True), rates)
    job = accelerator.elastic
    for _ in range(2):
        for batch in loader:
            if args["stop_at"] and job.step == args["stop_at"] and job.place.rank == 0:
                os.kill(os.getpid(), signal.SIGUSR1)
            accelerator.backward(model(**batch).loss)
            accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            rates.step()
    found = job.step, list(model.parameters()), optimizer.optimizer, []
    accelerator.end_training()
    return found


def worker(args):
    """One process of a run; prints its result as JSON."""
    import torch

    trainkit.deterministic()
    torch.set_num_threads(1)
    case = args["case"]
    found = by_accelerate(args) if case == "accelerate" else by_trainer(case, args)
    steps, weights, optimizer, losses = found
    print("\n" + json.dumps([steps, digest(weights), of_optimizer(optimizer),
                             hashlib.sha256(repr(losses).encode()).hexdigest()[:16]]),
          flush=True)


class Run:
    """The processes of one run."""

    def __init__(self, args, case, name, nprocs, **more):
        from firn.join import Board

        self.board = Board()
        given = dict(case=case, device=args.device, tiny=args.tiny, seed=3, stop_at=0,
                     resumes=False, folder=os.path.join(args.folder, case, name))
        given.update(more)
        os.makedirs(given["folder"], exist_ok=True)
        self.children = []
        for rank in range(nprocs):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                       WORLD_SIZE=str(nprocs), LOCAL_WORLD_SIZE=str(nprocs),
                       FIRN_JOB=f"{case}-{name}-{os.getpid()}", HF_HUB_OFFLINE="1",
                       FIRN_DIR=given["folder"], OMP_NUM_THREADS="1",
                       **self.board.environment)
            env.pop("FIRN_URL", None)
            out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
            child = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--worker",
                 json.dumps(given)],
                env=env, stdout=out, stderr=err, pass_fds=[self.board.fd])
            self.children.append((child, out, err))

    def end(self, deadline, expected=0):
        """What process 0 printed; None and a reason if a process failed."""
        codes = []
        for child, _, _ in self.children:
            try:
                codes.append(child.wait(max(1.0, deadline - time.time())))
            except subprocess.TimeoutExpired:
                child.kill()
                codes.append(child.wait())
        self.board.close()
        texts = []
        for _, *files in self.children:
            for file in files:
                file.seek(0)
                texts.append(file.read())
                file.close()
        if any(code != expected for code in codes):
            return None, f"processes ended with {codes}:\n{texts[1][-1500:]}"
        return (json.loads(texts[0].splitlines()[-1]) if not expected else []), ""


def compare(base, found):
    """equal, differs or failed, of weights, optimiser and losses."""
    if base is None or found is None:
        return ["failed"] * 3
    return ["equal" if a == b else "differs" for a, b in zip(base[1:], found[1:])]


def one_case(args, case, table):
    """All runs of a case; what was not as expected."""
    runs = {"one": Run(args, case, "one", 1), "two": Run(args, case, "two", 2),
            "seed": Run(args, case, "seed", 1, seed=4)}
    stopped = Run(args, case, "resumed", 2, stop_at=STOP_AT)
    found, failures = {}, []
    _, why = stopped.end(args.deadline, STOPPED)
    if why:
        failures.append(f"{case}, stopped: {why}")
    else:
        runs["resumed"] = Run(args, case, "resumed", 1, resumes=True)
        runs["again"] = Run(args, case, "again", 1, resumes=True)
    for name, run in runs.items():
        found[name], why = run.end(args.deadline)
        if why:
            failures.append(f"{case}, {name}: {why}")
    for name, nprocs, expected in (("two", 2, "equal"), ("resumed", 1, "equal"),
                                   ("seed", 1, "differs")):
        base = found.get("again" if name == "resumed" else "one")
        words = compare(base, found.get(name))
        table.row(case, name, nprocs, (found.get(name) or [0])[0], *words, expected)
        if words[0] != expected or (expected == "equal" and set(words) != {"equal"}):
            failures.append(f"{case}, {name}: {words}, not {expected}")
    return failures


def main():
    args = trainkit.arguments(__doc__.split("\n", maxsplit=1)[0], 150,
                              cases="trainer,fp16,peft,accelerate")
    import accelerate
    import peft
    import transformers

    os.makedirs(args.out, exist_ok=True)
    note = (f"transformers {transformers.__version__}, accelerate "
            f"{accelerate.__version__}, peft {peft.__version__}; compared with the "
            "run of one process")
    table = trainkit.Table(os.path.join(args.out, "huggingface.csv"), COLUMNS, args,
                           note)
    failures = []
    with tempfile.TemporaryDirectory() as args.folder:
        for case in args.cases.split(","):
            if case != "fp16" or args.device != "cpu":
                failures += one_case(args, case, table)
    table.close()
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(json.loads(sys.argv[2]))
    else:
        main()
