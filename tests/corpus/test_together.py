"""Groups of units removed at once: the numbers that `Explanation.predict` gives."""

from dataclasses import replace

import numpy as np
import pytest

from slalom import Explainer, corpus
from slalom.core.additive import Additive
from slalom.core.lengths import Lengths
from slalom.core.shifts import Shifts
from slalom.core.slalom import Slalom
from slalom.core.two_scale import TwoScale
from slalom.corpus import words
from slalom.corpus.table import SourceRow, explained_row
from tests.corpus.tables import row, write

TEXTS = ("The unwatchable film isn't good <br /> at all", "unwatchable", "good film", "unwatchable unwatchable 10/10!")


def surrogates(n, rng):
    """One of each kind, with n units."""
    v, s, d = rng.normal(size=(3, n))
    far = Slalom(v, s, background=(0.3, 1.0))
    linked = Slalom(v, s, background=(-0.3, 0.5), link=(0.2, 0.7))
    pairs = [(0, n - 1), (0, 0), *((i, i + 1) for i in range(n - 1))]
    shares = np.ones(n) / n
    return {
        "additive": Additive(v, base=0.5),
        "slalom": far,
        "no background": Slalom(v, s),
        "link": linked,
        "near": TwoScale(far, 0.7, d, shares, 3),
        "pairs": TwoScale(linked, 0.7, d, shares, 2, pairs, rng.normal(size=len(pairs))),
        "shifts": TwoScale(far, 0.7, d, shares, 3, shifts=shifts(n, rng)),
    }


def shifts(n, rng):
    """A knot before every second unit."""
    offsets = rng.normal(size=(max(n // 2, 1), 5))
    offsets[:, 0] = 0.0
    units = np.arange(min(2 * len(offsets), n))
    return Shifts(n, units, units // 2, np.ones(len(units), dtype=np.int64), offsets)


KINDS = list(surrogates(2, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def explained():
    return Explainer(queries=50, method="joint", progress=False)(list(TEXTS))


def group_effects(e, chunk, r):
    """For each word and phrase of a row, its effect and what `predict` says."""
    o = chunk.occurrences
    chosen = np.flatnonzero((o.row == r) & (o.level > 0))
    kept = np.ones((1 + len(chosen), len(e)), dtype=bool)
    for k, i in enumerate(chosen.tolist()):
        kept[1 + k] = (e.spans[:, 0] < o.start[i]) | (e.spans[:, 0] >= o.end[i])
    some = kept.any(axis=1) | (e.background is not None) | isinstance(e.surrogate, Additive)
    predicted = e.predict(kept[some])
    return o.effect[chosen][some[1:]], predicted[0] - predicted[1:]


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_effect_of_a_group_is_that_of_removing_it(tmp_path, explained, kind, lengths):
    rng = np.random.default_rng(3)
    made = []
    for e in explained:
        n = len(e)
        b = Lengths(rng.normal(size=int(e.sizes.sum()) + 1)) if lengths else None
        made.append(replace(e, surrogate=surrogates(n, rng)[kind] if n > 1 else e.surrogate, lengths=b))
    rows = [explained_row(SourceRow(i, str(i), e.text, {}), e) for i, e in enumerate(made)]
    table = corpus.open(write(tmp_path / "out", rows, labels=("negative", "positive")))
    (chunk,) = words.Reader(longest=4).chunks(table.batches())
    several = 0
    for i, e in enumerate(made):
        ours, predicted = group_effects(e, chunk, i)
        np.testing.assert_allclose(ours, predicted, rtol=2e-5, atol=2e-5)
        several += len(ours)
    assert several > 30


def test_a_run_that_keeps_explanations(tmp_path):
    """From the model to the table: redundant tokens of one tag act together."""

    def model(texts):
        return [3.0 * ("<hr />" in t or "hr" in t or "/>" in t) + t.count("good") for t in texts]

    rows = [{"text": f"a {'good' if i % 2 else 'fine'} film <hr /> indeed"} for i in range(6)]
    explainer = Explainer(model, output="log_odds", labels=["neg", "pos"], queries=60, unit="token", progress=False)
    table = corpus.run(rows, tmp_path / "out", explainer, full=True, progress=False)
    (chunk,) = words.Reader().chunks(table.batches())
    for i in range(len(rows)):
        np.testing.assert_allclose(*group_effects(table[i], chunk, i), rtol=1e-4, atol=1e-4)


def test_rows_without_a_surrogate_are_summed(tmp_path):
    rows = [row(i, "in my view", [1.0, 2.0, 4.0]) for i in range(6)]
    found = corpus.summary(write(tmp_path / "out", rows), min_texts=2)
    assert found["in my view"].effect.mean == 7.0
