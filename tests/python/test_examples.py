"""The examples run, and what they claim of bits is so."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import unittest

import farm

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python")


def run(name: str, nprocs: int, *arguments: str, **env: str) -> str:
    """What process 0 of an example prints."""

    def work() -> dict:
        path = os.path.join(FOLDER, f"{name}.py")
        spec = importlib.util.spec_from_file_location(f"example_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.FOLDER = ""  # pictures made up: reading the real ones takes longer
        sys.argv = [path, *arguments]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            module.main()
        return {f"out {os.environ['RANK']}": out.getvalue()}

    return farm.run(nprocs, work, **env)["out 0"]


class Examples(unittest.TestCase):
    """One test each."""

    def test_the_cnn_ends_with_the_same_weights_on_two_processes(self) -> None:
        small = ("--samples", "96", "--epochs", "2", "--batch", "4")
        alone = run("cnn", 1, *small)
        self.assertIn("weights", alone)
        self.assertEqual(run("cnn", 2, *small), alone)
        self.assertNotEqual(run("cnn", 1, *small, "--lr", "0.01"), alone)

    def test_the_encoder_ends_with_the_same_weights_on_three_processes(self) -> None:
        small = ("--steps", "4", "--batch", "4", "--width", "16", "--layers", "1")
        alone = run("bert", 1, *small).splitlines()[-1]
        self.assertEqual(run("bert", 3, *small).splitlines()[-1], alone)
        passes = run("bert", 1, *small, FIRN_PASSES="3").splitlines()[-1]
        again = run("bert", 2, *small, FIRN_PASSES="3").splitlines()[-1]
        self.assertEqual(passes, again)
        self.assertNotEqual(passes, alone)

    def test_the_fine_tuning_example_prints_all_its_results(self) -> None:
        output = run("finetune", 1, "--samples", "90", "--epochs", "2")
        for word in ("similarity", "alone", "temporal", "spatial", "switch"):
            self.assertIn(word, output)

    def test_the_trainer_ends_with_the_same_weights_on_two_processes(self) -> None:
        try:
            import peft  # noqa: F401
            import transformers  # noqa: F401
        except ImportError:
            self.skipTest("transformers or peft is not installed")
        small = ("--samples", "24", "--batch", "2", "--epochs", "1")
        for more in ((), ("--lora",)):
            alone = run("trainer", 1, *small, *more, LOCAL_WORLD_SIZE="1")
            two = run("trainer", 2, *small, *more, LOCAL_WORLD_SIZE="2")
            self.assertEqual(two.splitlines()[-1], alone.splitlines()[-1])
            self.assertIn("weights", alone)


if __name__ == "__main__":
    unittest.main()
