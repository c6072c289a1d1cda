"""Runs test modules by name, as ``python -m unittest`` does; a module that is
skipped while it is imported is named and counts as skipped, where unittest
would end with an error.

    python3 tests/python/suite.py test_elastic test_lightning
"""

from __future__ import annotations

import sys
import unittest


def load(names: list[str]) -> unittest.TestSuite:
    """The tests of all modules that can be imported here."""
    found = unittest.TestSuite()
    for name in names:
        try:
            found.addTest(unittest.defaultTestLoader.loadTestsFromName(name))
        except unittest.SkipTest as why:
            print(f"{name}: skipped: {why}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(not unittest.TextTestRunner().run(load(sys.argv[1:])).wasSuccessful())
