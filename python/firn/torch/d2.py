"""Can this model guarantee D2: the same bits on every type of processor?

    verdict = d2.check(model, x, loss=lambda out: loss_fn(out, y))
    if not verdict:
        print(verdict)

Two questions. Is this process set up for D2: on the CPU, our own matrix
products loaded, oneDNN off, ATen's code path pinned? And does a forward and
backward pass of the model use nothing but operators that were seen to have the
same bits under all of that? An operator that was never tested is reported as
unknown, which is no guarantee. The list below is what docs/determinism.md measured.

From a shell, for a function that returns the model and its inputs:

    python3 -m firn.torch.d2 train.py:example

The last line it prints is the verdict as a job file has it, elastic.scan. Exit
status 0 if the scan passed, 1 if it failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

#: Sums by our products (directly, or as convolutions without oneDNN).
PRODUCTS = set(
    "mm addmm bmm baddbmm addmv mv dot addbmm convolution convolution_backward"
    " convolution_overrideable _slow_conv2d_forward _slow_conv2d_backward"
    " slow_conv_dilated2d linear matmul".split()
)
#: Kernels that GPU vendors tune for each GPU type: EasyScale keeps models that
#: rely on them on one type (3.3).
VENDOR = set(
    "convolution convolution_backward convolution_overrideable cudnn_convolution"
    " cudnn_convolution_transpose cudnn_batch_norm miopen_convolution"
    " _cudnn_rnn _cudnn_rnn_backward".split()
)
#: The same in every set-up that was tried.
STEADY = set(
    "native_batch_norm native_batch_norm_backward native_layer_norm"
    " native_layer_norm_backward _native_batch_norm_legit cudnn_batch_norm"
    " _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data"
    " nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward"
    " max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d"
    " avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward"
    " native_dropout native_dropout_backward embedding embedding_dense_backward"
    " relu relu_ threshold_backward gelu tanh tanh_backward sigmoid"
    " sigmoid_backward exp log sqrt rsqrt pow neg abs erf add add_ sub sub_ mul"
    " mul_ div div_ where masked_fill masked_fill_ clamp maximum minimum"
    " bernoulli_ sum mean sum_to_size mse_loss mse_loss_backward eq ne lt le gt"
    " ge logical_and logical_not argmax".split()
)
#: Only move or make memory.
MOVES = set(
    "view _unsafe_view reshape as_strided expand permute transpose t slice"
    " slice_backward select select_backward cat split split_with_sizes stack"
    " squeeze unsqueeze detach clone copy_ _to_copy alias empty empty_like"
    " new_empty zeros zeros_like new_zeros ones ones_like full full_like fill_"
    " zero_ arange tril triu index gather scatter unbind repeat contiguous"
    " unfold flatten index_select lift_fresh scalar_tensor _reshape_alias"
    " constant_pad_nd new_empty_strided empty_strided".split()
)
#: Seen to vary, and why.
VARIES = {
    "gelu_backward": "its bits go with oneDNN",
    "randn": "normal numbers go with ATen's code path",
    "normal_": "normal numbers go with ATen's code path",
    "linalg_solve_ex": "LAPACK is not ours",
    "_linalg_solve_ex": "LAPACK is not ours",
    "linalg_lu_factor_ex": "LAPACK is not ours",
    "linalg_inv_ex": "LAPACK is not ours",
    "linalg_cholesky_ex": "LAPACK is not ours",
    "linalg_qr": "LAPACK is not ours",
    "_linalg_svd": "LAPACK is not ours",
    "_fft_r2c": "the FFT library is not ours",
    "_fft_c2c": "the FFT library is not ours",
}


@dataclass
class Verdict:
    """True if D2 is guaranteed; its text says why not."""

    setup: list[str] = field(default_factory=list)
    varies: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    @property
    def vendor(self) -> list[str]:
        """Operators whose kernels a vendor tunes for each type of GPU."""
        return [name for name in self.seen if name in VENDOR]

    @property
    def scan(self) -> str:
        """The verdict as a job file has it: elastic.scan."""
        return "passed" if self else "failed"

    def __bool__(self) -> bool:
        return not (self.setup or self.varies or self.unknown)

    def __str__(self) -> str:
        if self:
            return f"D2 may be used: {len(self.seen)} operators, all steady"
        lines = ["D2 may not be used:"]
        lines += [f"  set-up: {text}" for text in self.setup]
        lines += [f"  operator {name}: {why}" for name, why in self.varies.items()]
        lines += [f"  operator {name}: not known to be steady" for name in self.unknown]
        if self.setup and self.vendor:
            names = ", ".join(self.vendor)
            lines.append(f"  {names}: on GPUs these rely on kernels of the vendor")
        return "\n".join(lines)


class _Recorder(TorchDispatchMode):
    """Notes the operators that run inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.add(func._schema.name.split("::")[-1])
        return func(*args, **(kwargs or {}))


def setup_problems(model: nn.Module) -> list[str]:
    """What in this process prevents D2; empty: nothing."""
    found = []
    devices = {p.device.type for p in model.parameters()}
    if devices - {"cpu"}:
        found.append(f"parameters are on {', '.join(sorted(devices))}, not the CPU")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        if "libfirn_d2" not in maps.read():
            found.append("libfirn_d2.so is not loaded (LD_PRELOAD)")
    if torch.backends.mkldnn.is_available() and _mkldnn_is_on():
        found.append("oneDNN is on (torch.backends.mkldnn.flags(enabled=False))")
    if (
        torch.backends.cpu.get_cpu_capability().lower() != "default"
        if hasattr(torch.backends, "cpu")
        else os.environ.get("ATEN_CPU_CAPABILITY") != "default"
    ):
        found.append("ATen's code path is not pinned (ATEN_CPU_CAPABILITY=default)")
    return found


def _mkldnn_is_on() -> bool:
    """The flag that turns it off; its place depends on the version."""
    probe = getattr(torch._C, "_get_mkldnn_enabled", None)
    return bool(probe()) if probe else True


def check(
    model: nn.Module,
    *inputs: Any,
    loss: Callable[[Any], torch.Tensor] | None = None,
) -> Verdict:
    """Runs one forward and backward pass and judges what it used.

    ``loss`` makes a number of the output; the sum of the output when None.
    Gradients, buffers and generators are as before afterwards.
    """
    grads = [p.grad for p in model.parameters()]
    buffers = [b.detach().clone() for b in model.buffers()]
    random = torch.get_rng_state()
    recorder = _Recorder()
    try:
        with recorder:
            out = model(*inputs)
            (out.sum() if loss is None else loss(out)).backward()
    finally:
        torch.set_rng_state(random)
        for b, kept in zip(model.buffers(), buffers):
            b.data.copy_(kept)
        for p, kept in zip(model.parameters(), grads):
            p.grad = kept
    verdict = Verdict(setup=setup_problems(model), seen=sorted(recorder.names))
    for name in verdict.seen:
        if name in VARIES:
            verdict.varies[name] = VARIES[name]
        elif name not in PRODUCTS | STEADY | MOVES:
            verdict.unknown.append(name)
    return verdict


def load(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """FILE.py:FUNCTION, which returns (model, input, ...)."""
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("firn_d2_scanned", path)
    if not function or spec is None or spec.loader is None:
        raise SystemExit(f"'{name}' is not FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, *inputs = getattr(module, function)()
    return model, tuple(inputs)


def main(args: list[str] | None = None) -> int:
    """python3 -m firn.torch.d2 FILE.py:FUNCTION"""
    parser = argparse.ArgumentParser(
        prog="python3 -m firn.torch.d2",
        description="Scans a model: may it be trained on several GPU types?",
    )
    parser.add_argument(
        "example", help="FILE.py:FUNCTION, which returns the model and its inputs"
    )
    model, inputs = load(parser.parse_args(args).example)
    verdict = check(model, *inputs)
    print(verdict)
    print(f"elastic: {{consistency: D2, scan: {verdict.scan}}}")
    return 0 if verdict else 1


if __name__ == "__main__":
    sys.exit(main())
