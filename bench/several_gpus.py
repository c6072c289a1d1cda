#!/usr/bin/env python3
"""several_gpus.py - what summing gradients over several GPUs would take.

    PYTHONPATH=python python3 bench/several_gpus.py

Nothing here is measured on several GPUs: the times are computed. Bytes that each
process sends follow from the placement (firn.torch.exchange.bytes_sent, V = 8
threads, even layouts); divided by the rate of the link they are the least time
that the messages take. The additions of a process's slice read P parts and write
one, at the rate of firn's kernel on an H200 (docs/measurements/h200/fold.csv). A
ring all-reduce sends 2 (P - 1) / P gradients over the same link. The time of one
thread's forward and backward pass on an H200 stands beside it: an eighth of a step of
the plain loop with V = 8 (elastic_overhead_tree.csv).
"""

from __future__ import annotations

from firn.group import even_layout
from firn.torch.exchange import bytes_sent

V = 8
ADD_BYTES_S = 4.0e12
LINKS = {"NVLink, 450 GB/s": 450e9, "network, 50 GB/s": 50e9}
# name: parameters, ms of one thread
MODELS = {
    "ResNet50": (25_557_032, 168.185 / 8),
    "BERT-base": (132_036_096, 555.466 / 8),
    "GPT-2 small": (162_447_360, 387.399 / 8),
}


def exchange_ms(nparams: int, nprocs: int, rate: float) -> tuple[float, float]:
    """Milliseconds of the slowest process by firn's exchange, and of a ring."""
    nbytes = 4 * nparams
    sent = max(bytes_sent(even_layout(V, nprocs)))
    adds = (nprocs + 1) / nprocs * nbytes / ADD_BYTES_S
    ring = 2 * (nprocs - 1) / nprocs * nbytes / rate
    return 1e3 * (sent * nbytes / rate + adds), 1e3 * ring


def main() -> None:
    """The table of docs/training.md."""
    print("| model | link | P = 2 | P = 4 | P = 8 | forward and backward of a thread |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name, (nparams, thread_ms) in MODELS.items():
        for link, rate in LINKS.items():
            cells = []
            for nprocs in (2, 4, 8):
                ours, ring = exchange_ms(nparams, nprocs, rate)
                cells.append(f"{ours:.2f} ({ring:.2f})")
            print(f"| {name} | {link} | {' | '.join(cells)} | {thread_ms:.0f} |")


if __name__ == "__main__":
    main()
