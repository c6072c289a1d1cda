"""An elastic job for spares.sh that trains until it is cancelled: ResNet50, BERT-base
or GPT-2 small, two threads. Its processes share one GPU, whatever they are given.

    python3 spares_job.py --model gpt2-small
    python3 spares_job.py --model resnet50 --device cpu --tiny
"""
import os

import trainkit
import torch
from models import RandomData, build, loss_of

import firn.ahead
from firn.torch import Elastic

args = trainkit.arguments(__doc__.split("\n")[0], 600, model="resnet50")
torch.set_num_threads(1)
model, batch = build(args.model, args.tiny, "cpu")
firn.ahead.wait()
if args.device == "cuda":
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
model.to(args.device)
data = RandomData(args.model, 8 * batch, args.device, args.tiny, times=1 << 20)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
job = Elastic(model, optimizer, data, threads=2, batch_size=batch, epochs=1,
              through="memory", collate=trainkit.whole)
for x, y in job:
    job.backward(loss_of(model(x), y))
job.close()
