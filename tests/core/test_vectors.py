"""One table of test vectors holds the formula in Python and the one of the page, in JavaScript, together.

`python -m tests.core.test_vectors` writes the table anew: its scores are sums and products written out, unit by unit.
"""

import json
import math
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from slalom.core import Additive, Lengths, Shifts, Slalom, TwoScale
from slalom.core.kinds import from_dict

TABLE = Path(__file__).parent / "surrogate_vectors.json"
N = 4
ROWS = [[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 0], [2, 1, 0, 3], [0.5, 1, 0.25, 1]]
WHOLE = [row for row in ROWS if row != ROWS[-1]]  # a length is a whole number of atoms
SHIFTS = [[0, 1, 2], [0, 1, 2], [1, 2, 1]]  # units, knots, sizes
ONE, THREE = [0.0, 0.2, -0.3], [[0.0, 0.0, 0.0], [0.2, -0.1, -0.1], [-0.3, 0.2, 0.1]]


def surrogates(shape):
    """Surrogates of each kind, with their length offsets, for scores of a shape."""
    rng = np.random.default_rng(5)
    values, level = 2.0 * rng.normal(size=(N, *shape)), rng.normal(size=shape)
    importances, background = rng.normal(size=N), (rng.normal(size=shape), 0.7)
    link = (np.full(shape, 0.1), np.full(shape, 1.3))
    near = level, rng.normal(size=(N, *shape)), np.full(N, 0.25), 3
    pairs = [(0, 1), (2, 2)], rng.normal(size=(2, *shape))
    shifts = Shifts(N, *SHIFTS, [THREE if shape else ONE] * 3)
    plain, linked = Slalom(values, importances), Slalom(values, importances, background, link)
    lengths = rng.normal(size=(9, *shape))
    yield from ((plain, None), (Slalom(values, importances, background), lengths), (linked, None))
    yield from ((Additive(values, level), None), (Additive(values, level), lengths))
    yield from ((TwoScale(linked, *near), None), (TwoScale(linked, *near, *pairs), None))
    yield TwoScale(linked, *near, *pairs, shifts=shifts), lengths


def by_hand(model, lengths, row, c):
    """Return the score of one row for class c, before scores are centred over the classes."""

    def at(part):
        return part if np.ndim(part) == 0 else part[c]

    far = getattr(model, "far", model)
    if isinstance(model, Additive):
        score = at(model.base) + sum(k * at(e) for k, e in zip(row, model.effects, strict=True))
    else:
        terms = [(k * math.exp(s), at(v)) for k, s, v in zip(row, far.importances, far.values, strict=True)]
        if far.background:
            terms.append((math.exp(far.background.importance), at(far.background.value)))
        score = sum(w * v for w, v in terms) / sum(w for w, _ in terms)
        if far.link:
            score = at(far.link.middle) + at(far.link.reach) * math.tanh((score - at(far.link.middle)) / at(far.link.reach))
    if isinstance(model, TwoScale):
        near = model.near
        left = at(near.level) - sum(k * at(d) for k, d in zip(row, near.changes, strict=True))
        score += sum(k * t for k, t in zip(row, near.shares, strict=True)) ** near.power * left
        score += sum(row[i] * row[j] * at(g) for (i, j), g in zip(model.pairs, model.effects, strict=True))
        if model.shifts:
            table = [at(h) for h in model.shifts.offsets[0]] + [0.0]
            for knot in range(3):
                gone = sum(size * (1 - row[i]) for i, k, size in zip(*SHIFTS, strict=True) if k <= knot)
                gone = min(max(gone, 0.0), len(table) - 1.0)
                low = min(int(gone), len(table) - 2)
                score += table[low] + (gone - low) * (table[low + 1] - table[low])
    return float(score) if lengths is None else float(score + at(lengths[int(min(sum(row), len(lengths) - 1))]))


def written():
    """Return the table: models as in files, with what the page needs beside, rows of counts, and their scores."""
    table = []
    for classes in (None, 3):
        for model, lengths in surrogates(() if classes is None else (classes,)):
            rows = ROWS if lengths is None else WHOLE
            offsets = None if lengths is None else lengths - (lengths.mean(axis=1, keepdims=True) if classes else 0.0)
            scores = np.array([[by_hand(model, offsets, row, c) for c in range(classes or 1)] for row in rows])
            scores = scores - scores.mean(axis=1, keepdims=True) if classes else scores
            saved = {**model.to_dict(), "lengths": None if offsets is None else offsets.tolist(), "sizes": [1] * N}
            table.append({"model": saved, "rows": rows, "scores": scores.tolist()})
    return table


def test_python_gives_the_scores_of_the_table():
    for case in json.loads(TABLE.read_text()):
        saved, rows = case["model"], np.array(case["rows"], dtype=float)
        found = from_dict(saved).predict(rows)
        if saved["lengths"] is not None:
            found = found + Lengths(saved["lengths"])(np.minimum(rows.sum(axis=1), len(saved["lengths"]) - 1).astype(int))
        np.testing.assert_allclose(found.reshape(len(rows), -1), case["scores"], atol=1e-12, err_msg=str(saved))


def test_the_page_gives_the_scores_of_the_table():
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = (files("slalom.render") / "page/assets/surrogate.js").read_text(encoding="utf-8")
    script += "\nconst table = JSON.parse(require('fs').readFileSync(0));"
    script += "\nconsole.log(JSON.stringify(table.map(({ model, rows }) => rows.map((row) => predict(model, row)))));"
    done = subprocess.run(["node", "-e", script], input=TABLE.read_text(), capture_output=True, text=True, check=True)
    for case, found in zip(json.loads(TABLE.read_text()), json.loads(done.stdout), strict=True):
        np.testing.assert_allclose(found, case["scores"], atol=1e-12, err_msg=str(case["model"]))


if __name__ == "__main__":
    TABLE.write_text("[\n" + ",\n".join(json.dumps(case) for case in written()) + "\n]\n")
