"""Corpora written from rows, for tests of what reads them."""

import json

import numpy as np

from slalom.corpus.folder import MANIFEST, LocalFolder
from slalom.corpus.opening import FORMAT, VERSION
from slalom.corpus.parts import write_part
from slalom.corpus.table import EXPLAINED, GIVEN, encoded, table
from slalom.text import words


def row(number, text, effects, *, label="pos", target="pos", spans=None, names=None, score=0.0, **given):
    """A row whose units are the words of the text, or spans of it."""
    spans = words(text) if spans is None else np.array(spans)
    effects = [effects.get(text[a:b].lower(), 0.0) for a, b in spans] if isinstance(effects, dict) else effects
    names = [text[a:b] for a, b in spans] if names is None else names
    return {
        "number": number, "id": f"id{number}", "status": EXPLAINED, "text": text, "label": label, "target": target,
        "score": score, "n_units": len(spans), "units": names, "starts": spans[:, 0], "ends": spans[:, 1],
        "removal": np.float32(effects),
        **{GIVEN + name: value for name, value in given.items()},
    }  # fmt: skip


def write(folder, rows, *, unit="token", keep=(), part=1000, labels=("neg", "pos"), model="a model"):
    """Write rows as a corpus."""
    place = LocalFolder(folder)
    about = {"name": model, "labels": list(labels)}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "part_size": part,
        "full": False,
        "model": about,
        "options": {"unit": unit},
    }
    place.write(MANIFEST, json.dumps(manifest).encode())
    for k in range(0, len(rows), part):
        write_part(place, k // part, encoded(table(rows[k : k + part], keep), f"digest {k}"))
    return folder
