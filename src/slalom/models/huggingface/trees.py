"""Sequences of tokens that begin alike, packed so that each common beginning is computed once.

    sequences    a b c d        tokens     a b c d e f
                 a b e          parents    - 0 1 2 1 4        the token before each
                 a b e f        visible    itself, and what its parent sees

A pack goes through the network as one row: a mask lets each token attend to those before it in its own sequences only, and its
position is its place there, so the answers are those of plain passes up to rounding. Sequences are sorted: neighbours share
most. A chain is a pack without branches, which needs no mask.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch


class Pack(NamedTuple):
    """Sequences in one row of a batch."""

    tokens: list[int]
    parents: list[int]  # the place of the token before each; -1 at the beginning of a sequence
    paths: dict[int, list[int]]  # the places of the tokens of each sequence, by its number


def packed(sequences: Sequence[Sequence[int]], most: int) -> list[Pack]:
    """Return packs of at most so many tokens, unless one sequence has more; of 0, chains."""
    packs, path, last = list[Pack](), list[int](), list[int]()
    for number in sorted(range(len(sequences)), key=lambda i: list(sequences[i])):
        sequence = list(sequences[number])
        shared = common(last, sequence)
        full = len(packs[-1].tokens) + len(sequence) - shared > most if packs and most else shared < len(last)
        if not packs or full:
            packs.append(Pack([], [], {}))
            shared = 0
        pack = packs[-1]
        n = len(pack.tokens)
        path, last = [*path[:shared], *range(n, n + len(sequence) - shared)], sequence
        pack.parents.extend([-1, *path][shared:-1])
        pack.tokens.extend(sequence[shared:])
        pack.paths[number] = path
    return packs


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def visible(parents: torch.Tensor) -> torch.Tensor:
    """Return which tokens of a pack each attends to, (rows, n, n), from the places of those before them (rows, n)."""
    rows, n = parents.shape
    jump = torch.cat([torch.where(parents < 0, n, parents), torch.full_like(parents[:, :1], n)], dim=1)
    seen = torch.eye(n + 1, n, dtype=torch.bool, device=parents.device).repeat(rows, 1, 1)  # the last: what is before all
    row = torch.arange(rows, device=parents.device)[:, None]
    for _ in range(n.bit_length()):  # each token sees 1, 2, 4, ... of those before it
        seen |= seen[row, jump]
        jump = jump.gather(1, jump)
    return seen[:, :-1]
