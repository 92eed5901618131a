"""Shapley values of the model: no bias, intervals that hold with any surrogate, exact where every part of the text is asked."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from slalom import Explainer
from slalom.core import Slalom
from slalom.core.certified import FOLDS, Control, corrected, draw_pairs
from slalom.errors import InputError
from tests.cases import cases

TEXT = "one two three four five six seven"
WORDS = TEXT.split()


def game(seed, n):
    """Random scores of all 2^n sets, and their Shapley values by the definition."""
    scores = np.random.default_rng(seed).normal(size=2**n)
    return scores, by_definition(scores, n)


def by_definition(scores, n):
    sets = np.arange(2**n)
    sizes = np.array([s.bit_count() for s in sets.tolist()])
    weights = np.array([1.0 / (n * comb(n - 1, k)) for k in range(n)])
    values = []
    for i in range(n):
        without = sets[sets >> i & 1 == 0]
        values.append(((scores[without | 1 << i] - scores[without]) * weights[sizes[without]]).sum())
    return np.array(values)


def differences(scores, keep):
    rows = keep @ (1 << np.arange(keep.shape[1]))
    return (scores[rows] - scores[len(scores) - 1 - rows])[:, None]


def control_of(scores, values, keep):
    return Control(values[:, None], differences(scores, keep), np.array([scores[-1] - scores[0]]))


def estimated(seed, number, truth, surrogates):
    """The estimate for a game, corrected from a surrogate per fold."""
    n, rng = len(truth[1]), np.random.default_rng(seed)
    pairs = draw_pairs(n, number, rng)
    fold = pairs.folds(len(surrogates), rng)
    controls = [control_of(*surrogate, pairs.keep) for surrogate in surrogates]
    scores = truth[0]
    return corrected(pairs, differences(scores, pairs.keep), np.array([scores[-1] - scores[0]]), controls, fold)


@cases("n", [1, 2, 3, 4, 7])
def test_all_pairs_give_the_values_of_the_definition(n):
    truth, wrong = game(n, n), game(100 + n, n)
    found = estimated(0, 2 ** (n - 1) - 1, truth, [wrong])
    assert np.allclose(found[0][:, 0], truth[1], atol=1e-12)
    assert np.abs(found[2]).max() == 0.0


@cases("surrogates", [1, FOLDS])
@cases("number", [6, 20])
def test_there_is_no_bias_whatever_the_surrogates_are(surrogates, number):
    truth = game(0, 6)
    fits = [game(10 + k, 6) for k in range(surrogates)]
    found = np.array([estimated(seed, number, truth, fits)[0][:, 0] for seed in range(300)])
    error, standard = found.mean(axis=0) - truth[1], found.std(axis=0) / np.sqrt(len(found))
    assert np.abs(error / standard).max() < 4.0
    assert np.allclose(found.sum(axis=1), truth[0][-1] - truth[0][0])


def test_folds_that_learn_from_the_other_pairs_bring_no_bias():
    """The surrogate of a fold repeats the answers that it has seen and knows nothing else: in-sample residuals are zero."""
    n, found = 6, []
    scores, values = game(0, n)
    for seed in range(250):
        rng = np.random.default_rng(seed)
        pairs = draw_pairs(n, 14, rng)
        fold, controls = pairs.folds(FOLDS, rng), []
        for k in range(FOLDS):
            seen = pairs.keep[fold != k] @ (1 << np.arange(n))
            known = np.zeros(2**n)
            known[seen], known[2**n - 1 - seen] = scores[seen], scores[2**n - 1 - seen]
            controls.append(control_of(known, by_definition(known, n), pairs.keep))
        whole = np.array([scores[-1] - scores[0]])
        found.append(corrected(pairs, differences(scores, pairs.keep), whole, controls, fold)[0][:, 0])
    error, standard = np.mean(found, axis=0) - values, np.std(found, axis=0) / np.sqrt(len(found))
    assert np.abs(error / standard).max() < 4.0


@cases("number", [20, 60])
def test_intervals_hold_with_a_surrogate_that_is_noise(number):
    holds = []
    for seed in range(200):
        truth, wrong = game([seed, 0], 8), game([seed, 1], 8)
        found = estimated(seed, number, truth, [wrong])
        holds.append(np.abs(found[0][:, 0] - truth[1]) <= found[2][:, 0])
    assert binom.cdf(np.sum([one[0] for one in holds]), 200, 0.95) > 1e-3  # one unit of each game: independent
    assert 0.93 < np.mean(holds) < 0.98


@cases(("n", "number"), [(12, 5), (12, 49), (13, 200), (40, 30), (300, 99)])
def test_strata_hold_the_number_of_pairs_and_enough_for_each_fold(n, number):
    pairs = draw_pairs(n, number, np.random.default_rng(0))
    size = pairs.keep.sum(axis=1)
    assert len(pairs.keep) == number == pairs.counts.sum()
    assert size.min() >= 1
    assert size.max() <= n // 2
    sampled = pairs.counts < pairs.population
    assert pairs.counts[sampled].min() >= FOLDS
    fold = pairs.folds(FOLDS, np.random.default_rng(1))
    assert all(len(set(fold[pairs.stratum == b])) == FOLDS for b in np.flatnonzero(sampled))
    finite = np.isfinite(pairs.population[pairs.stratum])
    assert len(np.unique(pairs.keep[finite], axis=0)) == finite.sum()
    assert np.allclose(pairs.weights.sum(axis=1), 0.0)


# --- through the Explainer


def products(texts):
    """Scores that no formula of ours has: products over the words that are present, and a rare word alone."""
    return [
        2.0 * ("two" in t and "five" in t) - 3.0 * ("one" in t and "four" in t and "seven" not in t) + 0.3 * len(t.split())
        for t in texts
    ]


def explainer(function=products, **options):
    return Explainer(function, output="log_odds", unit="word", check=0, pairs=False, **options)


def exact(function=products, words=WORDS):
    n = len(words)
    texts = [" ".join(word for i, word in enumerate(words) if s >> i & 1) for s in range(2**n)]
    return by_definition(np.array(function(texts), dtype=float), n)


def test_enough_queries_make_the_values_exact():
    x = explainer()
    found = x.shapley(x(TEXT, queries=10), queries=128)
    assert np.allclose(found.values, exact(), atol=1e-9)
    assert np.abs(found.interval - found.values[:, None]).max() == found.errors.max() == 0.0
    assert found.queries == 128
    one = x.shapley(x("two", queries=2), queries=2)
    assert one.values == pytest.approx(0.3)
    assert one.queries == 2


def test_an_additive_model_is_found_exactly():
    x = explainer(lambda texts: [float(sum(len(word) for word in t.split())) for t in texts])
    found = x.shapley(x(TEXT, queries=20), queries=40)
    assert np.allclose(found.values, [len(word) for word in WORDS], atol=0.02)
    assert found.errors.max() < 0.02


def test_intervals_hold_and_the_surrogate_of_the_explanation_changes_nothing():
    x, truth, holds = explainer(), exact(), []
    e = x(TEXT, queries=30)
    wrong = replace(e, surrogate=Slalom(np.linspace(9.0, -9.0, 7), np.zeros(7)))
    for seed in range(10):
        found = x.shapley(e, queries=60, seed=seed)
        assert seed > 2 or found.to_dict() == x.shapley(wrong, queries=60, seed=seed).to_dict()
        assert found.values.sum() == pytest.approx(truth.sum())
        holds.append((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1]))
    assert np.mean(holds) > 0.9


def test_a_seed_gives_the_same_values_and_asks_nothing_again():
    asked = []
    x = explainer(lambda texts: [asked.append(t) or float(products([t])[0]) for t in texts], identity="products")
    e = x(TEXT, queries=30)
    first = x.shapley(e, queries=60, seed=3)
    before = len(asked)
    again = x.shapley(e, queries=60, seed=3)
    assert len(asked) == before
    assert first.to_dict() == again.to_dict()
    assert not np.array_equal(first.values, x.shapley(e, queries=60, seed=4).values)
    assert first.queries <= 60


def test_all_classes_have_values_that_sum_to_zero():
    def logits(texts):
        return [[1.0 * ("one" in t), 2.0 * ("two" in t and "three" in t), -1.0 * ("six" in t)] for t in texts]

    x = Explainer(logits, output="logits", labels=["a", "b", "c"], unit="word", check=0)
    found = x.shapley(x(TEXT, queries=40, target="all"), queries=100)
    assert found.values.shape == found.errors.shape == (7, 3)
    assert found.interval.shape == (7, 2, 3)
    assert np.allclose(found.values.sum(axis=1), 0.0, atol=1e-9)
    assert np.allclose(
        found.values.sum(axis=0), x.ask(x(TEXT, queries=40, target="all"), np.ones(7)) - [0.0, 0.0, 0.0], atol=1e-9
    )
    assert str(found).splitlines()[1].endswith(("  a", "  b", "  c"))


def test_the_table_and_the_dictionary_have_every_unit():
    x = explainer()
    found = x.shapley(x("to be or not to be two five", queries=30), queries=120)
    lines = str(found).splitlines()
    assert lines[0].startswith("Shapley values of the model (1), 95% intervals, ")
    assert len(lines) == 9
    assert any(line.startswith("to (2)") for line in lines)
    assert found.table(3).splitlines()[-1] == "5 more"
    saved = found.to_dict()
    assert saved["units"] == list(found.units)
    assert np.array_equal(saved["interval"], found.interval)


def test_what_does_not_fit_is_an_error():
    x = explainer()
    e = x(TEXT, queries=20)
    with pytest.raises(InputError, match="Shapley values of 7 units need at least 12 queries; got 11"):
        x.shapley(e, queries=11)
    with pytest.raises(InputError, match="of 3 units need at least 8 queries; got 7"):
        x.shapley(x("one two three", queries=8), queries=7)
    with pytest.raises(InputError, match="queries must be a whole number of at least 1; got"):
        x.shapley(e, queries=2.5)
    with pytest.raises(InputError, match="ask the model that was explained"):
        x.shapley(replace(e, target="another"))
    with pytest.raises(InputError, match="reads the text as 8 words, the explanation has 7"):
        x.shapley(replace(e, text=TEXT + " eight"))
    bounds = x.model.observe
    x.model.observe = lambda outputs, target: bounds(outputs, target)._replace(
        lower=np.full(len(outputs), -9.0), upper=np.full(len(outputs), 9.0)
    )
    with pytest.raises(InputError, match="need exact scores"):
        x.shapley(e, queries=60)


def test_tiny_scores_have_errors_as_others_have():
    """Squares of such scores are 0: they are brought to a usual size first."""
    tiny = explainer(lambda texts: [1e-200 * score for score in products(texts)])
    x = explainer()
    small, usual = (one.shapley(one(TEXT, queries=10), queries=40) for one in (tiny, x))
    assert np.allclose(small.values / 1e-200, usual.values, rtol=1e-6)
    assert np.allclose(small.errors / 1e-200, usual.errors, rtol=1e-6)
    assert usual.errors.min() > 0.0


def test_few_queries_are_said_to_be_few():
    x = explainer()
    e = x(TEXT, queries=10)
    assert "may be too narrow" in x.shapley(e, queries=40).table()
    assert "too narrow" not in x.shapley(e, queries=120).table()
    assert "too narrow" not in x.shapley(e, queries=128).table()
    with pytest.raises(InputError, match="seed"):
        x.shapley(e, queries=40, seed=-1)
