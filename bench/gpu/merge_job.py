"""merge_job.py - one fine-tuning job of merge.sh, over a backbone that is made here.

    python3 merge_job.py --make --base FOLDER              # the backbone
    python3 merge_job.py --base FOLDER --task a            # one job
    python3 merge_job.py --make --base FOLDER --device cpu --tiny

LoRA adapters in a backbone and a head of its own are trained for each of two
tasks, a and b. The metric is the accuracy on samples that were not trained on.

  stripes   (default) the jobs of examples/python/tune.py with the settings of
            partners.py: pictures of stripes in one direction (a: 600 pictures)
            and in nearly the same one (b: 300)
  bytes     the text of this repository. The backbone is a byte-level GPT (the
            shape of GPT-2 small: 12 layers of 768) that is trained on pages,
            shell scripts and Python files, and has never seen C. The tasks are
            to predict the next byte of C: of sources (a) and of headers (b).
            Samples and held-out text are of different files

After each epoch the job prints a line with its metric, its steps, the steps of
the device (its partner's included) and the seconds since the process's first
step. Started by a scheduler that merged two such jobs, the program trains both.
"""
import argparse
import os
import sys
import time

import trainkit
import torch
from models import loss_of, transformer
from torch import nn
from torch.utils.data import TensorDataset

from firn.torch import finetune
from firn.torch.partners import Tuned, Work, run

sys.path.insert(0, os.path.join(trainkit.ROOT, "examples", "python"))
import tune  # noqa: E402

VOCAB = 128
# task: (folders, ends of file names)
TEXTS = {
    "base": (("docs", "tests", "python", "bench", "tools"), (".md", ".sh", ".py")),
    "a": (("src",), (".c",)),
    "b": (("src", "include"), (".h",)),
}


class Clock:
    """Steps of the device and seconds since the first one."""

    steps, since = 0, 0.0

    def step(self):
        """Counts a step; one thread: a turn is a step."""
        if self.steps == 0:
            self.since = time.time()
        self.steps += 1


CLOCK = Clock()


def text_of(task):
    """(training text, held-out text) of a task, as bytes: each fifth file of
    the sorted names is held out."""
    folders, ends = TEXTS[task]
    names = sorted(
        os.path.join(at, name)
        for folder in folders
        for at, _, found in os.walk(os.path.join(trainkit.ROOT, folder))
        for name in found if name.endswith(ends))
    parts = [[], []]
    for i, name in enumerate(names):
        with open(name, "rb") as f:
            parts[i % 5 == 4].append(f.read())
    return [bytes(b if b < VOCAB else 63 for b in b"".join(p)) for p in parts]


def windows(text, n, length, seed):
    """n windows at random places: (bytes, the bytes that follow them)."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    g = torch.Generator().manual_seed(seed)
    at = torch.randint(0, len(data) - length - 1, (n,), generator=g)
    rows = at[:, None] + torch.arange(length + 1)
    return data[rows][:, :-1].contiguous(), data[rows][:, 1:].contiguous()


def backbone(args):
    """The model without its last layer, and its width."""
    width, layers = (32, 2) if args.tiny else (768, 12)
    torch.manual_seed(1)
    whole = transformer(VOCAB, args.length, width, layers, True, 0.0)
    return nn.Sequential(*list(whole)[:-1]), width


def write_about(args):
    """Where the tables are from: their first lines."""
    with open(os.path.join(args.base, "about"), "w", encoding="ascii") as f:
        f.write(f"# device: {trainkit.describe(args.device)}\n"
                f"# torch: {torch.__version__}, CUDA {torch.version.cuda}\n"
                f"# command: bench/gpu/merge.sh, {args.kind}\n"
                f"# date: {time.strftime('%Y-%m-%d', time.gmtime())}\n")


def make_base(args):
    """Trains the backbone and writes it to the folder."""
    body, width = backbone(args)
    model = Tuned(body, nn.Linear(width, VOCAB)).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.base_rate)
    text = text_of("base")[0]
    x, y = windows(text, args.base_steps * 32, args.length, 5)
    begin = time.time()
    for i in range(args.base_steps):
        part = slice(32 * i, 32 * i + 32)
        optimizer.zero_grad()
        loss = loss_of(model(x[part].to(args.device)), y[part].to(args.device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    torch.save(body.state_dict(), os.path.join(args.base, "base.pt"))
    print(f"backbone: {sum(p.numel() for p in body.parameters())} parameters, "
          f"{args.base_steps} steps, loss {loss.item():.3f}, "
          f"{time.time() - begin:.1f} s", flush=True)


def accuracy_on(task, args):
    """The metric of a task."""
    x, y = (part.to(args.device)
            for part in windows(text_of(task)[1], args.tests, args.length, 9))

    def accuracy(model):
        return float((model(x).argmax(2) == y).float().mean())

    return accuracy


def words_to_args(words):
    """The options of a job."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--base", required=True, help="folder of the backbone")
    parser.add_argument("--make", action="store_true", help="make the backbone")
    parser.add_argument("--kind", choices=("stripes", "bytes"), default="stripes")
    parser.add_argument("--task", choices=("a", "b"), default="a")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--tests", type=int, default=256, help="held-out samples")
    parser.add_argument("--length", type=int, default=256, help="bytes of a sample")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--rank", type=int, default=8, help="of LoRA")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base-steps", type=int, default=600)
    parser.add_argument("--base-rate", type=float, default=3e-4)
    return parser.parse_args(words)


def print_epoch(job):
    """A line for each epoch of each job."""
    if job.place.rank == 0:
        print(f"job {job.name} epoch {job.epoch} metric {job.metric:.4f} "
              f"steps {job.step} device_steps {CLOCK.steps} "
              f"seconds {time.time() - CLOCK.since:.3f}", flush=True)


def counted(loss):
    """The same loss; steps are counted."""
    def counting(out, y):
        CLOCK.step()
        return loss(out, y)

    return counting


def stripes(args):
    """A job of examples/python/tune.py."""
    angle = 0.2 if args.task == "a" else 0.3
    return tune.make(
        f"--angle {angle} --samples {args.samples} --noise 1.5 --epochs {args.epochs} "
        f"--batch {args.batch} --seed {args.seed} --rank 4 --base-steps 20 "
        "--lr 5e-4".split())


def texts(args):
    """A job over the byte-level backbone."""
    body, width = backbone(args)
    body.load_state_dict(torch.load(os.path.join(args.base, "base.pt"),
                                    map_location="cpu", weights_only=True))
    torch.manual_seed(100 + args.seed)
    finetune.adapt(body, "lora", args.rank)
    model = Tuned(body, nn.Linear(width, VOCAB)).to(args.device)
    live = [p for p in model.parameters() if p.requires_grad]

    def data():
        return TensorDataset(*windows(text_of(args.task)[0], args.samples,
                                      args.length, 1000 + args.seed))

    return Work(model, torch.optim.Adam(live, lr=args.rate), data, loss_of,
                accuracy_on(args.task, args),
                dict(batch_size=args.batch, epochs=args.epochs, seed=args.seed))


def make(words):
    """A job from its command line."""
    args = words_to_args(words)
    work = stripes(args) if args.kind == "stripes" else texts(args)
    work.loss = counted(work.loss)
    work.options.update(threads=1, save_frozen=False, on_epoch=print_epoch)
    return work


def main():
    """The backbone, or a job."""
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    args = words_to_args(None)
    if args.make:
        write_about(args)
        if args.kind == "bytes":
            make_base(args)
        return
    for job in run(make):
        print(f"job {job.name}: metric {job.metric:.4f}, {job.step} steps",
              flush=True)


main()
