"""Builds libfirn_train.so with a C compiler alone; used by setup.py and benches.

    python3 build_lib.py OUT.so

libcurl is used where its headers are there; without it a trainer works and
sends no reports. So is libsodium; without it the processes of a trainer are all
on one host. The flags that fix the order of sums are those of the
Makefile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c17", "-D_POSIX_C_SOURCE=200809L", "-O2", "-ffp-contract=off"]
FLAGS += ["-fvisibility=hidden", "-fPIC", "-shared"]
if sys.platform == "linux":
    FLAGS += ["-Wl,-z,defs"]  # a missing file is an error now, not at import


def below() -> list[str]:
    """The files of other folders that the Makefile's TRAINSRC names."""
    lines = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(r"^TRAINSRC := .*\$\(addprefix src/,([^)]*)\)", lines, re.M)
    if found is None:
        raise SystemExit(f"{ROOT / 'Makefile'} has no TRAINSRC")
    return found.group(1).split()


def sources() -> list[str]:
    """What the Makefile calls TRAINSRC."""
    found = [*(ROOT / "src/train").glob("*.c"), *(ROOT / "src/wire").glob("*.c")]
    found += [ROOT / "src" / name for name in below()]
    if not all(path.exists() for path in found):
        raise SystemExit(f"the sources of libfirn_train are not in {ROOT / 'src'}")
    return sorted(str(path) for path in found)


# Libraries that may be missing: a definition, a header, a call, a flag.
LIBRARIES = [
    ("FIRN_WITH_CURL", "curl/curl.h", "!curl_version()", "-lcurl"),
    ("FIRN_WITH_SODIUM", "sodium.h", "sodium_init() < 0", "-lsodium"),
]


def can_link(compiler: str, header: str, call: str, flag: str) -> bool:
    """Can a program that makes this call be linked?"""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text(f"#include <{header}>\nint main(void) {{ return {call}; }}\n")
        command = [compiler, str(source), "-o", str(Path(folder, "try")), flag]
        return subprocess.run(command, capture_output=True).returncode == 0


def build(out: Path) -> Path:
    """Compiles and links it in one go. Several processes may do so at once: each
    finds a whole library."""
    new = out.with_name(f"{out.name}.{os.getpid()}")
    compiler = os.environ.get("CC", "cc")
    there = [one for one in LIBRARIES if can_link(compiler, *one[1:])]
    command = [compiler, *FLAGS, f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    command += [f"-D{one[0]}" for one in there]
    command += [*sources(), "-o", str(new), "-lm", "-lpthread"]
    command += [one[3] for one in there]
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True)
    os.replace(new, out)
    return out


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "libfirn_train.so")))
