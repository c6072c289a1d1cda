"""trainkit.py - what the train_*.py scripts share: the library, tables, time.

Each script runs on a GPU machine or, with --device cpu --tiny, anywhere. It
writes a CSV whose first lines say where its numbers come from, ends by itself
after --seconds, and leaves the rows so far.
"""
import argparse
import csv
import os
import platform
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "python"))

# cuBLAS asks for this before CUDA starts; without it sums may vary.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def find_library():
    """Builds libfirn_train.so where it is not there yet."""
    if os.environ.get("FIRN_TRAIN_LIB"):
        return
    built = os.path.join(ROOT, "build", "libfirn_train.so")
    if not os.path.exists(built):
        import build_lib
        from pathlib import Path
        built = str(build_lib.build(Path(ROOT, "build", "py",
                                         "libfirn_train.so")))
    os.environ["FIRN_TRAIN_LIB"] = built


def arguments(what, seconds, **more):
    """The options that all scripts have, and some of their own."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seconds", type=float, default=seconds)
    for name, default in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default),
                            default=default)
    args = parser.parse_args()
    args.deadline = time.time() + args.seconds
    return args


def describe(device):
    """The device in words."""
    import torch
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(0)
    return f"CPU, {platform.machine()}, {torch.get_num_threads()} threads"


def command():
    """This program's command line, without the folder that it lies in."""
    return " ".join(["python3", os.path.basename(sys.argv[0]), *sys.argv[1:]])


class Table:
    """A CSV with its provenance, also printed as it grows."""

    def __init__(self, path, columns, args, note=""):
        import torch
        self._file = open(path, "w", newline="")
        head = [f"device: {describe(args.device)}",
                f"torch: {torch.__version__}, CUDA {torch.version.cuda}, "
                f"Python {platform.python_version()}",
                f"command: {command()}",
                f"date: {time.strftime('%Y-%m-%d', time.gmtime())}"]
        for line in head + ([note] if note else []):
            self._file.write(f"# {line}\n")
            print("#", line, flush=True)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self.row(*columns)

    def row(self, *values):
        shown = [f"{v:.6g}" if isinstance(v, float) else v for v in values]
        self._writer.writerow(shown)
        self._file.flush()
        print(",".join(map(str, shown)), flush=True)

    def close(self):
        self._file.close()


def deterministic():
    """One result for one input: what D0 and D1 ask of a device. Not with
    warn_only: attention then keeps its backward pass that varies."""
    import torch
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def wait(device):
    """Until the device has done all it was given."""
    import torch
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def whole(batch):
    """A collate for data sets that hand out whole batches."""
    return batch


find_library()
