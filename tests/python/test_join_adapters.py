"""Jobs of the Trainer of transformers, of Accelerate and of Lightning are resized
while they train, with the bits and the logs of a run that never was."""

from __future__ import annotations

import tempfile
import time
import unittest
from types import SimpleNamespace
from typing import Any, Callable
from unittest import mock

import farm
from resizing import Gate, Run

from firn.group import complete_environment
from firn.torch.driver import Driver

EPOCHS = 12


def resized(case: unittest.TestCase, work: Callable[[Gate], dict]) -> None:
    """Grows, gives its first process away and shrinks, in the middle of epochs."""
    reference = Run(1, work).finish()
    run = Run(1, work)
    for layout in ([0, -1], [1, -1], [0]):
        case.assertEqual(run.resize(layout), "done", run.why)
        step = run.gate.step
        run.gate.allow(step + 2)  # a few steps in this layout
        while run.gate.step < step + 2:
            time.sleep(0.002)
    case.assertEqual(farm.differing(reference, run.finish()), [])


def gated(gate: Gate, train: Callable[[], dict]) -> dict:
    """Trains in a loop that waits at the gate after each step."""
    stock = Driver.end_turn

    def end_turn(driver: Driver) -> bool:
        stepped = stock(driver)
        if stepped:
            gate.wait(driver.job)
        return stepped

    complete_environment()  # as the import does where FIRN_JOIN is set
    with mock.patch.object(Driver, "end_turn", end_turn):
        return train()


class Adapters(unittest.TestCase):
    """V = 4 threads, 3 steps an epoch."""

    def test_a_trainer_of_transformers(self) -> None:
        """With its logs: the losses since the last log go with the threads."""
        try:
            import test_transformers as own
            import transformers
        except unittest.SkipTest as why:
            self.skipTest(str(why))

        class Waits(transformers.TrainerCallback):
            def __init__(self, gate: Gate) -> None:
                self._gate = gate

            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                rank = SimpleNamespace(rank=args.process_index)
                self._gate.wait(SimpleNamespace(step=state.global_step, place=rank))

        def work(gate: Gate) -> dict:
            complete_environment()
            with tempfile.TemporaryDirectory() as folder:
                more = dict(num_train_epochs=EPOCHS, callbacks=[Waits(gate)])
                return own.train(folder, logging_steps=4, **more)

        resized(self, work)

    def test_a_loop_of_accelerate(self) -> None:
        """Rates by the step."""
        try:
            import test_accelerate as own
        except unittest.SkipTest as why:
            self.skipTest(str(why))

        def work(gate: Gate) -> dict:
            with mock.patch.object(own, "EPOCHS", EPOCHS):
                with tempfile.TemporaryDirectory() as folder:
                    return gated(gate, lambda: own.train(folder=folder))

        resized(self, work)

    def test_a_trainer_of_lightning(self) -> None:
        """The epoch in which it is resized has another number of turns."""
        try:
            import test_lightning as own
        except unittest.SkipTest as why:
            self.skipTest(str(why))
        resized(self, lambda gate: gated(gate, lambda: own.train(max_epochs=EPOCHS)))


if __name__ == "__main__":
    unittest.main()
