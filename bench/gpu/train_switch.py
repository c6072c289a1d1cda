"""train_switch.py - how long the GPU waits when one task gives way to the next.

Writes switch.csv. A task fine-tunes an encoder by LoRA; while it computes, the
next task's data loader (worker processes, first batch) and weights (a
checkpoint read from disk, copied to the device) are made ready in a thread, or,
without the pipeline, after it has stopped. Measured: from the end of the last
step of the one to the end of the first step of the other, less the time of a
step; what preparing took; and how much the present task's steps were slowed
down meanwhile.

    python3 train_switch.py --out DIR              # GPU, about 3 minutes
    python3 train_switch.py --device cpu --tiny --out DIR --seconds 60
"""
import os
import statistics
import tempfile
import time

import trainkit
import torch
from models import RandomData, build, loss_of
from torch.utils.data import DataLoader, TensorDataset

from firn.torch.finetune import Pipeline, adapt, without_pipeline

NAMES = ("bert-base", "gpt2-small")


def host_data(name, tiny, n):
    """Samples in host memory, for a loader with workers."""
    data = RandomData(name, n, "cpu", tiny)
    return TensorDataset(data.x, data.y)


class Bench:
    """Tasks over one backbone, one after the other."""

    def __init__(self, name, args):
        self.name, self.args = name, args
        model, batch = build(name, args.tiny, "cpu")
        adapt(model, "lora", 8, lambda n: "qkv" in n)
        self.batch = batch
        self.path = os.path.join(tempfile.mkdtemp(prefix="switch"), "task.pt")
        torch.save(model.state_dict(), self.path)
        self.model = model.to(args.device)
        self.data = host_data(name, args.tiny, 64 * batch)
        self.task = self.start(self.stages())

    def stages(self):
        """What the next task needs: its loader first, then its weights."""
        device, args = self.args.device, self.args

        def loader():
            found = DataLoader(self.data, self.batch, shuffle=True,
                               num_workers=0 if args.tiny else 4,
                               pin_memory=device.startswith("cuda"))
            batches = iter(found)
            return batches, next(batches)

        def weights():
            state = torch.load(self.path, map_location="cpu")
            if not device.startswith("cuda"):
                return state
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                moved = {k: v.to(device, non_blocking=True)
                         for k, v in state.items()}
            stream.synchronize()
            return moved

        return {"loader": loader, "weights": weights}

    def start(self, stages):
        """The first task: everything is made in place."""
        made, _ = without_pipeline(stages)
        return self.swap(made)

    def swap(self, made):
        """The next task takes over: weights in place, a fresh optimiser."""
        with torch.no_grad():
            for key, tensor in self.model.state_dict().items():
                tensor.copy_(made["weights"][key])
        live = [p for p in self.model.parameters() if p.requires_grad]
        return torch.optim.AdamW(live, lr=1e-4), *made["loader"]

    def step(self):
        """One step of the present task."""
        optimizer, batches, batch = self.task
        x, y = (t.to(self.args.device, non_blocking=True) for t in batch)
        optimizer.zero_grad(set_to_none=True)
        loss_of(self.model(x), y).backward()
        optimizer.step()
        self.task = optimizer, batches, next(batches, batch)

    def steps_ms(self, n):
        """Each of some steps, in milliseconds."""
        times = []
        for _ in range(n):
            trainkit.wait(self.args.device)
            since = time.perf_counter()
            self.step()
            trainkit.wait(self.args.device)
            times.append((time.perf_counter() - since) * 1e3)
        return times

    def switch(self, pipeline):
        """(pause, preparing, steps before, steps meanwhile), milliseconds."""
        self.steps_ms(3)
        alone = statistics.median(self.steps_ms(6))
        meanwhile = alone
        if pipeline:
            coming = Pipeline(self.stages())
            seen = self.steps_ms(2)
            while not coming.ready:
                seen += self.steps_ms(1)
            meanwhile = statistics.mean(seen)
        last = self.task  # its workers are let go after the clock has stopped
        since = time.perf_counter()
        if pipeline:
            made, cost = coming.take()
        else:
            made, cost = without_pipeline(self.stages())
        self.task = self.swap(made)
        self.step()
        trainkit.wait(self.args.device)
        pause = (time.perf_counter() - since) * 1e3 - alone
        del last
        return pause, cost.prepare_s * 1e3, alone, meanwhile


def main():
    args = trainkit.arguments(__doc__.split("\n")[0], 240, rounds=7,
                              models="")
    if args.device == "cpu":
        torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    table = trainkit.Table(
        os.path.join(args.out, "switch.csv"),
        ["model", "pipeline", "rounds", "pause_ms", "pause_min_ms",
         "pause_max_ms", "prepare_ms", "step_ms", "step_meanwhile_ms"], args,
        "medians; pause: from the last step of a task to the end of the first "
        "of the next, less a step")
    for name in NAMES:
        if args.models and name not in args.models.split(","):
            continue
        bench = Bench(name, args)
        bench.switch(True)
        for pipeline in (False, True):
            rounds = []
            while len(rounds) < args.rounds and time.time() < args.deadline:
                rounds.append(bench.switch(pipeline))
            if not rounds:
                print("out of time before", name, flush=True)
                break
            pauses = [r[0] for r in rounds]
            table.row(name, "yes" if pipeline else "no", len(rounds),
                      statistics.median(pauses), min(pauses), max(pauses),
                      *(statistics.median(r[i] for r in rounds)
                        for i in (1, 2, 3)))
    table.close()


if __name__ == "__main__":
    main()
