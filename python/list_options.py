"""Writes the tables of options in docs/training.md from the docstrings.

    python3 python/list_options.py            writes the page
    python3 python/list_options.py --check    status 1 if it is not up to date

The sentence below each option of a class is the text; the page has each table
between two comments. The source is parsed, not imported, so
neither PyTorch nor the C library is needed.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/training.md"
# The name of a table, and the source of its class Options.
TABLES = {
    "options": ROOT / "python/firn/torch/options.py",
    "freezing options": ROOT / "python/firn/freezer.py",
}


def options(source: str) -> list[tuple[str, str, str]]:
    """Name, default and text of each option, in order."""
    (kind,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Options"
    )
    found: list[tuple[str, str, str]] = []
    for i, node in enumerate(kind.body):
        if not isinstance(node, ast.AnnAssign):
            continue
        name = ast.unparse(node.target)
        after = kind.body[i + 1] if i + 1 < len(kind.body) else None
        text = after.value if isinstance(after, ast.Expr) else None
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            raise SystemExit(f"option '{name}' has no docstring")
        default = ast.unparse(node.value) if node.value is not None else ""
        if default.startswith("field("):
            default = "{}"
        found.append((name, default, " ".join(text.value.split())))
    return found


def table(source: str) -> str:
    """The table in Markdown."""
    rows = ["| option | default | meaning |", "| --- | --- | --- |"]
    for name, default, text in options(source):
        text = re.sub("`+", "`", text).replace("|", "\\|")
        rows.append(f"| `{name}` | `{default}` | {text} |")
    return "\n".join(rows)


def page_with(page: str, name: str, rows: str) -> str:
    """The page with this table between its two comments."""
    begin = f"<!-- {name}: written by python/list_options.py -->"
    end = f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"{PAGE.name} does not have '{begin}' and '{end}' once each")
    before, rest = page.split(begin)
    return f"{before}{begin}\n{rows}\n{end}{rest.split(end)[1]}"


def main() -> int:
    """Writes or checks."""
    page = new = PAGE.read_text()
    for name, source in TABLES.items():
        new = page_with(new, name, table(source.read_text()))
    if "--check" in sys.argv[1:]:
        if new != page:
            print(f"{PAGE.name} is not up to date: run python3 python/list_options.py")
        return int(new != page)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
