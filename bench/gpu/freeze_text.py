"""freeze_text.py - the text that freeze_variance.py trains on, from Debian's archive.

Writes into FOLDER (all of it real text with real labels, nothing drawn):

  words.npz    long descriptions of Debian packages as words: the 8188 most
               frequent words and marks, four special tokens; `ids`, 128 words
               of each description; `label`, its archive section, of the 20
               largest; `test`, 1 for a tenth of the source packages (never for
               some packages of a source only, whose texts are alike)
  bytes.npz    Python sources as bytes: `train` and `test`, split by file

    python3 freeze_text.py --packages PACKAGES --texts Translation-en \\
        --sources /usr/lib/python3.11 --out FOLDER

PACKAGES is the output of `apt-cache dumpavail`, Translation-en the file of the
same release in dists/RELEASE/main/i18n of a Debian mirror, both unpacked.
"""
import argparse
import collections
import hashlib
import os
import re

import numpy

SPECIAL = ("[pad]", "[unknown]", "[mask]", "[begin]")
VOCAB, LENGTH, SECTIONS = 8192, 128, 20
WORD = re.compile(r"[a-z]+|[0-9]|[^\sa-z0-9]")


def records(path):
    """The paragraphs of a control file as dictionaries."""
    with open(path, encoding="utf-8", errors="replace") as f:
        for text in f.read().split("\n\n"):
            fields = re.split(r"\n(?=\S)", text.strip())
            yield dict(x.split(": ", 1) for x in fields if ": " in x)


def is_test(name):
    """A tenth of the names, by their hash."""
    return hashlib.sha256(name.encode()).digest()[0] % 10 == 0


def descriptions(packages, texts):
    """(words, section, is it for the test) of each different description."""
    long = {x.get("Description-md5"): x.get("Description-en", "")
            for x in records(texts)}
    seen = set()
    for x in records(packages):
        key = x.get("Description-md5")
        if key in seen or key not in long or "Section" not in x:
            continue
        seen.add(key)
        source = x.get("Source", x.get("Package", "")).split()[0]
        yield (WORD.findall(long[key].lower()), x["Section"].split("/")[-1],
               is_test(source))


def write_words(args):
    rows = list(descriptions(args.packages, args.texts))
    count = collections.Counter(w for words, _, test in rows if not test
                                for w in words)
    known = list(SPECIAL) + [w for w, _ in
                             count.most_common(VOCAB - len(SPECIAL))]
    number = {w: i for i, w in enumerate(known)}
    sections = collections.Counter(s for _, s, _ in rows)
    names = [s for s, _ in sections.most_common(SECTIONS)]
    rows = [r for r in rows if r[1] in names]
    ids = numpy.zeros((len(rows), LENGTH), dtype=numpy.uint16)
    for i, (words, _, _) in enumerate(rows):
        line = [number["[begin]"]] + [number.get(w, 1) for w in words]
        ids[i, :len(line[:LENGTH])] = line[:LENGTH]
    numpy.savez_compressed(
        os.path.join(args.out, "words.npz"), ids=ids,
        label=numpy.array([names.index(r[1]) for r in rows], numpy.uint8),
        test=numpy.array([r[2] for r in rows], numpy.uint8),
        sections=numpy.array(names))
    print(len(rows), "descriptions,", sum(r[2] for r in rows), "for the test;",
          f"{(ids == 1).sum() / (ids > 0).sum():.3f} of the words unknown;",
          "sections", names)


def write_bytes(args):
    parts = {False: [], True: []}
    for folder, below, names in os.walk(args.sources):
        below[:] = sorted(d for d in below if d != "dist-packages")
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    text = f.read()
                parts[is_test(os.path.relpath(path, args.sources))].append(text)
    arrays = {k: numpy.frombuffer(b"\n".join(parts[k]), numpy.uint8)
              for k in parts}
    numpy.savez_compressed(os.path.join(args.out, "bytes.npz"),
                           train=arrays[False], test=arrays[True])
    print({("test" if k else "train"): len(v) for k, v in arrays.items()},
          "bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("packages", "texts", "sources", "out"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    write_words(args)
    write_bytes(args)


if __name__ == "__main__":
    main()
