"""A Trainer of transformers becomes elastic by two lines: the same bits on one
and two processes and after a stop, with PEFT too."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import unittest
from typing import Any

import farm
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import transformers
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
except ImportError:
    raise unittest.SkipTest("transformers is not installed") from None
try:
    import peft
except ImportError:
    peft = None  # type: ignore[assignment]

from firn import FirnError
from firn.ckpt import Checkpoint
from firn.transformers import elastic

transformers.logging.set_verbosity_error()


class Sentences(torch.utils.data.Dataset):
    """Random tokens with repetitions."""

    def __init__(self, n: int = 24) -> None:
        g = torch.Generator().manual_seed(7)
        half = torch.randint(0, 29, (n, 6), generator=g)
        self.tokens = torch.cat([half, half], 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


def run(nprocs: int, work: Any, ended: int = 0, **env: str) -> dict:
    """As torchrun starts them."""
    env["LOCAL_WORLD_SIZE"] = str(nprocs)
    return farm.finish(farm.start(nprocs, work, **env), ended)


def gpt() -> GPT2LMHeadModel:
    """A small one, with dropout."""
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=29, n_positions=12, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def lora(model: Any = None) -> Any:
    """The same with adapters."""
    config = peft.LoraConfig(
        r=2, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True
    )
    return peft.get_peft_model(model or gpt(), config)


class StopAt(transformers.TrainerCallback):
    """SIGUSR1 in a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step and state.is_world_process_zero:
            os.kill(os.getpid(), signal.SIGUSR1)


def arguments(folder: str, **more: Any) -> TrainingArguments:
    given = dict(
        output_dir=folder,
        per_device_train_batch_size=2,
        num_train_epochs=2,
        learning_rate=0.01,
        logging_steps=2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    return TrainingArguments(**{**given, **more})


def train(folder: str, model: Any = None, stop_at: int = 0, **more: Any) -> dict:
    """A script of the Trainer, with the two lines."""
    options = {k: more.pop(k) for k in ("save_frozen", "through") if k in more}
    options["threads"] = more.pop("threads", 4)
    callbacks = more.pop("callbacks", [])
    trainer = Trainer(
        model=model or gpt(),
        args=arguments(folder, **more),
        train_dataset=Sentences(),
        eval_dataset=Sentences(8),
        callbacks=[*callbacks, *([StopAt(stop_at)] if stop_at else [])],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer = elastic(trainer, **options)
    out = trainer.train()
    trainable = [p for p in trainer.model.parameters() if p.requires_grad]
    return {
        "weights": farm.digest(*trainable),
        "steps": out.global_step,
        "lr": trainer.lr_scheduler.get_last_lr(),
        "logs": [
            (row["step"], row["loss"]) for row in trainer.state.log_history
            if "loss" in row
        ],
    }  # fmt: skip


class Trainers(unittest.TestCase):
    """V = 4 threads."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def at(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def test_an_ordered_batch_changes_in_an_epoch_on_one_and_two(self) -> None:
        work = lambda n, at: lambda: train(self.at(at), stop_at=n)  # noqa: E731
        run(2, work(1, "first"), 83, FIRN_JOB="hf")
        found = []
        for nprocs in (1, 2):
            shutil.copytree(self.at("first"), self.at(str(nprocs)))
            env = {"FIRN_JOB": "hf", "FIRN_BATCH": "16", "FIRN_BATCH_RULE": "linear"}
            found.append(run(nprocs, work(0, str(nprocs)), **env))
        self.assertEqual(farm.differing(*found), [])
        # two steps of two samples, the last two of the epoch, then four and two;
        # the linear schedule is at its end
        self.assertEqual(found[0]["steps"], 2 + 1 + 2)
        self.assertEqual(set(found[0]["lr"]), {0.0})

    def test_a_smaller_batch_trains_all_epochs(self) -> None:
        env = {"FIRN_JOB": "hf", "FIRN_BATCH": "4"}
        found = run(1, lambda: train(self.at("small")), **env)
        self.assertEqual(found["steps"], 12)
        self.assertEqual(set(found["lr"]), {0.0})

    def run_all(self, **more: Any) -> dict:
        """On one process, on two, and stopped on two and resumed on one."""
        made = more.pop("made", gpt)
        one = run(1, lambda: train(self.at("one"), made(), **more))
        two = run(2, lambda: train(self.at("two"), made(), **more))
        self.assertEqual(farm.differing(one, two), [])
        work = lambda **o: lambda: train(self.at("part"), made(), **more, **o)  # noqa
        run(2, work(stop_at=3), 83, FIRN_JOB="part")
        found = run(1, work(), FIRN_JOB="part")
        self.assertEqual(one["steps"], 6)
        one.pop("logs"), found.pop("logs")  # of the steps since the resume
        self.assertEqual(farm.differing(one, found), [])
        return one

    def test_a_language_model_has_the_same_bits_on_two_and_after_a_stop(self) -> None:
        found = self.run_all(lr_scheduler_type="cosine", max_grad_norm=0.5)
        other = run(1, lambda: train(self.at("other"), seed=3, threads=4))
        self.assertNotEqual(found["weights"], other["weights"])

    @unittest.skipIf(peft is None, "peft is not installed")
    def test_lora_has_the_same_bits_and_leaves_the_backbone_out(self) -> None:
        self.run_all(made=lora, save_frozen=False)
        folder = self.at("part/firn")
        newest = sorted(os.listdir(folder))[-1]
        with Checkpoint.open(os.path.join(folder, newest)) as ckpt:
            names = [v.name for v in ckpt if v.name.startswith("model/")]
        self.assertTrue(names)
        self.assertTrue(all("lora_" in name for name in names), names)

    def test_autocast_and_activation_checkpoints_have_the_same_bits(self) -> None:
        self.run_all(bf16=True, gradient_checkpointing=True)

    def test_evaluation_best_model_and_early_stopping_work_on_two(self) -> None:
        patience = lambda: [  # noqa: E731
            transformers.EarlyStoppingCallback(1, early_stopping_threshold=100.0)
        ]
        work = lambda name: lambda: train(  # noqa: E731
            self.at(name),
            callbacks=patience(),
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="steps",
            save_steps=1,
            load_best_model_at_end=True,
            metric_for_best_model="loss",
        )
        one = run(1, work("one"), FIRN_JOB="best")
        two = run(2, work("two"))
        self.assertEqual(farm.differing(one, two), [])
        self.assertEqual(one["steps"], 2)
        self.assertIn("checkpoint-2", os.listdir(self.at("two")))
        again = run(1, work("one"), FIRN_JOB="best")  # ended: not trained on
        self.assertEqual(farm.differing(one, again), [])

    def test_accumulated_gradients_are_threads(self) -> None:
        work = lambda name, **o: lambda: train(  # noqa: E731
            self.at(name), threads=0, **o
        )
        one = run(1, work("one", gradient_accumulation_steps=4))
        four = run(1, lambda: train(self.at("four")))
        self.assertEqual(farm.differing(one, four), [])

    def test_gradients_go_through_the_process_group_of_accelerate(self) -> None:
        one = run(1, lambda: train(self.at("one")))
        two = run(2, lambda: train(self.at("two"), through="distributed"))
        self.assertEqual(farm.differing(one, two), [])

    def test_a_fraction_of_an_epoch_and_max_steps_end_the_training(self) -> None:
        half = run(1, lambda: train(self.at("half"), num_train_epochs=0.5))
        self.assertEqual(half["steps"], 2)
        five = run(1, lambda: train(self.at("five"), max_steps=5))
        self.assertEqual(five["steps"], 5)


class Refused(unittest.TestCase):
    """What cannot hold."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="firn")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_mistakes_are_refused_with_a_sentence(self) -> None:
        def work() -> dict:
            with self.assertRaisesRegex(FirnError, "no Trainer"):
                elastic(object())

            class Own(Trainer):
                def get_train_dataloader(self) -> Any:
                    return []

            own = Own(model=gpt(), args=arguments(self.folder))
            with self.assertRaisesRegex(FirnError, "its own get_train_dataloader"):
                elastic(own)
            given = dict(gradient_accumulation_steps=2, threads=4)
            with self.assertRaisesRegex(FirnError, "set the former to 1"):
                train(self.folder, **given)
            trainer = Trainer(model=gpt(), args=arguments(self.folder))
            with self.assertRaisesRegex(FirnError, "no train_dataset"):
                elastic(trainer, threads=2).train()
            return {}

        run(1, work)


if __name__ == "__main__":
    unittest.main()
