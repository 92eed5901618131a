"""Packs of sequences: every path spells its sequence, equal beginnings are there once, and tokens see only their own past."""

import numpy as np
import torch

from slalom.models.huggingface.trees import packed, visible


def test_packs_hold_every_sequence_and_each_common_beginning_once():
    rng = np.random.default_rng(0)
    for most in (0, 7, 20, 10_000):
        sequences = [rng.integers(0, 3, rng.integers(1, 9)).tolist() for _ in range(60)]
        packs = packed(sequences, most)
        assert sorted(number for pack in packs for number in pack.paths) == list(range(60))
        for pack in packs:
            seen = visible(torch.tensor([pack.parents]))[0]
            beginnings = set()
            for number, path in pack.paths.items():
                assert [pack.tokens[node] for node in path] == sequences[number]
                beginnings |= {tuple(sequences[number][: k + 1]) for k in range(len(path))}
                for k, node in enumerate(path):
                    assert np.flatnonzero(seen[node]).tolist() == sorted(path[: k + 1])
            assert len(pack.tokens) == len(beginnings), "each once"
            assert len(pack.tokens) <= max(most, 8)
            assert most or pack.parents == list(range(-1, len(pack.tokens) - 1)), "chains"
        if most == 10_000:
            assert len(packs) == 1
