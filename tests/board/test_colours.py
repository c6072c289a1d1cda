"""test_colours.py - the colours of the board can be read and told apart.

From the tokens of board.css: contrast by WCAG 2, and distances for normal and
colour-blind eyes in OKLab, where colour blindness is simulated by the matrices
of Machado, Oliveira and Fernandes (2009) for full protanopia, deuteranopia and
tritanopia.
"""
import math
import os
import re
import unittest

CSS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "board", "board.css")
EYES = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def themes():
    """Tokens of the light and of the dark set, by name."""
    with open(CSS, encoding="utf-8") as file:
        text = file.read()
    light, dark = re.findall(r":root(?:\[data-theme=dark\])? \{(.*?)\n\}", text, re.S)
    tokens = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in (light, dark)]
    return {"light": tokens[0], "dark": tokens[1]}


def linear(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def luminance(colour):
    r, g, b = linear(colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def oklab(colour, eye):
    r, g, b = (min(1, max(0, sum(m * c for m, c in zip(row, linear(colour))))) for row in eye)
    cone = [math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b), math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b),
            math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)]
    rows = ((0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099), (0.0259040371, 0.7827717662, -0.8086757660))
    return [sum(m * c for m, c in zip(row, cone)) for row in rows]


class Colours(unittest.TestCase):
    def test_contrast_of_two_known_pairs(self):
        self.assertAlmostEqual(contrast("#000000", "#ffffff"), 21, places=6)
        self.assertAlmostEqual(contrast("#777777", "#ffffff"), 4.478, places=3)

    def test_text_has_enough_contrast(self):
        for theme, c in themes().items():
            for ink in ("ink", "ink2", "ink3", "accent", "run", "wait", "ok", "bad", "off", "lost", "move"):
                for ground in ("panel", "sunk", "bg"):
                    self.assertGreaterEqual(contrast(c[ink], c[ground]), 4.5, f"{theme}: {ink} on {ground}")
            for state in ("run", "wait", "ok", "bad", "off", "lost", "move"):
                self.assertGreaterEqual(contrast(c[state], c[f"{state}wash"]), 4.5, f"{theme}: {state} on its wash")

    def test_names_can_be_read_on_blocks(self):
        for theme, c in themes().items():
            for i in range(1, 9):
                self.assertGreaterEqual(contrast(c["onblock"], c[f"u{i}"]), 4.5, f"{theme}: u{i}")
            self.assertGreaterEqual(contrast(c["onother"], c["u0"]), 4.5, theme)

    def test_colours_of_users_differ_for_all_eyes(self):
        for theme, c in themes().items():
            for name, eye in EYES.items():
                places = [oklab(c[f"u{i}"], eye) for i in range(1, 9)]
                nearest = min(100 * math.dist(a, b) for i, a in enumerate(places) for b in places[:i])
                self.assertGreaterEqual(nearest, 7, f"{theme}, {name}: {nearest:.1f}")


if __name__ == "__main__":
    unittest.main()
