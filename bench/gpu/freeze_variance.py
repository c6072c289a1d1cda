"""freeze_variance.py - what a frozen layer really costs, against IceFrog's (3).

IceFrog multiplies throughput by psi(l), the share of gradient variance in the
layers that still train, and pays 1/psi - 1 extra iterations for each one. This
script measures both sides on real data: the variance of each layer's gradient
during training, and how many iterations a training with frozen layers needs to
get as far as the same training without.

One unit is a task (freeze_tasks.py) and a seed. It trains T iterations at a
constant learning rate after a short warm-up (`base`), and keeps its state after
25, 50 and 75 % of T. From each state it goes on

  frozen    with the first 25, 50 or 75 % of the layers frozen, on the samples
            that `base` had, until the quality at the end of `base` is reached,
            at least as long as `base` went on and at most 1.5 times as long
  control   with nothing frozen on other samples: the noise of what is measured
  anneal    with the learning rate on a cosine to zero, frozen or not, for as
            long as `base` went on (`anneal`), and for 1/psi times as long, psi
            by (3) from the variances before the start (`anneal-paid`)

Why a constant rate: with a schedule that ends at T, a training that needs 1.3 T
would have to be run again with a longer one for each guess. Quality is that of
the weights' exponential mean over T/40 iterations, which stands for a lowered
rate; at the end of `anneal` it is that of the weights themselves.

Variance of a layer: for V micro-batches, sum over the layer's elements of
sum_v (g_v - mean)^2 / (V - 1), as in firn/gradstat.h; V = 16, at every 20th of
T, for all layers (frozen ones too: nothing reads that but the table). grad_sq
is |mean|^2 - variance / V, summed over all layers.

A step, the mean, the test and the probe are CUDA graphs, since the host could
not launch kernels of such small models fast enough. All units run at once,
each a process, under NVIDIA's MPS if it starts; so no time is read from them.

  times     step time and peak memory, alone on the GPU: launched by the host
            as a program usually is, and as a graph (time on the GPU only)

    python3 freeze_variance.py --data FOLDER --out OUT --seconds 560 \\
        --units resnet18:1,resnet18:2          # curves.csv, variance.csv
    python3 freeze_variance.py --times --data FOLDER --out OUT   # times.csv
    python3 freeze_variance.py --device cpu --tiny --data FOLDER --out OUT

FOLDER has the files of freeze_text.py and the four of Fashion-MNIST
(.gz, Debian package dataset-fashion-mnist).
"""
import argparse
import copy
import csv
import glob
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

import torch

import freeze_tasks

STARTS, SHARES = (0.5, 0.25, 0.75), (0.5, 0.25, 0.75)
LONGEST, EVALS, PROBES, MICROS = 1.5, 50, 20, 16
CURVE = ("task,seed,mode,start,share,frozen,layers,step,rate,train_loss,"
         "test_loss,accuracy,weights").split(",")
VARIANCE = ("task,seed,mode,start,share,frozen,layers,step,grad_sq,variance,"
            "by_layer").split(",")


class Graphed:
    """A function of no arguments, as a CUDA graph where there is CUDA."""

    def __init__(self, function, device, prepare=lambda: None):
        self.graph, self.function = None, function
        if device != "cuda":
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                prepare()
                function()
        torch.cuda.current_stream().wait_stream(side)
        prepare()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            function()

    def __call__(self):
        if self.graph is None:
            self.function()
        else:
            self.graph.replay()


class Sgd:
    """Momentum 0.9; the learning rate is a tensor, for graphs."""

    def __init__(self, params, decay, rate):
        self.decay, self.rate = decay, rate
        self.momentum = {p: torch.zeros_like(p) for p in params}
        self.state = list(self.momentum.values())

    @torch.no_grad()
    def step(self, params):
        buffers = [self.momentum[p] for p in params]
        grads = torch._foreach_add([p.grad for p in params], params,
                                   alpha=self.decay)
        torch._foreach_mul_(buffers, 0.9)
        torch._foreach_add_(buffers, grads)
        torch._foreach_sub_(params, torch._foreach_mul(buffers, self.rate))


class Adam:
    """AdamW with betas 0.9 and 0.98."""

    def __init__(self, params, decay, rate):
        self.decay, self.rate = decay, rate
        self.mean = {p: torch.zeros_like(p) for p in params}
        self.square = {p: torch.zeros_like(p) for p in params}
        self.count = torch.zeros((), device=rate.device)
        self.state = [*self.mean.values(), *self.square.values(), self.count]

    @torch.no_grad()
    def step(self, params):
        grads = [p.grad for p in params]
        mean = [self.mean[p] for p in params]
        square = [self.square[p] for p in params]
        self.count.add_(1)
        torch._foreach_lerp_(mean, grads, 0.1)
        torch._foreach_mul_(square, 0.98)
        torch._foreach_addcmul_(square, grads, grads, 0.02)
        below = torch._foreach_sqrt(square)
        torch._foreach_mul_(below, (1 - 0.98 ** self.count).rsqrt())
        torch._foreach_add_(below, 1e-8)
        move = torch._foreach_div(mean, below)
        torch._foreach_mul_(move, self.rate / (1 - 0.9 ** self.count))
        torch._foreach_mul_(params, 1 - self.rate * self.decay)
        torch._foreach_sub_(params, move)


class Training:
    """Model, optimizer, the weights' mean, and the graphs over them."""

    def __init__(self, task, seed, device, probes=True):
        self.task, self.seed, self.device = task, seed, device
        self.model = task.model.train()
        self.layers = freeze_tasks.leaves(self.model)
        self.params = list(self.model.parameters())
        self.rate = torch.tensor(task.rate, device=device)
        kind = Adam if task.adam else Sgd
        self.optimizer = kind(self.params, task.decay, self.rate)
        self.shadow = copy.deepcopy(self.model).eval().requires_grad_(False)
        self.lag = 40 / task.length
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.loss_sum = torch.zeros((), device=device)
        rows = int(2.7 * task.length)  # 3 x 75 % and a little
        g = torch.Generator(device).manual_seed(7000 + seed)
        self.order = self.draw(rows, g)
        self.other_order = self.draw(rows, g)
        self.now_order = self.order.clone()
        if probes:
            self.make_probe()
            self.make_test()

    def draw(self, rows, g):
        """Sample numbers of each step, epoch after epoch."""
        n, need = self.task.samples, rows * self.task.batch
        if n > need:
            drawn = torch.randint(0, n, (need,), generator=g, device=self.device)
        else:
            drawn = torch.cat([torch.randperm(n, generator=g,
                                              device=self.device)
                               for _ in range(need // n + 1)])[:need]
        return drawn.view(rows, -1)

    def floats(self, model):
        return [b for b in (*model.parameters(), *model.buffers())
                if b.is_floating_point()]

    def state(self):
        return [*self.floats(self.model), *self.floats(self.shadow),
                *self.optimizer.state]

    def save(self):
        return [x.detach().clone() for x in self.state()]

    @torch.no_grad()
    def load(self, saved):
        torch._foreach_copy_(self.state(), saved)

    # --- a step -----------------------------------------------------------

    def step(self):
        numbers = self.now_order.index_select(0, self.at)[0]
        loss = self.task.loss(self.model, *self.task.sample(numbers))
        loss.backward()
        self.optimizer.step(self.training)
        with torch.no_grad():
            torch._foreach_lerp_(self.floats(self.shadow),
                                 self.floats(self.model), self.lag)
            self.loss_sum.add_(loss.detach())
            self.at.add_(1)

    def no_grads(self):
        for p in self.params:
            p.grad = None

    def freeze(self, share):
        """Freezes the first layers and captures the step anew."""
        self.frozen = round(share * len(self.layers))
        for i, layer in enumerate(self.layers):
            layer.requires_grad_(i >= self.frozen)
        self.training = [p for p in self.params if p.requires_grad]
        saved = self.save()
        self.at.zero_()
        self.graph = None
        self.graph = Graphed(self.step, self.device, self.no_grads)
        self.load(saved)

    def steps(self, n):
        """n steps; returns their mean loss."""
        self.loss_sum.zero_()
        for _ in range(n):
            if self.graph.graph is None:
                self.no_grads()
            self.graph()
        return self.loss_sum.item() / n

    # --- the test and the probe ---------------------------------------------

    def make_test(self):
        self.score = torch.zeros(3, device=self.device, dtype=torch.double)

        @torch.no_grad()
        def test():
            self.score.zero_()
            for loss, right, n in self.task.tests(self.shadow):
                self.score[0] += loss
                self.score[1] += right
                self.score[2] += n

        self.run_test = Graphed(test, self.device)

    def test(self):
        """Loss and accuracy of the weights' mean."""
        self.run_test()
        loss, right, n = self.score.tolist()
        return loss / n, right / n

    def make_probe(self):
        """One micro-batch: its gradient into sums and squares by layer."""
        for layer in self.layers:
            layer.requires_grad_(True)
        owner = {p: i for i, layer in enumerate(self.layers)
                 for p in layer.parameters(recurse=False)}
        self.owner = torch.tensor([owner[p] for p in self.params],
                                  device=self.device)
        self.sums = [torch.zeros_like(p) for p in self.params]
        self.squares = torch.zeros(len(self.params), device=self.device,
                                   dtype=torch.double)
        self.numbers = torch.zeros(self.task.micro, dtype=torch.long,
                                   device=self.device)
        norms = [m for m in self.model.modules() if hasattr(m, "momentum")]
        was = [m.momentum for m in norms]
        for m in norms:
            m.momentum = 0.0

        def probe():
            loss = self.task.loss(self.model, *self.task.sample(self.numbers))
            grads = torch.autograd.grad(loss, self.params)
            with torch.no_grad():
                torch._foreach_add_(self.sums, grads)
                norm = torch.stack(torch._foreach_norm(grads))
                self.squares.add_(norm.double() ** 2)

        self.run_probe = Graphed(probe, self.device)
        self.norms = norms, was
        if self.device == "cuda":  # its momentum is part of the graph
            for m, x in zip(norms, was):
                m.momentum = x

    def probe(self, g):
        """|g|^2 of the whole gradient, and each layer's variance."""
        torch._foreach_zero_(self.sums)
        self.squares.zero_()
        norms, was = self.norms
        need = [(p, p.requires_grad) for p in self.params]
        if self.device != "cuda":
            for m in norms:
                m.momentum = 0.0
            for p in self.params:
                p.requires_grad_(True)
        for _ in range(MICROS):
            torch.randint(0, self.task.samples, (self.task.micro,), generator=g,
                          device=self.device, out=self.numbers)
            self.run_probe()
        if self.device != "cuda":
            for m, x in zip(norms, was):
                m.momentum = x
            for p, x in need:
                p.requires_grad_(x)
        whole = torch.stack(torch._foreach_norm(self.sums)).double() ** 2
        var = (self.squares - whole / MICROS) / (MICROS - 1)
        by_layer = torch.zeros(len(self.layers), device=self.device,
                               dtype=torch.double).index_add_(0, self.owner, var)
        total = var.sum().item()
        return whole.sum().item() / MICROS**2 - total / MICROS, by_layer.tolist()


class OutOfTime(Exception):
    pass


class Unit:
    """All trainings of a task and a seed."""

    def __init__(self, name, seed, args):
        self.args, self.name, self.seed = args, name, seed
        device = args.device
        task = freeze_tasks.build(name, args.data, device, seed, args.tiny)
        if name == "bert-tune":
            task.start(self.pretrained(task, device))
        self.t = Training(task, seed, device)
        self.length = task.length
        self.by_loss = task.by_loss
        self.probe_g = torch.Generator(device).manual_seed(9000 + seed)
        self.curves = open(self.path("curves"), "w", newline="")
        self.curve = csv.writer(self.curves, lineterminator="\n")
        self.probes = open(self.path("variance"), "w", newline="")
        self.variance = csv.writer(self.probes, lineterminator="\n")
        self.before = []  # (step, variances) of base

    def path(self, what):
        return os.path.join(self.args.out,
                            f"part-{what}-{self.name}-{self.seed}.csv")

    def pretrained(self, task, device):
        first = task.first()
        t = Training(first, self.seed, device, probes=False)
        t.freeze(0)
        torch.manual_seed(self.seed)
        for i in range(first.length // 20):
            t.rate.fill_(first.rate * min(1, (i + 1) / 2))
            t.steps(20)
        return t.shadow

    def key(self):
        t = self.t
        return [self.name, self.seed, self.mode, self.start, self.share,
                t.frozen, len(t.layers), self.step]

    def note(self, train_loss, weights="mean"):
        loss, accuracy = self.t.test()
        self.curve.writerow(self.key() + [
            f"{self.t.rate.item():.5g}", f"{train_loss:.6g}", f"{loss:.6g}",
            f"{accuracy:.6g}", weights])
        self.curves.flush()
        if time.time() > self.args.deadline:
            raise OutOfTime
        return -loss if self.by_loss else accuracy

    def look(self):
        grad_sq, by_layer = self.t.probe(self.probe_g)
        self.variance.writerow(self.key() + [
            f"{grad_sq:.5g}", f"{sum(by_layer):.5g}",
            " ".join(f"{v:.4g}" for v in by_layer)])
        self.probes.flush()
        return by_layer

    def begin(self, mode, start, share, order):
        """From a kept state; `base` from the first weights."""
        t = self.t
        self.mode, self.start, self.share = mode, start, share
        if start > 0:
            t.load(self.kept[start])
        t.freeze(share)
        self.step = round(start * self.length)
        t.now_order.copy_(order)
        t.at.fill_(self.step)
        t.rate.fill_(t.task.rate)
        torch.manual_seed(1000 * self.seed + round(100 * start) +
                          (500 if mode == "control" else 0))

    def base(self):
        T, t = self.length, self.t
        self.kept, marks = {}, {round(s * T): s for s in STARTS}
        self.begin("base", 0, 0, t.order)
        each, look = T // EVALS, T // PROBES
        quality = []
        for i in range(T // each):
            if self.step < T // 40:
                t.rate.fill_(t.task.rate * (self.step + each) / (T // 40))
            else:
                t.rate.fill_(t.task.rate)
            train_loss = self.advance(each, marks)
            if self.step // look > (self.step - each) // look:
                self.before.append((self.step, self.look()))
            quality.append(self.note(train_loss))
        self.target = statistics.mean(quality[-3:])

    def advance(self, n, marks):
        """n steps of `base`, keeping the states that are asked for."""
        loss, left = 0.0, n
        for at, start in sorted(marks.items()):
            if self.step < at <= self.step + left:
                loss += self.t.steps(at - self.step) * (at - self.step)
                left -= at - self.step
                self.step = at
                self.kept[start] = self.t.save()
                torch.manual_seed(1000 * self.seed + round(100 * start))
        if left:
            loss += self.t.steps(left) * left
            self.step += left
        return loss / n

    def go_on(self, mode, start, share):
        """A constant rate until the target is reached, within bounds."""
        t, T = self.t, self.length
        self.begin(mode, start, share,
                   t.other_order if mode == "control" else t.order)
        each, look, rest = T // EVALS, T // PROBES, T - self.step
        first, quality = self.step, []
        while self.step - first < LONGEST * rest:
            train_loss = t.steps(each)
            self.step += each
            if self.step // look > (self.step - each) // look:
                self.look()
            quality.append(self.note(train_loss))
            if self.step - first >= rest and \
                    statistics.mean(quality[-3:]) >= self.target:
                break

    def psi(self, start, share):
        """(3) at the start, by the mean of the last three probes before."""
        probes = [v for at, v in self.before if at <= start * self.length][-3:]
        frozen = round(share * len(self.t.layers))
        front = sum(max(0, x) for v in probes for x in v[:frozen])
        rest = sum(max(0, x) for v in probes for x in v[frozen:])
        return rest / (front + rest)

    def anneal(self, mode, start, share):
        t = self.t
        longer = 1 / max(self.psi(start, share), 1 / 3) if mode == "anneal-paid" else 1
        self.begin(mode, start, share, t.order)
        each = self.length // EVALS
        n = max(1, round((self.length - self.step) * longer / each))
        for i in range(n):
            t.rate.fill_(t.task.rate * (1 + math.cos(math.pi * (i + 0.5) / n)) / 2)
            train_loss = t.steps(each)
            self.step += each
            if (i + 1) % 5 == 0 and i + 1 < n:
                self.note(train_loss)
        self.look()
        with torch.no_grad():
            torch._foreach_copy_(t.floats(t.shadow), t.floats(t.model))
        self.note(train_loss, "own")

    def plan(self):
        """What matters most comes first: time may run out."""
        for start in STARTS:
            for share in SHARES:
                yield self.go_on, "frozen", start, share
        for start in (0.5,) if self.args.short else STARTS:
            yield self.go_on, "control", start, 0
            yield self.anneal, "anneal", start, 0
            for share in (0.25, 0.5):
                yield self.anneal, "anneal", start, share
                yield self.anneal, "anneal-paid", start, share
            yield self.anneal, "anneal", start, 0.75

    def all(self):
        done = self.args.without.split(",")
        self.base()
        for run, mode, start, share in self.plan():
            if f"{mode}:{start}:{share}" not in done:
                run(mode, start, share)


# --- step times ----------------------------------------------------------------

def median_ms(call, n):
    """Median time of a call on the device, after some to warm up."""
    times = []
    for i in range(n + 4):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        torch.cuda.synchronize()
        marks[0].record()
        call()
        marks[1].record()
        torch.cuda.synchronize()
        times.append(marks[0].elapsed_time(marks[1]))
    return statistics.median(times[4:])


def times(args):
    """Step time and memory by frozen share, with no other process."""
    with open(os.path.join(args.out, "times.csv"), "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow("task,batch,share,frozen,layers,host_ms,graph_ms,"
                     "peak_alloc_mib".split(","))
        for name in freeze_tasks.TASKS:
            task = freeze_tasks.build(name, args.data, args.device, 1, False)
            t = Training(task, 1, args.device, probes=False)

            def plain():
                t.no_grads()
                loss = task.loss(t.model, *task.sample(t.now_order[0]))
                loss.backward()
                t.optimizer.step(t.training)

            for share in (0, 0.25, 0.5, 0.75):
                t.freeze(share)
                graph_ms = median_ms(t.graph, 25)
                t.graph = None
                torch.cuda.empty_cache()
                plain()
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                host_ms = median_ms(plain, 25)
                peak = torch.cuda.max_memory_allocated() / 2**20
                out.writerow([name, task.batch, share, t.frozen, len(t.layers),
                              f"{host_ms:.4g}", f"{graph_ms:.4g}", f"{peak:.1f}"])
                f.flush()
                print(name, share, f"host {host_ms:.3f} ms, graph "
                      f"{graph_ms:.3f} ms, {peak:.0f} MiB", flush=True)
            del t, task, plain
            torch.cuda.empty_cache()


# --- units in parallel -----------------------------------------------------------

def mps(start):
    """NVIDIA's Multi-Process Service: kernels of processes run side by side."""
    found = shutil.which("nvidia-cuda-mps-control") or next(iter(
        glob.glob("/usr/local/*/bin/nvidia-cuda-mps-control")), None)
    if found is None:
        return False
    try:
        if start:
            return subprocess.run([found, "-d"]).returncode == 0
        subprocess.run([found], input="quit\n", text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        pass
    return False


def merge(args, units):
    """The parts of all units as one table each, provenance on top."""
    head = [f"device: {torch.cuda.get_device_name(0) if args.device == 'cuda' else 'cpu'}",
            f"torch: {torch.__version__}, CUDA {torch.version.cuda}",
            "command: python3 freeze_variance.py --data DATA --out OUT "
            f"--seconds {args.seconds:g} --units {args.units}" +
            (f" --without {args.without}" if args.without else "") +
            (" --short" if args.short else ""),
            f"date: {time.strftime('%Y-%m-%d', time.gmtime())}"]
    for what, columns in (("curves", CURVE), ("variance", VARIANCE)):
        with open(os.path.join(args.out, what + ".csv"), "w") as out:
            out.writelines(f"# {line}\n" for line in head)
            out.write(",".join(columns) + "\n")
            for name, seed in units:
                part = os.path.join(args.out, f"part-{what}-{name}-{seed}.csv")
                if os.path.exists(part):
                    with open(part) as f:
                        out.write(f.read())
                    os.remove(part)


def parallel(args):
    units = [(u.split(":")[0], int(u.split(":")[1]))
             for u in args.units.split(",")]
    has_mps = args.device == "cuda" and mps(True)
    print("MPS:", "yes" if has_mps else "no", flush=True)
    running = []
    for name, seed in units:
        command = [sys.executable, os.path.abspath(__file__), "--unit",
                   f"{name}:{seed}", "--data", args.data, "--out", args.out,
                   "--seconds", str(args.deadline - time.time()), "--device",
                   args.device, "--without", args.without]
        command += (["--tiny"] if args.tiny else []) + \
            (["--short"] if args.short else [])
        running.append((name, seed, subprocess.Popen(command)))
        if args.device != "cuda":
            running[-1][2].wait()
    for name, seed, process in running:
        process.wait()
    if has_mps:
        mps(False)
    merge(args, units)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--units", default=",".join(
        f"{task}:{seed}" for seed in (1, 2, 3) for task in freeze_tasks.TASKS))
    parser.add_argument("--unit", default="", help="one, in this process")
    parser.add_argument("--without", default="",
                        help="trainings to leave out: mode:start:share,...")
    parser.add_argument("--short", action="store_true",
                        help="control and anneal from 50 %% only")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    args.deadline = time.time() + args.seconds
    os.makedirs(args.out, exist_ok=True)
    torch.set_num_threads(1)
    if args.times:
        return times(args)
    if not args.unit:
        return parallel(args)
    name, seed = args.unit.split(":")
    begin = time.time()
    try:
        Unit(name, int(seed), args).all()
        print(args.unit, "is complete after", round(time.time() - begin), "s",
              flush=True)
    except OutOfTime:
        print(args.unit, "ran out of time", flush=True)


if __name__ == "__main__":
    main()
