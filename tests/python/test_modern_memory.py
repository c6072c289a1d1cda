"""bench/gpu/modern_memory.py: its rows, and one small run on the CPU."""

from __future__ import annotations

import collections
import csv
import importlib.util
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "bench", "gpu"))

import modern_memory  # noqa: E402


class Rows(unittest.TestCase):
    def test_there_are_rows_of_many_families_half_of_them_held_back(self):
        rows = modern_memory.rows()
        self.assertGreaterEqual(len(rows), 150)
        self.assertGreaterEqual(len({r["family"] for r in rows}), 8)
        parts = collections.Counter(r["part"] for r in rows)
        self.assertLess(abs(parts["fit"] - parts["held"]), len(rows) * 0.1)
        for family in {r["family"] for r in rows}:
            mine = {r["part"] for r in rows if r["family"] == family}
            self.assertEqual(mine, {"fit", "held"})

    def test_no_row_stands_twice(self):
        keys = [modern_memory.key_of(r) for r in modern_memory.rows()]
        self.assertEqual(len(keys), len(set(keys)))

    def test_a_small_model_is_measured_on_the_cpu(self):
        for module in ("torch", "transformers"):
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"no {module} here")
        row = next(r for r in modern_memory.small_rows()
                   if r["family"] == "llama")
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.csv")
            modern_memory.small_rows, whole = lambda: [row], \
                modern_memory.small_rows
            try:
                for _ in range(2):  # the second run finds the row done
                    modern_memory.run(type("Args", (), {
                        "tiny": True, "seconds": 300.0, "out": out}))
            finally:
                modern_memory.small_rows = whole
            with open(out) as f:
                rows = list(csv.DictReader(f))
        self.assertEqual(len(rows), 1)
        # h 64, 2 layers, 4 heads of 16 over 4 or 2, f 96, V 128
        config = modern_memory.tiny(dict(modern_memory.configs())[row["model"]])
        kv = config["num_key_value_heads"] * 16
        layer = 2 * 64 * 64 + 2 * 64 * kv + 3 * 64 * 96 + 2 * 64
        tied = 1 if config["tie_word_embeddings"] else 2
        self.assertEqual(int(rows[0]["params"]),
                         2 * layer + tied * 128 * 64 + 64)


if __name__ == "__main__":
    unittest.main()
