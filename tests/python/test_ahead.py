"""A process that is started early waits for its GPUs, and trains the same bits."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import firn.ahead

SCRIPT = '''
import os, sys
import torch
import firn.ahead
from scene import Noisy, network
from farm import digest
from firn.torch import Elastic
from torch.nn.functional import cross_entropy

model, data = network(), Noisy()
if "wait" in sys.argv:
    was_early = firn.ahead.wait()
    assert was_early == ("early" in sys.argv), was_early
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
elastic = Elastic(model, optimizer, data, threads=2, batch_size=3, epochs=1,
                  seed=11)
for x, y in elastic:
    elastic.backward(cross_entropy(model(x), y))
assert ("ahead" in elastic.can()) == bool({"wait", "early"} & set(sys.argv))
print(os.environ["FIRN_JOB"], "FIRN_GATE" in os.environ,
      os.environ.get("CUDA_VISIBLE_DEVICES"), digest(*model.state_dict().values()))
elastic.close()
'''


def start(words: list[str], environment: dict, **more: object) -> subprocess.Popen:
    """The script above, in a process of its own."""
    here = Path(__file__).resolve().parent
    environment = dict(environment, PYTHONPATH=f"{here.parent.parent}/python:{here}")
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def opening(environment: dict) -> bytes:
    """The message that opens a gate: wire/aheadgate.h."""
    block = b"".join(f"{k}={v}\0".encode() for k, v in environment.items())
    now = time.monotonic()
    return struct.pack("=Qd", len(block), now) + block


class Ahead(unittest.TestCase):
    """Starts with and without preparation."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        keep = ("PATH", "HOME", "LD_LIBRARY_PATH", "FIRN_BUILD", "FIRN_TRAIN_LIB")
        self.usual = {k: os.environ[k] for k in keep if k in os.environ}
        self.usual |= {"OMP_NUM_THREADS": "1", "TMPDIR": folder.name}

    def result(self, process: subprocess.Popen) -> str:
        """What it prints."""
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, err)
        return out.strip()

    def early(self, words: list[str]) -> tuple[subprocess.Popen, socket.socket]:
        """The script, started before its GPUs are free."""
        ours, theirs = socket.socketpair()
        fd = theirs.fileno()
        before = dict(self.usual, FIRN_JOB="none", CUDA_VISIBLE_DEVICES="")
        before["FIRN_GATE"] = str(fd)
        process = start(words, before, pass_fds=[fd])
        theirs.close()
        self.addCleanup(ours.close)
        return process, ours

    def test_a_prepared_start_trains_the_bits_of_another(self) -> None:
        """With the call, without it, and where only Elastic waits."""
        of_start = dict(self.usual, FIRN_JOB="7")
        late = [start([], of_start), start(["wait"], of_start)]
        prepared = [self.early(["wait", "early"]), self.early(["early"])]
        for process, gate in prepared:
            self.assertEqual(gate.recv(1), b"r")
            self.assertIsNone(process.poll())
            gate.sendall(opening(of_start))
        results = [self.result(p) for p in late + [p for p, _ in prepared]]
        self.assertRegex(results[0], r"^7 False None \w+$")
        self.assertEqual(results, results[:1] * 4)

    def test_a_process_that_is_not_needed_ends(self) -> None:
        """Its supervisor closes the gate."""
        process, gate = self.early(["wait"])
        self.assertEqual(gate.recv(1), b"r")
        gate.close()
        out, _ = process.communicate(timeout=600)
        self.assertEqual((process.returncode, out), (1, ""))

    def test_a_program_begins_again_only_where_there_are_gpus(self) -> None:
        """CUDA that sees none was asked too early, or has none to see."""
        torch = mock.Mock()
        torch.version.cuda = "13.0"
        torch._C._cuda_getDeviceCount.return_value = 0
        for has_gpus in (False, True):
            with (
                mock.patch.dict(sys.modules, torch=torch),
                mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="0"),
                mock.patch("os.path.exists", return_value=has_gpus),
            ):
                self.assertEqual(firn.ahead._is_blind(), has_gpus)


if __name__ == "__main__":
    unittest.main()
