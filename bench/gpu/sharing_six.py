"""sharing_six.py - the six applications of Pollux and SJF-BSBF on one GPU.

Writes two tables:

  six_alone.csv   each application at its batch on a GPU and at sub-batches
                  1/2, 1/4, ... of it: seconds of a pass, seconds of a whole
                  step (all passes and the update), peak memory of PyTorch's
                  allocator, memory of the process on the GPU
  six_pairs.csv   two training processes on the one GPU (time slicing): the
                  host at its whole batch, the guest in 1, 2 or 4 passes of a
                  step; steps a second alone and together, xi = alone/together

Models have random weights and random data that lie on the GPU: no input
pipeline is measured. cifar10: ResNet-18, 32x32. imagenet: ResNet-50, 224x224.
yolov3: Darknet-53 and three heads, 416x416. bert: BERT-base with a span head,
384 tokens. deepspeech2: two convolutions, five bidirectional LSTMs of 800, CTC,
3 s of sound. ncf: NeuMF with 32 factors on MovieLens-1M's 6040 users and 3706
items. All in fp32 with PyTorch's defaults, SGD with momentum (Adam: bert, ncf).

    python3 sharing_six.py OUT            # SECONDS_MAX=540 by default
    python3 sharing_six.py OUT --tiny     # a smoke test, also without a GPU
"""
import csv
import itertools
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = "--tiny" in sys.argv
# Samples on one GPU, as in Pollux's workloads (bert and yolov3: the largest
# pass that an 11 GB card holds).
APPS = [("ncf", 32768), ("cifar10", 256), ("deepspeech2", 40), ("yolov3", 8),
        ("bert", 12), ("imagenet", 128)]
PASSES = (1, 2, 4)
FIRST_S, PAIR_S = (0.8, 1.6) if not TINY else (0.3, 0.6)


def device():
    import torch
    return "cuda" if torch.cuda.is_available() else "cpu"


def conv(nin, n, size, stride=1):
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(nin, n, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(n), nn.LeakyReLU(0.1, inplace=True))


def build_yolo():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.a, self.b = conv(n, n // 2, 1), conv(n // 2, n, 3)

        def forward(self, x):
            return x + self.b(self.a(x))

    class Yolo(nn.Module):
        def __init__(self, width=32, counts=(1, 2, 8, 8, 4), out=75):
            super().__init__()
            n = width
            self.stem, self.stages = conv(3, n, 3), nn.ModuleList()
            for k in counts:
                self.stages.append(nn.Sequential(
                    conv(n, 2 * n, 3, 2), *[Block(2 * n) for _ in range(k)]))
                n *= 2
            self.necks, self.heads, self.ups = (nn.ModuleList() for _ in "abc")
            come = n
            for level in range(3):
                mid = n // 2
                self.necks.append(nn.Sequential(
                    conv(come, mid, 1), conv(mid, n, 3), conv(n, mid, 1),
                    conv(mid, n, 3), conv(n, mid, 1)))
                self.heads.append(nn.Sequential(
                    conv(mid, n, 3), nn.Conv2d(n, out, 1)))
                self.ups.append(conv(mid, mid // 2, 1))
                come, n = mid // 2 + n // 2, n // 2

        def forward(self, x):
            x = self.stem(x)
            kept = []
            for stage in self.stages:
                x = stage(x)
                kept.append(x)
            outs, x = [], kept[-1]
            for level in range(3):
                x = self.necks[level](x)
                outs.append(self.heads[level](x))
                if level < 2:
                    x = nn.functional.interpolate(self.ups[level](x),
                                                  scale_factor=2)
                    x = torch.cat([x, kept[-2 - level]], 1)
            return outs

    return Yolo(4, (1, 1, 1, 1, 1)) if TINY else Yolo()


def build_speech():
    from torch import nn

    class Speech(nn.Module):
        def __init__(self, hidden, layers):
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)),
                nn.BatchNorm2d(32), nn.Hardtanh(0, 20, inplace=True),
                nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
                nn.BatchNorm2d(32), nn.Hardtanh(0, 20, inplace=True))
            self.rnns = nn.ModuleList(
                nn.LSTM(32 * 41 if i == 0 else hidden, hidden,
                        bidirectional=True) for i in range(layers))
            self.norms = nn.ModuleList(nn.BatchNorm1d(hidden)
                                       for _ in range(layers))
            self.out = nn.Linear(hidden, 29)

        def forward(self, x):
            x = self.conv(x)
            b, c, f, t = x.shape
            x = x.reshape(b, c * f, t).permute(2, 0, 1)
            for rnn, norm in zip(self.rnns, self.norms):
                x, _ = rnn(x)
                x = x[..., :x.shape[-1] // 2] + x[..., x.shape[-1] // 2:]
                x = norm(x.reshape(t * b, -1)).reshape(t, b, -1)
            return self.out(x)

    return Speech(16, 2) if TINY else Speech(800, 5)


def build_ncf():
    import torch
    from torch import nn

    class NeuMF(nn.Module):
        def __init__(self, users=6040, items=3706, k=32):
            super().__init__()
            self.ug, self.ig = nn.Embedding(users, k), nn.Embedding(items, k)
            self.um, self.im = (nn.Embedding(users, 4 * k),
                                nn.Embedding(items, 4 * k))
            self.mlp = nn.Sequential(
                nn.Linear(8 * k, 4 * k), nn.ReLU(), nn.Linear(4 * k, 2 * k),
                nn.ReLU(), nn.Linear(2 * k, k), nn.ReLU())
            self.out = nn.Linear(2 * k, 1)

        def forward(self, u, i):
            deep = self.mlp(torch.cat([self.um(u), self.im(i)], 1))
            return self.out(torch.cat([self.ug(u) * self.ig(i), deep],
                                      1)).squeeze(1)

    return NeuMF()


class Job:
    """One application: a model, random data, an update in several passes."""

    def __init__(self, app, batch, passes):
        import torch
        self.app, self.passes = app, passes
        self.sub = max(1, batch // passes)
        make = getattr(self, "make_" + app)
        self.model, self.data = make(self.sub, device())
        self.model.to(device()).train()
        kind = torch.optim.Adam if app in ("bert", "ncf") else torch.optim.SGD
        more = {} if kind is torch.optim.Adam else {"momentum": 0.9}
        self.optimizer = kind(self.model.parameters(), lr=1e-5, **more)

    @staticmethod
    def image(net, b, side, classes, where):
        import torch
        import torchvision.models as zoo
        model = getattr(zoo, net)(weights=None, num_classes=classes)
        x = torch.randn(b, 3, side, side, device=where)
        y = torch.randint(0, classes, (b,), device=where)
        return model, (x, y)

    def make_cifar10(self, b, where):
        return self.image("resnet18", b, 32, 10, where)

    def make_imagenet(self, b, where):
        return self.image("resnet18" if TINY else "resnet50", b,
                          64 if TINY else 224, 1000, where)

    def make_yolov3(self, b, where):
        import torch
        side = 64 if TINY else 416
        return build_yolo(), (torch.randn(b, 3, side, side, device=where),)

    def make_deepspeech2(self, b, where):
        import torch
        frames = 60 if TINY else 300
        x = torch.randn(b, 1, 161, frames, device=where)
        y = torch.randint(1, 29, (b, 40 if not TINY else 5), device=where)
        return build_speech(), (x, y)

    def make_ncf(self, b, where):
        import torch
        u = torch.randint(0, 6040, (b,), device=where)
        i = torch.randint(0, 3706, (b,), device=where)
        return build_ncf(), (u, i, torch.rand(b, device=where))

    def make_bert(self, b, where):
        import torch
        from transformers import BertConfig, BertForQuestionAnswering
        small = dict(hidden_size=64, num_hidden_layers=2,
                     num_attention_heads=2, intermediate_size=128)
        model = BertForQuestionAnswering(
            BertConfig(**(small if TINY else {})))
        seq = 32 if TINY else 384
        x = torch.randint(0, 30522, (b, seq), device=where)
        return model, (x, torch.randint(0, seq, (b,), device=where))

    def loss(self):
        import torch.nn.functional as F
        import torch
        m, d = self.model, self.data
        if self.app in ("cifar10", "imagenet"):
            return F.cross_entropy(m(d[0]), d[1])
        if self.app == "yolov3":
            return sum(o.square().mean() for o in m(d[0]))
        if self.app == "ncf":
            return F.binary_cross_entropy_with_logits(m(d[0], d[1]), d[2])
        if self.app == "bert":
            return m(input_ids=d[0], start_positions=d[1],
                     end_positions=d[1]).loss
        out = m(d[0]).log_softmax(-1)
        t, b = out.shape[0], out.shape[1]
        return F.ctc_loss(out, d[1], torch.full((b,), t, dtype=torch.long),
                          torch.full((b,), d[1].shape[1], dtype=torch.long),
                          zero_infinity=True)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        for _ in range(self.passes):
            (self.loss() / self.passes).backward()
        self.optimizer.step()


def sync():
    import torch
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def memory():
    """Peak of the allocator and memory of the process on the GPU, in MiB."""
    import torch
    if not torch.cuda.is_available():
        return 0, 0, 0
    free, total = torch.cuda.mem_get_info()
    mib = 2 ** 20
    return (torch.cuda.max_memory_allocated() // mib,
            torch.cuda.max_memory_reserved() // mib, (total - free) // mib)


def worker():
    """Reads JSON commands, one a line: build a job, run it for a while."""
    import gc
    import torch
    job = None
    for line in sys.stdin:
        c = json.loads(line)
        if c["do"] == "build":
            job = None
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            job = Job(c["app"], c["batch"], c["passes"])
            for _ in range(4):
                job.step()
            sync()
            print(json.dumps({"memory": memory()}), flush=True)
            continue
        time.sleep(max(0.0, c["begin"] - time.time()))
        n, first, last = 0, None, None
        while time.time() < c["end"]:
            job.step()
            sync()
            now = time.time()
            if now > c["begin"] + 0.2 and now < c["end"] - 0.1:
                first = first or now
                last, n = now, n + 1
        rate = (n - 1) / (last - first) if n > 2 else 0.0
        print(json.dumps({"rate": rate}), flush=True)


class Worker:
    def __init__(self):
        self.p = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "worker"] +
            (["--tiny"] if TINY else []), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=HERE)
        self.built = None

    def send(self, **c):
        self.p.stdin.write(json.dumps(c) + "\n")
        self.p.stdin.flush()

    def get(self):
        return json.loads(self.p.stdout.readline())

    def build(self, app, batch, passes):
        if self.built == (app, batch, passes):
            return
        self.built = (app, batch, passes)
        self.send(do="build", app=app, batch=batch, passes=passes)
        self.memory = self.get()["memory"]


def run(workers, seconds):
    begin = time.time() + 0.05
    for w in workers:
        w.send(do="run", begin=begin, end=begin + seconds)
    return [w.get()["rate"] for w in workers]


def measure_alone(out, w):
    for app, batch in APPS:
        passes = 1
        while batch // passes >= 1 and passes <= 16:
            w.build(app, batch, passes)
            rate = run([w], FIRST_S)[0]
            out.writerow([app, batch, passes, batch // passes,
                          round(rate, 4)] + list(w.memory))
            passes *= 2


def measure_pairs(out, ws, deadline, f):
    """Guests at the whole batch first, so that a short run has all pairs."""
    rates = {}
    for passes in PASSES:
        for (host, hb), (guest, gb) in itertools.product(APPS, APPS):
            if gb // passes < 1 or (
                    passes == 1 and APPS.index((guest, gb)) <
                    APPS.index((host, hb))):
                continue  # whole batches: both orders at once
            if time.time() > deadline:
                print("out of time at", host, guest, passes, flush=True)
                return
            ws[0].build(host, hb, 1)
            ws[1].build(guest, gb, passes)
            for w, key in ((ws[0], (host, 1)), (ws[1], (guest, passes))):
                if key not in rates:
                    rates[key] = run([w], FIRST_S)[0]
            alone = [rates[(host, 1)], rates[(guest, passes)]]
            both = run(ws, PAIR_S)
            xi = [a / b if b else float("nan") for a, b in zip(alone, both)]
            out.writerow([host, hb, guest, gb, passes] +
                         [round(x, 4) for x in alone + both] +
                         [round(x, 4) for x in xi])
            f.flush()


def main():
    out = next((a for a in sys.argv[1:] if not a.startswith("-")),
               os.environ.get("OUT", "."))
    deadline = time.time() + float(os.environ.get("SECONDS_MAX", "540"))
    ws = [Worker(), Worker()]
    with open(os.path.join(out, "six_alone.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow("app,batch,passes,sub_batch,steps_per_s,peak_alloc_mib,"
                   "peak_reserved_mib,gpu_used_mib".split(","))
        measure_alone(w, ws[0])
    with open(os.path.join(out, "six_pairs.csv"), "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow("host,host_batch,guest,guest_batch,guest_passes,"
                   "host_alone_it_s,guest_alone_it_s,host_shared_it_s,"
                   "guest_shared_it_s,xi_host,xi_guest".split(","))
        measure_pairs(w, ws, deadline, f)
    for w in ws:
        w.p.stdin.close()
        w.p.wait(timeout=30)


if len(sys.argv) > 1 and sys.argv[1] == "worker":
    worker()
else:
    main()
