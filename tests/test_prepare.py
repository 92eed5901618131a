"""Texts that are explained together: each has the explanation that it has alone."""

from dataclasses import dataclass
from time import perf_counter, sleep

import numpy as np
import pytest

from slalom import Explainer, corpus
from slalom.core import Additive, Sgd
from slalom.errors import ModelError
from slalom.methods import BlackBoxMethod, SurrogateMethod

RNG = np.random.default_rng(0)
WORDS = [f"w{i}" for i in range(150)]
EFFECTS = {word: RNG.normal(size=3) for word in WORDS}


def logits(texts):
    """Three classes: the mean effect of the words, and something of their number."""
    rows = [[EFFECTS.get(word, np.zeros(3)) for word in text.split()] or [np.zeros(3)] for text in texts]
    return np.array([3.0 * np.mean(row, axis=0) + [0.02 * len(row), 0.0, 0.0] for row in rows])


def score(texts):
    """One number; texts with the word "huge" have a score beyond the limit, those with "broken" end the model."""
    if any("broken" in text for text in texts):
        raise RuntimeError("the model broke")
    return [1e200 if "huge" in text else float(logits([text.replace("huge", "w1")])[0, 0]) for text in texts]


def texts(number, seed=1):
    """One is short (its counts are stored in full), others of 16 words or more, some with words that repeat."""
    rng = np.random.default_rng(seed)
    lengths = [3, *rng.choice([20, 30, 60], number - 1)]
    return [" ".join(rng.choice(WORDS, length)) for length in lengths]


def same(one, other):
    """Whether all but the time is equal."""
    left, right = one.to_dict(), other.to_dict()
    return {**left, "seconds": 0} == {**right, "seconds": 0}


@pytest.fixture(scope="module")
def explainer():
    return Explainer(score, output="log_odds", method="eff", queries=50)


@pytest.fixture(scope="module")
def alone(explainer):
    return [explainer(text) for text in texts(12)]


@pytest.mark.parametrize("lot", [64, 7])
def test_texts_have_the_explanations_that_they_have_alone(explainer, alone, lot, monkeypatch):
    monkeypatch.setattr("slalom.pipeline.pipeline._TOGETHER", lot)
    together = explainer(texts(12))
    assert [e.text for e in together] == texts(12)
    assert all(map(same, together, alone))
    assert not same(together[0], alone[1])


@pytest.mark.parametrize("options", [{"target": "all"}, {"queries": "auto", "max_queries": 120}, {"seed": 3, "unit": "word"}])
def test_options_hold_for_texts_together(options):
    explainer = Explainer(logits, output="logits", method="eff", **{"queries": 40, **options})
    assert all(map(same, explainer(texts(6)), [explainer(text) for text in texts(6)]))


def test_fits_are_made_together(explainer, alone, monkeypatch):
    """No text is fitted by itself."""
    solved = []
    solve_many = Sgd.solve_many
    monkeypatch.setattr(Sgd, "solve_many", lambda self, problems: solved.append(len(problems)) or solve_many(self, problems))
    monkeypatch.setattr(Sgd, "solve", lambda self, problem: pytest.fail("a single fit"))
    assert all(map(same, explainer(texts(12)), alone))
    assert solved == [12]


def test_results_come_before_the_next_lot_is_fitted(explainer, monkeypatch):
    monkeypatch.setattr("slalom.pipeline.pipeline._TOGETHER", 4)
    lots = []
    prepare = SurrogateMethod.prepare
    monkeypatch.setattr(
        SurrogateMethod, "prepare", lambda self, contexts: lots.append(len(contexts)) or prepare(self, contexts)
    )
    results = explainer.pipeline.run(texts(10), explainer.options)
    next(results)
    assert lots == [4]
    assert len(list(results)) == 9
    assert lots == [4, 4, 2]


def test_an_interrupted_lot_ends_the_call(explainer, monkeypatch):
    def interrupted(self, problems):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sgd, "solve_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explainer(texts(3))


@pytest.mark.parametrize("bad", ["huge", "broken", ""])
def test_a_text_that_fails_leaves_the_others_as_they_are(explainer, alone, bad):
    given = texts(12)
    given[5] = f"{given[5]} {bad}" if bad else ""
    found = explainer(given, errors="keep")
    (failure,) = found.failures
    assert (failure.number, failure.text) == (5, given[5])
    expected = {"huge": "scores up to 1e\\+200", "broken": "the model broke", "": "at least one type"}[bad]
    assert expected.replace("\\", "") in failure.error
    assert all(map(same, found, alone[:5] + alone[6:]))
    if bad == "huge":
        with pytest.raises(ModelError, match=expected):
            explainer(given)


def test_a_lot_that_cannot_be_prepared_is_explained_one_by_one(explainer, alone, monkeypatch):
    monkeypatch.setattr(Sgd, "solve_many", lambda self, problems: 1 / 0)
    assert all(map(same, explainer(texts(12)[:4]), alone[:4]))


@dataclass(frozen=True)
class Careless(BlackBoxMethod):
    """A method of someone else whose preparation returns too little."""

    name: str = "careless"

    def prepare(self, contexts):
        return contexts[:1]

    def attribute(self, context):
        return Additive(np.zeros(len(context.units)), float(context.ask(np.ones((1, len(context.units))))[0]))


def test_a_preparation_of_another_number_of_texts_is_ignored(explainer):
    assert len(explainer(texts(3), method=Careless())) == 3


def test_the_time_of_a_lot_is_shared(explainer, monkeypatch):
    solve_many = Sgd.solve_many
    monkeypatch.setattr(Sgd, "solve_many", lambda self, problems: sleep(0.4) or solve_many(self, problems))
    began = perf_counter()
    found = explainer(texts(4, seed=9))
    assert all(e.seconds >= 0.1 for e in found)
    assert sum(e.seconds for e in found) <= perf_counter() - began


def test_a_corpus_in_parts_of_any_size_has_the_same_rows(explainer, tmp_path):
    pytest.importorskip("pyarrow")
    tables = []
    for size in (1, 5, 8):
        corpus.run(texts(8), tmp_path / str(size), explainer, part_size=size, full=True, progress=False)
        tables.append([corpus.open(tmp_path / str(size))[i] for i in range(8)])
    for other in tables[1:]:
        assert all(map(same, tables[0], other))
