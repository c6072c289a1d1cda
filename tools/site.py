"""site.py - the pages of this tree as one static folder, with a search.

    python3 tools/site.py [FOLDER]        (make site; default: build/site)

Makes HTML of README.md, HACKING.md, docs/ and the README of each folder. The
folder needs no server and no network: open index.html. Search runs in the
browser over an index that is one script, because a page that is opened as a file
may not fetch others.

Why not a tool: pandoc is 150 MB and knows no search; generators with a search
need a network or a package manager of their own. The pages use a small part of
Markdown, which fits in one file: headings, paragraphs, lists, tables, fenced and
indented code, quotes, images, links, emphasis, code. What the tree's pages use
and this file does not know would be wrong on the page, so tests/e2e/965 looks at
the result.

1. Every page of the list is written; a link to a page goes to its HTML.
2. A link to another file of the tree becomes the name of that file, as text.
3. All text is escaped; no page has a script but search.js.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ("README.md", "HACKING.md", "docs/**/*.md", "src/*/README.md",
            "*/README.md")
CODE, LINK = re.compile(r"(`+)(.+?)\1", re.S), re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*(?:\([^()]*\))?[^()\s]*)\)")


def find_pages() -> list[Path]:
    """The pages, relative to the root, README.md first."""
    found: list[Path] = []
    for pattern in PATTERNS:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT)
            if name not in found and name.parts[0] not in ("build", ".git"):
                found.append(name)
    return found


def target_of(page: Path) -> Path:
    """Where the HTML of a page goes."""
    if page == Path("README.md"):
        return Path("index.html")
    return page.with_name("README" if page.stem == "README" else page.stem
                          ).with_suffix(".html")


def anchor_of(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).strip().lower())
    return kept.replace(" ", "-")


class Page:
    """One page: Markdown in, HTML and sections for the search out."""

    def __init__(self, path: Path, pages: set[Path]) -> None:
        self.path, self.pages = path, pages
        self.title = path.stem
        self.sections: list[tuple[str, str, list[str]]] = []  # anchor, title, text
        self.heads: list[tuple[int, str, str]] = []
        self.images: set[Path] = set()
        self.missing: list[str] = []
        self.lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
        self.at = 0

    # --- inline ---

    def link(self, to: str) -> str | None:
        """The address of a link on this page; None: not in the site."""
        if re.match(r"[a-z]+:", to):
            return to
        name, _, anchor = to.partition("#")
        if not name:
            return "#" + anchor
        path = Path(os.path.normpath(self.path.parent / name))
        if (ROOT / path).is_dir() and path / "README.md" in self.pages:
            path = path / "README.md"
        if path in self.pages:
            here = target_of(self.path).parent
            return os.path.relpath(target_of(path), here) + ("#" + anchor if anchor else "")
        if path.suffix in (".png", ".svg") and (ROOT / path).exists():
            self.images.add(path)
            return os.path.relpath(path, target_of(self.path).parent)
        if not (ROOT / path).exists():
            self.missing.append(to)
        return None

    def inline(self, text: str) -> str:
        """A run of text; code first, because nothing counts within it."""
        kept: list[str] = []

        def keep(made: str) -> str:
            kept.append(made)
            return f"\x00{len(kept) - 1}\x00"

        def code(found: re.Match[str]) -> str:
            return keep(f"<code>{html.escape(found[2].strip())}</code>")

        def link(found: re.Match[str]) -> str:
            words, to = found[2], self.link(html.unescape(found[3]))
            if found[1]:
                return keep(f'<img src="{html.escape(to or "")}" alt="{words}">')
            if to is None:
                return words
            return keep(f'<a href="{html.escape(to)}">') + words + keep("</a>")

        text = CODE.sub(code, text)
        text = html.escape(text, quote=False)
        text = LINK.sub(link, text)
        text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text, flags=re.S)
        text = re.sub(r"(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?![\w*])",
                      r"<em>\1</em>", text)
        while "\x00" in text:
            text = re.sub("\x00(\\d+)\x00", lambda found: kept[int(found[1])], text)
        return text

    def note(self, text: str) -> None:
        """Text for the search."""
        if self.sections:
            plain = re.sub(r"[`*|]|!?\[|\]\([^)]*\)", " ", text)
            self.sections[-1][2].append(" ".join(plain.split()))

    # --- blocks ---

    def heading(self, level: int, title: str) -> str:
        anchor = anchor_of(title)
        plain = re.sub(r"[`*]", "", title)
        if level == 1:
            self.title = plain
        self.sections.append((anchor if level > 1 else "", plain, []))
        if level in (2, 3):
            self.heads.append((level, anchor, plain))
        return f'<h{level} id="{anchor}">{self.inline(title)}</h{level}>'

    def fence(self) -> str:
        first = self.lines[self.at]
        indent = len(first) - len(first.lstrip())
        body: list[str] = []
        self.at += 1
        while self.at < len(self.lines) and not self.lines[self.at].strip() == "```":
            line = self.lines[self.at]
            body.append(line[min(indent, len(line) - len(line.lstrip())):])
            self.at += 1
        self.at += 1
        text = "\n".join(body)
        self.note(text)
        return f"<pre><code>{html.escape(text)}</code></pre>"

    def indented(self) -> str:
        body: list[str] = []
        while self.at < len(self.lines) and (
                self.lines[self.at].startswith("    ") or not self.lines[self.at].strip()):
            body.append(self.lines[self.at][4:])
            self.at += 1
        text = "\n".join(body).rstrip()
        self.note(text)
        return f"<pre><code>{html.escape(text)}</code></pre>"

    @staticmethod
    def cells(line: str) -> list[str]:
        """The cells of a row; a bar within code or behind a backslash is text."""
        line = CODE.sub(lambda found: found[0].replace("|", "\x01"), line.strip())
        parts = re.split(r"(?<!\\)\|", line.strip("|"))
        return [part.replace("\x01", "|").replace("\\|", "|").strip() for part in parts]

    def table(self) -> str:
        head = self.cells(self.lines[self.at])
        sides = ["right" if cell.endswith(":") else "" for cell in
                 self.cells(self.lines[self.at + 1])]
        self.at += 2
        out = ["<div class=wide><table><thead><tr>"]
        out += [f"<th>{self.inline(cell)}</th>" for cell in head]
        out.append("</tr></thead><tbody>")
        while self.at < len(self.lines) and self.lines[self.at].lstrip().startswith("|"):
            self.note(self.lines[self.at])
            out.append("<tr>")
            for i, cell in enumerate(self.cells(self.lines[self.at])):
                side = ' class="r"' if i < len(sides) and sides[i] else ""
                out.append(f"<td{side}>{self.inline(cell)}</td>")
            out.append("</tr>")
            self.at += 1
        out.append("</tbody></table></div>")
        return "".join(out)

    ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])\s+(.*)")

    def items(self) -> str:
        """A list; what is indented below an item belongs to it."""
        first = self.ITEM.match(self.lines[self.at])
        assert first
        indent, kind = len(first[1]), "ol" if first[2][0].isdigit() else "ul"
        out = [f"<{kind}>"]
        while self.at < len(self.lines):
            found = self.ITEM.match(self.lines[self.at])
            if not found or len(found[1]) != indent:
                break
            inner = len(self.lines[self.at]) - len(found[3])
            body = [found[3]]
            self.at += 1
            while self.at < len(self.lines):
                line = self.lines[self.at]
                depth = len(line) - len(line.lstrip())
                following = next((x for x in self.lines[self.at:] if x.strip()), "")
                if line.strip() and (depth < indent + 2 or
                                     (self.ITEM.match(line) and depth <= indent)):
                    if depth <= indent and (self.ITEM.match(line) or self.starts_block(line)
                                            or not self.lines[self.at - 1].strip()):
                        break
                if not line.strip() and len(following) - len(following.lstrip()) <= indent:
                    break
                body.append(line[min(inner, depth):])
                self.at += 1
            out.append("<li>" + self.nested(body) + "</li>")
            while self.at < len(self.lines) and not self.lines[self.at].strip() and \
                    self.at + 1 < len(self.lines):
                found = self.ITEM.match(self.lines[self.at + 1])
                if not found or len(found[1]) != indent:
                    break
                self.at += 1
        out.append(f"</{kind}>")
        return "".join(out)

    def nested(self, body: list[str]) -> str:
        """The blocks of an item; a single paragraph has no <p>."""
        kept = self.lines, self.at
        self.lines, self.at = body, 0
        made = self.blocks()
        self.lines, self.at = kept
        if made and made[0].startswith("<p>"):
            made[0] = made[0][3:-4]
        return "".join(made)

    def starts_block(self, line: str) -> bool:
        return bool(re.match(r"#{1,6} |```|\||>", line.lstrip()) or self.ITEM.match(line))

    def paragraph(self) -> str:
        body: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].strip():
            line = self.lines[self.at]
            if body and re.match(r"#{1,6} |```|\|.*\|$|\s*([-*+]|1[.)])\s", line):
                break
            body.append(line.strip())
            self.at += 1
        text = "\n".join(body)
        self.note(text)
        return f"<p>{self.inline(text)}</p>"

    def quote(self) -> str:
        body: list[str] = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(">"):
            body.append(self.lines[self.at][1:].strip())
            self.at += 1
        return f"<blockquote>{self.inline(' '.join(body))}</blockquote>"

    def blocks(self) -> list[str]:
        """All blocks from here on."""
        out: list[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            head = re.match(r"(#{1,6}) (.*)", line)
            after = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
            if not line.strip():
                self.at += 1
            elif line.startswith("<!--"):
                while self.at < len(self.lines) and "-->" not in self.lines[self.at]:
                    self.at += 1
                self.at += 1
            elif head:
                self.at += 1
                out.append(self.heading(len(head[1]), head[2].strip()))
            elif line.lstrip().startswith("```"):
                out.append(self.fence())
            elif line.lstrip().startswith("|") and re.match(r"\s*\|[\s:|-]+\|?$", after):
                out.append(self.table())
            elif self.ITEM.match(line):
                out.append(self.items())
            elif line.startswith("    "):
                out.append(self.indented())
            elif line.startswith(">"):
                out.append(self.quote())
            elif re.match(r"(-{3,}|\*{3,})$", line.strip()):
                self.at += 1
                out.append("<hr>")
            else:
                out.append(self.paragraph())
        return out


STYLE = """
:root { --ink: #1a1c1e; --paper: #ffffff; --soft: #f3f4f6; --line: #d8dadf;
  --mark: #0b57d0; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --paper: #16181b;
  --soft: #22252a; --line: #3a3e45; --mark: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif; display: grid;
  grid-template-columns: 17rem minmax(0, 1fr); }
nav { padding: 1rem; border-right: 1px solid var(--line); position: sticky; top: 0;
  height: 100vh; overflow-y: auto; font-size: .9rem; }
nav b { display: block; margin: .9rem 0 .2rem; }
nav a { display: block; padding: .1rem 0; }
nav .here { font-weight: 600; }
nav input { width: 100%; padding: .45rem; font: inherit; color: inherit;
  background: var(--soft); border: 1px solid var(--line); border-radius: 6px; }
main { padding: 1rem 2rem 4rem; max-width: 58rem; }
a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; border-radius: 6px;
  font-size: .85rem; line-height: 1.45; }
code { font-family: ui-monospace, monospace; font-size: .92em; }
p code, li code, td code { background: var(--soft); padding: .05em .3em;
  border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: .5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem .3rem 0;
  text-align: left; vertical-align: top; }
td.r { text-align: right; }
img { max-width: 100%; }
blockquote { border-left: 3px solid var(--line); margin: 0; padding-left: 1rem; }
.hit { margin: 1rem 0; } .hit small { color: color-mix(in srgb, var(--ink) 65%,
  var(--paper)); }
mark { background: color-mix(in srgb, var(--mark) 25%, transparent); color: inherit; }
@media (max-width: 50rem) { body { display: block; } nav { position: static;
  height: auto; border: 0; border-bottom: 1px solid var(--line); }
  main { padding: 1rem; } }
"""

SCRIPT = r"""
// Search over `pages`: each section is [address, page, title, text].
'use strict';
const words = new URLSearchParams(location.search).get('q') || '';
const field = document.querySelector('nav input');
field.value = words;
const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
const count = (text, term) => text.split(term).length - 1;
function score([, page, title, text]) {
  const low = text.toLowerCase(), head = title.toLowerCase();
  let sum = 0;
  for (const term of terms) {
    const here = 20 * count(head, term) + 8 * count(page.toLowerCase(), term) +
      Math.min(10, count(low, term));
    if (here === 0) return 0;
    sum += here;
  }
  return sum;
}
function excerpt(text) {
  const low = text.toLowerCase();
  const at = Math.max(0, Math.min(...terms.map(t => low.indexOf(t)).filter(i => i >= 0), 1e9));
  const from = at > 1e8 ? 0 : Math.max(0, at - 80);
  return (from > 0 ? '… ' : '') + text.slice(from, from + 240) + '…';
}
function marked(text) {
  const out = document.createElement('span');
  const safe = terms.map(t => t.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const parts = safe.length ? text.split(new RegExp(`(${safe.join('|')})`, 'i')) : [text];
  parts.forEach((part, i) => {
    const node = document.createElement(i % 2 ? 'mark' : 'span');
    node.textContent = part;
    out.append(node);
  });
  return out;
}
const main = document.querySelector('main');
const hits = terms.length ? pages.map(p => [score(p), p]).filter(h => h[0] > 0)
  .sort((a, b) => b[0] - a[0]).slice(0, 60) : [];
const title = document.createElement('h1');
title.textContent = terms.length ? `${hits.length} places with “${words}”` : 'Search';
main.append(title);
for (const [, [address, page, head, text]] of hits) {
  const hit = document.createElement('div');
  hit.className = 'hit';
  const link = document.createElement('a');
  link.href = address;
  link.append(marked(page === head ? page : `${page}: ${head}`));
  const small = document.createElement('small');
  small.append(marked(excerpt(text)));
  hit.append(link, document.createElement('br'), small);
  main.append(hit);
}
"""


def groups() -> list[tuple[str, list[tuple[str, Path]]]]:
    """The pages by what readers want, from the table of README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    part = text[text.index("## Documentation"):]
    part = part[:part.index("\n## ", 5)]
    out = []
    for row in re.findall(r"^\| ([^|]*) \| (.*) \|$", part, re.M):
        links = [(words, Path(to)) for words, to in
                 re.findall(r"\[([^\]]*)\]\(([^)]*)\)", row[1])]
        if links:
            out.append((row[0], links))
    return out


def shell(page: Path, title: str, body: str, menu: list[tuple[str, list[tuple[str, Path]]]],
          scripts: str = "") -> str:
    """A whole HTML page."""
    here = target_of(page).parent
    up = os.path.relpath(".", here)
    lines = [f'<a href="{up}/index.html"><strong>firn</strong></a>',
             f'<form action="{up}/search.html"><input name=q type=search '
             'placeholder="Search" aria-label="Search"></form>']
    for want, links in menu:
        lines.append(f"<b>{html.escape(want)}</b>")
        for words, path in links:
            kind = ' class="here"' if path == page else ""
            to = os.path.relpath(target_of(path), here)
            lines.append(f'<a{kind} href="{to}">{html.escape(words)}</a>')
    return ("<!doctype html>\n<html lang=en><meta charset=utf-8>"
            '<meta name=viewport content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}: firn</title>"
            f'<link rel=stylesheet href="{up}/site.css">'
            f"<nav>{''.join(lines)}</nav><main>{body}</main>{scripts}</html>\n")


def commands_page(folder: Path) -> tuple[str, list[list[str]]]:
    """The help of every command, if firn is built."""
    firn = Path(os.environ.get("FIRN", ROOT / "build/firn"))
    if not firn.exists():
        return "", []
    listed = subprocess.run([str(firn), "help"], capture_output=True, text=True).stdout
    body, index = ["<h1>Commands</h1>"], []
    for name in re.findall(r"^  ([a-z]+) ", listed, re.M):
        text = subprocess.run([str(firn), "help", name], capture_output=True,
                              text=True).stdout
        body.append(f'<h2 id="{name}">firn {name}</h2>'
                    f"<pre><code>{html.escape(text)}</code></pre>")
        index.append([f"commands.html#{name}", "Commands", f"firn {name}",
                      " ".join(text.split())])
    return "".join(body), index


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site")
    shutil.rmtree(folder, ignore_errors=True)
    paths = find_pages()
    menu, known, index, missing = groups(), set(paths), [], []
    commands, found = commands_page(folder)
    if commands:
        menu.append(("look up", [("commands", Path("commands.md"))]))
    for path in paths:
        page = Page(path, known)
        body = "\n".join(page.blocks())
        to = folder / target_of(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(shell(path, page.title, body, menu), encoding="utf-8")
        missing += [f"{path}: {link}" for link in page.missing]
        for image in page.images:
            (folder / image).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / image, folder / image)
        address = str(target_of(path))
        index += [[address + ("#" + anchor if anchor else ""), page.title, title,
                   " ".join(text)] for anchor, title, text in page.sections]
    if commands:
        (folder / "commands.html").write_text(
            shell(Path("commands.md"), "Commands", commands, menu), encoding="utf-8")
    (folder / "site.css").write_text(STYLE)
    (folder / "search.js").write_text(
        "const pages = " + json.dumps(index + found, ensure_ascii=False,
                                      separators=(",", ":")) + ";" + SCRIPT)
    (folder / "search.html").write_text(
        shell(Path("search.md"), "Search", "", menu,
              '<script src="search.js"></script>'), encoding="utf-8")
    for line in missing:
        print(f"site.py: a link leads nowhere: {line}", file=sys.stderr)
    print(f"{len(paths)} pages, {len(index + found)} sections: {folder}/index.html")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
