"""Two corpora of the same texts: changes of words with paired intervals, and flipped predictions with their reasons."""

import numpy as np
import pytest
from scipy import stats

from slalom import corpus
from slalom.errors import InputError
from tests.corpus.tables import row, write

WORDS = ("good", "bad", "film", "xyzzy", "the")


def two(tmp_path, n=40):
    """The second model has unlearnt "xyzzy"; two of its texts are others'."""
    rng = np.random.default_rng(3)
    before, after = [], []
    for i in range(n):
        text = " ".join(rng.choice(WORDS, rng.integers(2, 8)))
        y = rng.normal(0, 0.2, len(text.split()))
        means = np.array([{"good": 1.0, "bad": -1.0, "xyzzy": 3.0}.get(word, 0.0) for word in text.split()])
        gone = np.array([word == "xyzzy" for word in text.split()])
        scores = (means + y).sum(), (np.where(gone, 0.0, means) + y).sum()
        gold = "pos" if scores[1] > 0 else "neg"
        for rows, effects, score in ((before, means + y, scores[0]), (after, np.where(gone, 0.0, means) + y, scores[1])):
            rows.append(row(i, text, effects, label="pos" if score > 0 else "neg", score=score, gold=gold))
    after[-1]["id"], before[0]["status"] = "another", "failed"
    after = [after[i] for i in rng.permutation(n)]
    folders = [
        write(tmp_path / name, rows, unit="word", keep=("gold",), model=name)
        for name, rows in (("one", before), ("two", after))
    ]
    return folders, before, after


def test_every_number(tmp_path):
    folders, before, after = two(tmp_path)
    found = corpus.compare(*folders, gold="gold", min_texts=3)
    later = {r["id"]: r for r in after}
    shared = [(a, later[a["id"]]) for a in before[1:-1]]
    assert (found.about["shared"], found.about["only"]) == (38, [1, 2])
    d, old, new = [], [], []
    for a, b in shared:
        at = [i for i, name in enumerate(a["units"]) if name == "xyzzy"]
        if at:
            old.append(a["removal"].astype(float)[at].mean())
            new.append(b["removal"].astype(float)[at].mean())
            d.append(new[-1] - old[-1])
    half = stats.t.ppf(0.975, len(d) - 1) * np.std(d, ddof=1) / len(d) ** 0.5
    change = found["xyzzy"]
    assert found.of_kind("word")[0] is change
    np.testing.assert_allclose(
        change.change, [len(d), np.mean(d), np.std(d, ddof=1), np.mean(d) - half, np.mean(d) + half], atol=1e-6
    )
    assert (change.before.mean, change.after.mean) == pytest.approx((np.mean(old), np.mean(new)))
    assert found["film"].change.mean == pytest.approx(0, abs=1e-6)
    flipped = [(a, b) for a, b in shared if a["label"] != b["label"]]
    assert found.about["flipped"] == len(flipped) > 0
    assert found.about["flips"] == [{"before": "pos", "after": "neg", "texts": len(flipped)}]
    accuracies = [np.mean([r["label"] == r["given_gold"] for r in rows]) for rows in zip(*shared, strict=True)]
    assert found.about["accuracy"] == pytest.approx(accuracies)
    assert {flip.id for flip in found.flips} == {a["id"] for a, _ in flipped}
    for flip in found.flips:
        (pair,) = [(a, b) for a, b in shared if a["id"] == flip.id]
        assert flip.change == pytest.approx(pair[1]["score"] - pair[0]["score"])
        assert flip.words[0].word == "xyzzy"
        assert flip.words[0].after - flip.words[0].before == pytest.approx(-3.0, abs=1e-5)
        assert flip.text == pair[0]["text"]
    changes = [abs(flip.change) for flip in found.flips]
    assert changes == sorted(changes, reverse=True)


def test_texts_that_cannot_be_matched(tmp_path):
    one = write(tmp_path / "one", [row(0, "x", [1.0])])
    other = write(tmp_path / "other", [{**row(0, "x", [1.0]), "id": "b"}])
    with pytest.raises(InputError, match="must have texts with equal ids, explained for 'pos'; they share none"):
        corpus.compare(one, other)
    twice = write(tmp_path / "twice", [row(0, "x", [1.0]), row(0, "x", [1.0])])
    with pytest.raises(InputError, match="ids must be unique to match texts; 'id0' occurs more than once"):
        corpus.compare(one, twice)
