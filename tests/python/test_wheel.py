"""A wheel is built and works in an environment that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 600
USE = """
import firn, tempfile, os
from firn import ckpt
from firn._lib import lib
lib()
folder = tempfile.mkdtemp()
writer = ckpt.Writer(folder, "job", 3)
writer.put("note", b"hello")
writer.commit()
found, _ = ckpt.Checkpoint.newest(folder, "job")
assert found["note"].bytes() == b"hello"
print(firn.__version__, os.path.dirname(firn.__file__))
"""


def missing() -> str:
    """What the build needs and is not here; empty: nothing."""
    done = subprocess.run(
        [sys.executable, "-c", "import setuptools, wheel, pip"], capture_output=True
    )
    if done.returncode != 0:
        return "setuptools, wheel or pip is not installed"
    if not shutil.which(os.environ.get("CC", "cc")):
        return "there is no C compiler"
    return ""


def run(*command: object, **env: str) -> str:
    """A command, and what it printed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FIRN_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command],
        **dict(capture_output=True, text=True, timeout=LIMIT_S, cwd="/"),
        env={**clean, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **env},
    )
    if done.returncode != 0:
        raise AssertionError(f"{command}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


@unittest.skipIf(missing(), missing())
class Wheel(unittest.TestCase):
    """make wheel, and pip install without a network."""

    def test_a_wheel_works_in_an_empty_environment(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="firn"))
        self.addCleanup(shutil.rmtree, folder)
        run("make", "-C", ROOT, "wheel", f"WHEELS={folder}", f"PYTHON={sys.executable}")
        (wheel,) = folder.glob("firn-*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("libfirn_train.so", "torch/elastic.py", "transformers.py"):
            self.assertIn(f"firn/{name}", names)
        place = folder / "env"
        try:
            venv.create(place, with_pip=True)
        except subprocess.CalledProcessError:  # Debian without python3-venv
            self.skipTest("python3-venv is not installed")
        python = place / "bin/python"
        install = ("-m", "pip", "install", "-q", "--no-index", "--no-deps")
        run(python, *install, wheel)
        self.assertIn(str(place), run(python, "-c", USE))


if __name__ == "__main__":
    unittest.main()
