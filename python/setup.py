"""Puts libfirn_train.so, compiled here, beside the Python files."""

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_lib  # noqa: E402  (setuptools does not put this folder on the path)


class Build(build_py):
    """Python files first, then the library among them."""

    def run(self) -> None:
        super().run()
        build_lib.build(Path(self.build_lib, "firn", "libfirn_train.so"))


class Binary(Distribution):
    """The wheel is for this kind of machine only."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": Build}, distclass=Binary)
