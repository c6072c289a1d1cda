#!/usr/bin/python3
"""trainer.py - a small GPT-2 trained by the Trainer of transformers, elastic by
two lines; with --lora by adapters of PEFT.

    python3 trainer.py --threads 4 --epochs 2
    torchrun --nproc-per-node 2 trainer.py --threads 4 --epochs 2   # the same bits
    python3 trainer.py --lora                # adapters only in the checkpoints
    FIRN_DIR=ckpt python3 trainer.py ...     # kill -USR1 it, start it again anywhere

The text is made by a little grammar, so that nothing has to be fetched. The last
line printed is a hash of the trained weights.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from firn.transformers import elastic

VOCAB, LENGTH = 64, 24


class Sentences(torch.utils.data.Dataset):
    """Sentences in which each word says much about the next."""

    def __init__(self, n: int) -> None:
        rng = random.Random(3)
        self.rows = []
        for _ in range(n):
            word, row = rng.randrange(1, VOCAB), []
            for _ in range(LENGTH):
                row.append(word)
                word = 1 + (word * 5 + rng.randrange(2)) % (VOCAB - 1)
            self.rows.append(torch.tensor(row))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def network(lora: bool) -> torch.nn.Module:
    """A GPT-2 of two layers, all of it or its adapters."""
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=LENGTH,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    if not lora:
        return model
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    return get_peft_model(model, adapters)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--output", help="folder of models (default: a new one)")
    return parser.parse_args()


def main() -> None:
    """Trains, and prints losses and a hash of the weights."""
    args = arguments()
    torch.set_num_threads(1)  # part of the job's bits: the same everywhere
    torch.manual_seed(0)
    trainer = Trainer(
        model=network(args.lora),
        args=TrainingArguments(
            output_dir=args.output or tempfile.mkdtemp(prefix="trainer"),
            per_device_train_batch_size=args.batch,
            num_train_epochs=args.epochs,
            learning_rate=0.003,
            logging_steps=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        ),
        train_dataset=Sentences(args.samples),
    )
    trainer = elastic(trainer, threads=args.threads, save_frozen=not args.lora)
    trainer.train()
    hashed = hashlib.sha256()
    for p in trainer.model.parameters():
        if p.requires_grad:
            hashed.update(p.detach().cpu().numpy().tobytes())
    if trainer.is_world_process_zero():
        print(f"weights {hashed.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
