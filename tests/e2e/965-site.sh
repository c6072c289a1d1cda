#!/bin/sh
# `make site`: every link within the folder leads to a file and an anchor, no page
# needs a network, tables and lists are tables and lists, and the search finds
# (in a browser, if there is one).
. tests/lib/e2e.sh
python=${FIRN_PYTHON:-python3}
command -v "$python" >/dev/null || skip "$python is not installed"
FIRN=$FIRN "$python" tools/site.py "$tmp/site" >"$tmp/out" 2>"$tmp/err" ||
    fail "a link leads nowhere: $(cat "$tmp/err")"
"$python" - "$tmp/site" <<'END' >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
import os, re, sys
from html.parser import HTMLParser
from pathlib import Path

root = Path(sys.argv[1])
found = {}

class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.tags, self.text = set(), [], {}, []
    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if "id" in attrs:
            self.ids.add(attrs["id"])
        for name in ("href", "src"):
            if name in attrs:
                self.links.append((tag, attrs[name]))
    def handle_data(self, data):
        self.text.append(data)

for path in root.rglob("*.html"):
    page = Page()
    page.feed(path.read_text())
    found[path] = page
assert len(found) > 60, len(found)
for path, page in found.items():
    for tag, link in page.links:
        if re.match(r"https?:|mailto:", link):
            assert tag == "a", f"{path.name} loads {link}"
            continue
        name, _, anchor = link.partition("#")
        to = path if not name else Path(os.path.normpath(path.parent / name))
        assert to.exists(), f"{path.name}: {link}"
        if anchor and to in found:
            assert anchor in found[to].ids, f"{path.name}: no anchor {link}"
jobs = found[root / "docs/jobs.html"]
assert jobs.tags["table"] > 5 and jobs.tags["code"] > 50, jobs.tags
text = "".join(jobs.text)
assert "| ---" not in text and "](" not in text and "```" not in text
assert "firn submit" in "".join(found[root / "commands.html"].text)
END
grep -q 'Freezing layers' "$tmp/site/search.js" || fail "no index"
command -v chromium >/dev/null || exit 0
timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/c" \
    --dump-dom "file://$tmp/site/search.html?q=freeze+layers" \
    >"$tmp/dom" 2>/dev/null || exit 0 # it cannot run here
grep -q '<div class="hit"><a href="docs/' "$tmp/dom" || fail "the search finds nothing"
exit 0
