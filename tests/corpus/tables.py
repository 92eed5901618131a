"""Corpora written from rows, for tests of what reads them."""

import json
from itertools import pairwise

import numpy as np

from slalom.corpus.folder import MANIFEST, Folder, write_part
from slalom.corpus.opening import FORMAT, SETTINGS, VERSION
from slalom.corpus.table import EXPLAINED, GIVEN, LONGEST, encoded, phrase_column, table
from slalom.text import simple_words as words
from slalom.text.units import group_spans


def row(number, text, effects, *, label="pos", target="pos", spans=None, names=None, score=0.0, **given):
    """A row whose units are the words of the text, or spans of it; effects of words and phrases are sums."""
    spans = words(text) if spans is None else np.array(spans)
    effects = [effects.get(text[a:b].lower(), 0.0) for a, b in spans] if isinstance(effects, dict) else effects
    names = [text[a:b] for a, b in spans] if names is None else names
    word_of = group_spans(spans, words(text))
    first = np.searchsorted(word_of, np.arange(len(set(word_of.tolist())) + 1))
    total = np.concatenate([[0.0], np.cumsum(np.asarray(effects, dtype=float))])
    together = {phrase_column(n): np.float32(total[first[n:]] - total[first[:-n]]) for n in range(1, LONGEST + 1)}
    return {
        "number": number, "id": f"id{number}", "status": EXPLAINED, "text": text, "label": label, "target": target,
        "score": score, "n_units": len(spans), "units": names, "starts": spans[:, 0], "ends": spans[:, 1],
        "removal": np.float32(effects), "unit_words": word_of, **together,
        "words": [text[spans[a, 0] : spans[b - 1, 1]] for a, b in pairwise(first)],
        **{GIVEN + name: value for name, value in given.items()},
    }  # fmt: skip


def write(folder, rows, *, unit="token", keep=(), part=1000, labels=("neg", "pos"), model="a model", full=False):
    """Write rows as a corpus."""
    place = Folder(folder)
    options = {"method": "joint", "unit": unit, "queries": "auto", "target": None, "seed": 0}
    model = {"name": model, "labels": labels, "identity": None}
    manifest = dict.fromkeys(SETTINGS) | {"format": FORMAT, "version": VERSION, "slalom": None, "command": {}}
    manifest |= {"options": options, "model": model, "keep": keep, "part_size": part, "full": full}
    place.write(MANIFEST, json.dumps(manifest).encode())
    for k in range(0, len(rows), part):
        write_part(place, k // part, encoded(table(rows[k : k + part], keep), f"digest {k // part}"))
    return folder
