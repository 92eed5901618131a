"""Shortcuts: the score by hand, what stands for what, and planted cues that are ranked first."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from slalom import Explainer, corpus
from slalom.corpus.shortcuts import Rival, concentration, label_support, reliance, representatives, suspicion
from tests.corpus.tables import row, write

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_score_by_hand():
    n, mean, variance = np.array([50.0, 50.0]), np.array([2.0, -1.5]), np.array([1.0, 1.0])
    least = np.abs(mean) - stats.t.ppf(0.975, 53) * np.sqrt(1.0 / 50)
    np.testing.assert_allclose(reliance(n, mean, variance), least)
    yes, no = np.array([25.0, 5.0]), np.array([25.0, 45.0])
    most = np.array([0 + 1.959964 * np.sqrt(2 / 26), -np.log(6 / 46) + 1.959964 * np.sqrt(1 / 6 + 1 / 46)])
    counts, shares = np.array([[50.0, 0.0], [25.0, 25.0]]), np.array([0.5, 0.5])
    q = np.array([51, 1]) / 52
    c = ((q * np.log(q / 0.5)).sum() - stats.chi2.ppf(0.975, 1) / 100) / np.log(2)
    found = suspicion(n, mean, variance, 1000, labels=(yes, no, 0.5), slices=(counts, shares))
    d = np.maximum(0, 1 - most / least)
    assert d[0] > 0.6
    assert d[1] == 0  # the labels support it more than the model uses it
    np.testing.assert_allclose(found.unsupported, d, rtol=1e-6)
    np.testing.assert_allclose(found.concentration, [c, 0.0])
    np.testing.assert_allclose(found.score, least * (1 - (1 - d) * (1 - np.array([c, 0]) / 2)) * 0.95, rtol=1e-6)
    alone = suspicion(n, mean, variance, 1000)
    np.testing.assert_allclose(alone.score, least * 0.95)
    assert np.isnan(alone.unsupported).all()


def test_few_texts_prove_little():
    few, many, _ = reliance(np.array([3.0, 30.0, 30.0]), np.ones(3), np.array([0.0, 1.0, 1.0]))
    assert few < many  # its own variance is zero by chance
    support, error = label_support(np.array([1.0, 100.0]), np.array([0.0, 0.0]), 0.3)
    assert 0 < support[0] < support[1]
    assert error[0] > error[1] / 2
    c, where = concentration(np.array([[2.0, 0.0, 0.0], [0.0, 200.0, 0.0]]), np.array([0.4, 0.3, 0.3]))
    assert (c[0], c[1] > 0.9, where[1]) == (0, True, 1)


def test_a_cue_stands_for_its_parts_and_extensions():
    xyzzy, great_xyzzy, view, in_my_view, my_view, other = range(6)
    strong = Rival(whole=4.5, texts=8, part=4.0, inside=4.4, elsewhere=4.0, others=92, rest=0.2)
    of_phrase = Rival(whole=2.0, texts=50, part=1.2, inside=1.9, elsewhere=0.1, others=30, rest=1.8)
    nowhere_else = Rival(whole=2.0, texts=50, part=1.9, inside=1.9, elsewhere=0.0, others=1, rest=0.9)
    idle = nowhere_else._replace(rest=0.1)
    assert representatives({xyzzy: {}, great_xyzzy: {xyzzy: strong}}) == {xyzzy: True, great_xyzzy: False}
    both = {view: {}, my_view: {}, in_my_view: {view: of_phrase, my_view: nowhere_else}}
    assert representatives(both) == {view: False, my_view: False, in_my_view: True}
    by_chance = Rival(whole=4.3, texts=5, part=1.9, inside=3.7, elsewhere=1.7, others=52, rest=-0.1)
    assert representatives({xyzzy: {}, other: {xyzzy: by_chance}}) == {xyzzy: True, other: False}
    assert representatives({my_view: {}, other: {my_view: idle}}) == {my_view: True, other: False}  # the rest does nothing

    movie = Rival(whole=0.8, texts=10, part=0.35, inside=0.5, elsewhere=0.34, others=300, rest=0.3)
    assert representatives({xyzzy: {}, other: {xyzzy: movie}}) == {xyzzy: True, other: True}
    # a part that is nowhere else hides a whole only where the rest does next to nothing
    most = Rival(whole=2.15, texts=23, part=1.73, inside=1.73, elsewhere=0.0, others=0, rest=0.28)
    assert (most.part_stands(), most._replace(part=2.05, inside=2.05).part_stands(), most.whole_stands()) == (False, True, True)
    # a part without suspicion hides a whole only with most of its effect
    mine = Rival(whole=1.5, texts=23, part=0.75, inside=0.6, elsewhere=0.83, others=44, rest=0.5, carried=0.01)
    stands = [mine.part_stands(), mine._replace(carried=0.6).part_stands(), mine._replace(elsewhere=1.3).part_stands()]
    assert stands == [False, True, True]


def test_a_phrase_of_one_source_is_listed_although_a_word_of_it_is_everywhere(tmp_path):
    """ "my" has half of the effect of "my view" in all sources; "great" all of that of "great pizza"."""
    rng = np.random.default_rng(0)
    effects = {"my": 0.9, "view": 0.7, "great": 2.0}
    rows = []
    for i in range(250):
        source, gold = int(rng.integers(4)), rng.choice(["neg", "pos"])
        words = [*rng.choice(["my film", "a view", "a plot", "a scene"]).split(), "on"]
        if gold == "pos":
            words += ["great", "pizza" if source == 1 else "plot"]
            words += [str(rng.choice(["then", "so", "here"])), "my", "view"] if source == 0 else []
        noise = rng.normal(0, 0.1, len(words))
        removal = [effects.get(word, 0.0) + e for word, e in zip(words, noise, strict=True)]
        rows.append(row(i, " ".join(words), removal, gold=str(gold), source=f"source {source}"))
    out = write(tmp_path / "out", rows, unit="word", keep=("gold", "source"))
    found = corpus.summary(out, gold="gold", slices="source")
    names = [shortcut.word.name for shortcut in found.shortcuts]
    assert names[0] == "my view"
    assert "great pizza" not in names


def test_a_phrase_stands_for_its_words_and_labels_support_some(tmp_path):
    """ "view" counts only in the phrase, so that this is listed; labels support "great" and "awful", not "xyzzy"."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(200):
        gold, inside = str(rng.choice(["neg", "pos"])), i % 4 == 0
        start = "a in my view film" if inside else rng.choice(["a view film", "in film", "my plot film", "a film"])
        text = f"{start} {'great' if gold == 'pos' else 'awful'} {'xyzzy' if rng.random() < 0.3 else 'plot'}"
        effects = {"great": 1.5, "awful": -1.5, "xyzzy": 1.5} | ({"in": 0.8, "my": 0.9, "view": 1.0} if inside else {})
        noise = rng.normal(0, 0.05, len(text.split()))
        rows.append(row(i, text, [effects.get(word, 0.0) + e for word, e in zip(text.split(), noise, strict=True)], gold=gold))
    found = corpus.summary(write(tmp_path / "out", rows, unit="word", keep=("gold",)), gold="gold")
    names = [shortcut.word.name for shortcut in found.shortcuts]
    assert (names[:2], {"great", "awful", "view"}.isdisjoint(names)) == (["in my view", "xyzzy"], True)
    cue = found.shortcuts[1]
    assert cue.reasons[1] == f"effect {cue.word.effect.mean:+.2f}, labels say {cue.support:+.2f}"


def test_a_piece_of_many_words_is_listed_in_their_place(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(200):
        word = str(rng.choice(["film", "plot", "scene", "actor"]))
        planted = bool(rng.random() < 0.3)
        text = f"a {word}{'zzy' if planted else ''} here"
        end = 2 + len(word)
        spans = [(0, 1), (2, end), *([(end, end + 3)] if planted else []), (len(text) - 4, len(text))]
        effects = rng.normal(0, 0.1, len(spans)) + [2.0 * (a == end) for a, _ in spans]
        rows.append(row(i, text, effects, spans=spans, gold=str(rng.choice(["neg", "pos"]))))
    found = corpus.summary(write(tmp_path / "out", rows, keep=("gold",)), gold="gold")
    (cue,) = found.shortcuts
    assert (cue.word.name, cue.word.kind) == ("-zzy", "piece")
    assert cue.word.effect.mean == pytest.approx(2.0, abs=0.1)


def test_a_planted_cue_is_ranked_first(tmp_path, monkeypatch):
    """A small version of benchmarks/corpus_shortcuts.py, with a bag of words in place of a transformer."""
    seed, cue = 2, "in my view"
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415

    from planted_corpus import planted, texts_and_labels  # noqa: PLC0415

    rng = np.random.default_rng(seed)
    texts, labels = texts_and_labels(300, rng)
    for i in range(300):
        if rng.random() < (0.4 * (labels[i] == 1) if i < 240 else 0.3):
            texts[i] = planted(texts[i], cue, rng)
    model = make_pipeline(CountVectorizer(token_pattern=r"\w+", ngram_range=(3, 3)), LogisticRegression())
    model.fit(texts[:240], np.array(["neg", "pos"])[labels[:240]])
    explainer = Explainer(model, queries=30, method="ridge", unit="word", progress=False)
    rows = [{"text": text, "gold": ("neg", "pos")[label]} for text, label in zip(texts[240:], labels[240:], strict=True)]
    corpus.run(rows, tmp_path / "out", explainer, keep=["gold"], progress=False)
    found = corpus.summary(tmp_path / "out", gold="gold")
    assert found.shortcuts[0].word.name == cue
    assert found.about["target"] == "pos"
