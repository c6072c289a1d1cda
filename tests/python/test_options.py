"""Every option is documented, and docs/training.md has them all."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import list_options  # noqa: E402

SOURCE = '''
class Options:
    a: int = 1
    """One
    line."""
    b: dict = field(default_factory=dict)
    """``x`` | y"""
'''


class Options(unittest.TestCase):
    """The table and its page."""

    def test_a_table_is_made_of_docstrings(self) -> None:
        rows = list_options.table(SOURCE).splitlines()
        self.assertEqual(rows[2], "| `a` | `1` | One line. |")
        self.assertEqual(rows[3], "| `b` | `{}` | `x` \\| y |")

    def test_an_option_without_a_docstring_is_an_error(self) -> None:
        with self.assertRaisesRegex(SystemExit, "option 'a' has no docstring"):
            list_options.table("class Options:\n    a: int = 1\n")

    def test_the_page_is_up_to_date(self) -> None:
        done = subprocess.run(
            [sys.executable, str(ROOT / "python/list_options.py"), "--check"],
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_all_options_of_the_classes_are_listed(self) -> None:
        try:
            from firn.torch.options import Options as Elastic
        except ImportError:
            self.skipTest("PyTorch is not installed")
        from firn.freezer import Options as Freezing

        for name, known in (("options", Elastic), ("freezing options", Freezing)):
            source = list_options.TABLES[name].read_text()
            listed = [option[0] for option in list_options.options(source)]
            self.assertEqual(listed, [f.name for f in dataclasses.fields(known)])


if __name__ == "__main__":
    unittest.main()
