"""The tree in which a job's gradients are summed (see firn/fold.h).

The threads [0, V) are split at the largest power of two below V, both parts are
summed likewise, then added; the shape depends on V alone. Every node is an
aligned block: threads i * 2**k to (i + 1) * 2**k - 1, without those from V on.
A process sums the largest aligned blocks that it holds by itself.

This is the arithmetic of src/train/tree.c, for callers that sum on a device.
"""

from __future__ import annotations

from typing import Sequence

TREE, CHAIN = "tree", "chain"
ORDERS = (TREE, CHAIN)
CODE = {TREE: 1, CHAIN: 2}  # enum firn_sum

Block = tuple[int, int]
"""The first thread of a block, and the one behind its last."""


def split(n: int) -> int:
    """Where n threads (two or more) are split: the largest power of two below."""
    return 1 << (n - 1).bit_length() - 1


def _end(owner: Sequence[int], first: int) -> int:
    """The end of the largest block that begins here and has one owner."""
    end, size, n = first + 1, 2, len(owner)
    while first % size == 0 and size // 2 < n:
        to = min(first + size, n)
        if any(owner[v] != owner[first] for v in range(end, to)):
            break
        end, size = to, size * 2
    return end


def blocks(owner: Sequence[int]) -> list[Block]:
    """The largest aligned blocks of one owner each, rising."""
    found, first = [], 0
    while first < len(owner):
        end = _end(owner, first)
        found.append((first, end))
        first = end
    return found


def parts_of(owner: Sequence[int], order: str) -> list[Block]:
    """What processes hand in: blocks in the tree, single threads in a chain."""
    if order == CHAIN:
        return [(v, v + 1) for v in range(len(owner))]
    return blocks(owner)


def depth(n: int) -> int:
    """Vectors that the running sum of a block of n threads needs at most."""
    return max(1, (n - 1).bit_length())


def merges(offset: int) -> int:
    """With how many of the sums that are held thread ``offset`` is merged, from
    the last one: 0: it is held by itself."""
    n = 0
    while offset >> n & 1:
        n += 1
    return n


def steps(parts: Sequence[Block]) -> list[tuple[int, int]]:
    """The additions over parts that cover all threads: (i, j): part j is added
    to part i; at the end the sum is in part 0."""
    found: list[tuple[int, int]] = []

    def add(i: int, j: int) -> None:
        if j - i < 2:
            return
        middle = parts[i][0] + split(parts[j - 1][1] - parts[i][0])
        k = next(k for k in range(i + 1, j) if parts[k][0] >= middle)
        add(i, k)
        add(k, j)
        found.append((i, k))

    add(0, len(parts))
    return found


def additions(parts: Sequence[Block], order: str) -> list[tuple[int, int]]:
    """The same in either order."""
    if order == CHAIN:
        return [(0, j) for j in range(1, len(parts))]
    return steps(parts)
