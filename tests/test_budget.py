"""Budgets that grow in rounds: when they stop, what they ask, and that the result is that of all their queries."""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

import slalom
from slalom import Explainer
from slalom.budget import falls, gain, half_width, squared_errors
from slalom.core import Additive, Linear, fit
from slalom.errors import InputError, ModelError
from slalom.methods import Method, MethodResult
from slalom.models import engine
from slalom.result import HeldOut, Quality
from slalom.text import Deletions, Scales
from tests.cases import cases
from tests.factories import adder, random_explanation

TEXT = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon"
WORDS = TEXT.split()
EFFECTS = {word: (-1.0) ** i * (1.0 + i / 5) for i, word in enumerate(WORDS)}


class Counted:
    """A model that remembers all texts it was asked about; `noise` is a number that only depends on the text."""

    def __init__(self, noise=0.0, products=0.0):
        self.noise, self.products, self.asked = noise, products, []

    def __call__(self, texts):
        self.asked += texts
        return [self.score(text) for text in texts]

    def score(self, text):
        left = text.split()
        total = sum(EFFECTS.get(word, 0.3) for word in left)
        if self.products:  # every pair of neighbours has an effect of its own
            total += self.products * sum((hash_of(a + b) - 0.5) for a, b in pairwise(left))
        return total + self.noise * (hash_of(text) - 0.5)


def hash_of(text):
    """A number between 0 and 1, the same in every process."""
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big") / 2**32


def explained(model, text=TEXT, **options):
    return Explainer(model, output="log_odds", progress=False)(text, **{"queries": "auto", **options})


def fitted_rows(e):
    """The number of queries besides the held-out ones."""
    return e.queries - len(e.held_out.keep)


# --- when it stops


def test_an_additive_model_needs_one_round():
    model = Counted()
    e = explained(model)
    assert e.stopped == "the held-out error is negligible (round 1)"
    assert fitted_rows(e) == 100
    assert e.removal == pytest.approx([EFFECTS[word] for word in WORDS], abs=0.05)


def test_an_error_that_cannot_fall_ends_the_rounds_early():
    """Three rounds show that more rows do not help where ridge regression meets noise of each query alone."""
    e = explained(Counted(noise=200.0), method="ridge", max_queries=3200)
    assert re.fullmatch(r"the held-out error no longer falls \(round [345]\)", e.stopped)
    assert e.queries < 1800


def test_an_error_that_falls_goes_on():
    """With as many rows as words the effects are poorly known; each round makes them better."""
    text = " ".join(f"{word}{i}" for i in range(6) for word in WORDS)

    def model(texts):
        return [sum(hash_of(word) - 0.5 for word in t.split()) + 0.5 * (hash_of(t) - 0.5) for t in texts]

    few, e = (explained(model, text, method="ridge", max_queries=most) for most in (120, 960))
    assert few.stopped == "max_queries, 120, is reached (round 1)"
    assert fitted_rows(few) == 120
    assert fitted_rows(e) >= 480
    assert e.fidelity.near.mse < 0.5 * few.fidelity.near.mse


def test_a_tolerance_is_reached_where_the_intervals_are_narrow():
    model = Counted(noise=4.0)
    wide, narrow = (explained(model, method=RidgeErrors(), tolerance=t, queries=None) for t in (1.0, 0.3))
    assert wide.queries < narrow.queries
    for e, tolerance in ((wide, 1.0), (narrow, 0.3)):
        width = NormalDist().inv_cdf(0.975) * e.errors["removal"][e.strongest(10)].max()
        assert width == pytest.approx(half_width(e), rel=1e-9)
        assert width <= tolerance
        assert e.stopped.startswith(
            f"the 95% intervals of the strongest units are within ±{width:.2g}, the tolerance is {tolerance:g}"
        )
        assert e.settings["queries"] == "auto"
        assert e.settings["tolerance"] == tolerance


def test_a_noisy_model_goes_to_the_maximum_where_the_tolerance_is_small():
    e = explained(Counted(noise=4.0), method=RidgeErrors(), tolerance=1e-3, max_queries=700)
    assert fitted_rows(e) == 700
    assert e.stopped == (
        f"max_queries, 700, is reached; the 95% intervals of the strongest units are within ±{half_width(e):.2g},"
        " the tolerance is 0.001 (round 4)"
    )


def test_without_standard_errors_the_tolerance_is_one_of_the_error_near_the_text():
    method = slalom.list_methods()["ridge"]
    e = explained(Counted(noise=4.0), method=method, tolerance=2.0)
    error = e.fidelity.near.mse**0.5
    assert error <= 2.0
    assert (
        e.stopped
        == f"the held-out error near the text is {error:.2g}, the tolerance is 2 (ridge has no standard errors) (round 1)"
    )
    far = explained(Counted(noise=4.0), method=method, tolerance=1e-9)
    assert far.stopped.startswith("the held-out error no longer falls; the held-out error near the text is ")


def test_the_maximum_holds():
    for most in (50, 130, 400):
        e = explained(Counted(noise=4.0), method=RidgeErrors(), tolerance=1e-9, max_queries=most)
        assert fitted_rows(e) <= most
        assert f"max_queries, {most}, is reached" in e.stopped


def test_a_short_text_ends_where_no_query_is_left():
    e = explained(Counted(noise=3.0), "alpha beta gamma")
    assert e.queries == 2**3
    assert e.stopped == "no query is left to test it (round 1)"
    longer = explained(Counted(noise=3.0), " ".join(WORDS[:7]), method=RidgeErrors(), tolerance=1e-9)
    assert longer.queries == 2**7
    assert longer.stopped == "no other query is left (round 2)"


def test_methods_without_a_budget_take_auto_and_ignore_it():
    fixed, auto = (explained(Counted(), method="leave-one-out", queries=queries) for queries in (None, "auto"))
    assert (fixed.removal == auto.removal).all()
    assert auto.stopped == ""


# --- the rule


def test_the_gain_and_its_standard_error():
    rng = np.random.default_rng(0)
    before = rng.exponential(size=4000)
    after = before * rng.uniform(0.4, 1.0, 4000)
    share, se = gain(before, after)
    assert share == pytest.approx(1 - after.sum() / before.sum())
    picks = rng.integers(0, 4000, (300, 4000))  # the bootstrap knows the standard error too
    drawn = 1 - after[picks].sum(axis=1) / before[picks].sum(axis=1)
    assert se == pytest.approx(drawn.std(), rel=0.15)
    assert gain(before, before) == (0.0, 0.0)


def scaled(factor, rows=200, seed=0):
    """An explanation whose effects are `factor` times those of its model, which answers with noise."""
    rng, n = np.random.default_rng(seed), 12
    e = random_explanation(n, additive=True, seed=seed)
    keep = rng.random((rows, n)) < 0.6
    scores = e.predict(keep) + rng.normal(size=rows)
    quality = Quality(0.5, 1.0, rows // 2)
    return replace(
        e,
        surrogate=Additive(factor * e.surrogate.effects, e.surrogate.base),
        held_out=HeldOut(keep, scores, rows // 2),
        fidelity=e.fidelity._replace(near=quality, far=quality),
    )


def test_squared_errors_are_those_of_the_fidelity():
    e, other = (explained(Counted(noise=4.0), method="ridge", max_queries=most) for most in (200, 100))
    near, far = squared_errors(other, e)
    assert (near[0].mean(), far[0].mean()) == pytest.approx((other.fidelity.near.mse, other.fidelity.far.mse))
    assert (near[1].mean(), far[1].mean()) == pytest.approx((e.fidelity.near.mse, e.fidelity.far.mse))
    assert other.queries < e.queries


def test_a_clear_gain_falls_and_none_does_not():
    assert falls(scaled(3.0), scaled(1.0))
    assert not falls(scaled(1.0), scaled(3.0))
    assert not falls(scaled(1.0), scaled(1.0))
    assert not falls(scaled(1.001), scaled(1.0)), "a gain below 10% is not worth another round"


def test_a_place_that_is_predicted_worse_than_by_the_mean_does_not_count():
    """`local` learns nothing about subsets of all sizes; a gain there is luck."""
    before, after = scaled(3.0), scaled(1.0)
    near = after.held_out.near
    scores = after.held_out.scores.copy()
    scores[:near] = before.predict(after.held_out.keep[:near])  # the gain is far from the text only
    held = HeldOut(after.held_out.keep, scores, near)
    before, after = (replace(e, held_out=held) for e in (before, after))
    assert falls(before, after)
    useless = after.fidelity._replace(far=Quality(-3.0, 1.0, near))
    assert not falls(before, replace(after, fidelity=useless))


# --- what it asks


@cases("method", ["joint", "eff", "fidel", "ridge", "ridge-scales"])
def test_no_query_is_asked_twice_and_all_are_counted(method):
    model = Counted(noise=4.0, products=1.0)
    explainer = Explainer(
        model, output="log_odds", progress=False, method=method, queries="auto", max_queries=300, unit="token"
    )
    tried = len(model.asked)  # the explainer tries the model out
    e = explainer(TEXT)
    asked = model.asked[tried:]
    assert len(asked) == len(set(asked)) == e.queries
    assert "round 1" not in e.stopped


@cases("sampler", [Scales(), Deletions(), Deletions(most=5, repeats=True)])
def test_the_surrogate_is_that_of_a_fit_on_all_rows(sampler):
    """The plan of the last round, replayed by hand from the texts that the model was asked about."""
    seen = []

    @dataclass(frozen=True)
    class Watched(Method):
        name: str = "watched"

        def plan(self, units, budget, rng, empty):
            return sampler.draw(units.type_of_unit, budget, rng, empty)

        def explain(self, context):
            seen.append(context)
            fitted = fit(context.plan.keep.astype(float), context.scores, Linear(), weights=context.plan.weights)
            return MethodResult(fitted.model, r2=fitted.r2)

    model = Counted(noise=1.0, products=1.0)
    e = explained(model, method=Watched())
    last = seen[-1]
    assert len(seen) >= 2
    texts = [" ".join(word for word, there in zip(WORDS, row, strict=True) if there) for row in last.plan.keep]
    scores = np.array([model.score(text) for text in texts])
    assert np.array_equal(last.scores, scores), "every row has the model's own answer"
    union = fit(last.plan.keep.astype(float), scores, Linear(), weights=last.plan.weights).model
    assert (e.surrogate.effects == union.effects).all()
    for earlier, later in pairwise(seen):
        assert (later.plan.keep[: len(earlier.plan.keep)] == earlier.plan.keep).all(), "the earlier rows stay, in their order"
    held = {row.tobytes() for row in e.held_out.keep}
    assert not any(row.tobytes() in held for row in last.plan.keep), "held-out rows are in no plan"
    assert all(len(np.unique(c.plan.keep, axis=0)) == len(c.plan.keep) for c in seen)


def test_several_texts_ask_together_and_are_explained_as_alone():
    texts = [TEXT, "alpha beta gamma", " ".join(reversed(WORDS)), "mu", TEXT]
    model = Counted(noise=4.0, products=1.0)
    together = explained(model, texts, method="ridge", max_queries=800)
    for text, e in zip(texts, together, strict=True):
        alone = explained(Counted(noise=4.0, products=1.0), text, method="ridge", max_queries=800)
        assert (alone.values == e.values).all()
        assert (alone.queries, alone.stopped, alone.fidelity) == (e.queries, e.stopped, e.fidelity)
    assert len({e.queries for e in together}) > 1, "texts stop when they are done"


# --- errors


class Fragile(Counted):
    """Fails at a text with a word, from a number of queries on."""

    def __init__(self, word, after):
        super().__init__(noise=4.0, products=1.0)
        self.word, self.after = word, after

    def __call__(self, texts):
        if len(self.asked) > self.after and any(self.word in text.split() for text in texts):
            raise RuntimeError("the server is down")
        return super().__call__(texts)


@cases("after", [-1, 300])
def test_a_model_that_fails_in_any_round_fails_for_its_text_only(after):
    texts = [TEXT, " ".join(["broken", *WORDS[1:]]), " ".join(reversed(WORDS))]
    model = Fragile("broken", after + 10)
    model.asked = [""] * 5
    options = {"tolerance": 1e-9, "max_queries": 400, "method": RidgeErrors()}
    found = Explainer(model, output="log_odds", progress=False)(texts, errors="keep", **options)
    assert [failure.number for failure in found.failures] == [1]
    assert "the server is down" in found.failures[0].error
    assert [e.text for e in found] == [texts[0], texts[2]]
    with pytest.raises(ModelError, match="the server is down"):
        Explainer(Fragile("broken", after + 10), output="log_odds", progress=False)(texts, **options)


# --- options


@cases(
    ("options", "message"),
    [
        ({"queries": "many"}, "queries must be a whole number of at least 2, or 'auto'; got 'many'"),
        ({"queries": 1}, "queries must be a whole number of at least 2; got 1"),
        (
            {"queries": "auto", "tolerance": -1},
            "tolerance must be a number above 0, in units of the score, such as 0.1; got -1",
        ),
        ({"queries": "auto", "tolerance": "0.1"}, "tolerance must be a number above 0.*got '0.1'"),
        ({"queries": "auto", "tolerance": float("nan")}, "tolerance must be a number above 0.*got nan"),
        ({"queries": "auto", "tolerance": True}, "tolerance must be a number above 0.*got True"),
        ({"queries": "auto", "max_queries": 1}, "max_queries must be a whole number of at least 2; got 1"),
        ({"queries": 500, "tolerance": 0.1}, "tolerance is a goal of queries='auto'; got queries=500"),
        (
            {"queries": "auto", "check": 0},
            "queries='auto' needs at least 20 held-out queries; got check=0; leave it out for 100",
        ),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, message):
    for make in (lambda: adder({}, **options), lambda: adder({})("a b", **options)):
        with pytest.raises(InputError, match=message) as refused:
            make()
        assert "\n" not in str(refused.value)


def test_options_of_a_call_replace_those_of_the_explainer():
    explainer = adder(EFFECTS, queries="auto", tolerance=0.1, max_queries=300, method=RidgeErrors())
    assert explainer(TEXT).settings["tolerance"] == 0.1
    fixed = explainer(TEXT, queries=60)
    assert fixed.settings["queries"] == 60
    assert "tolerance" not in fixed.settings
    assert fixed.stopped == ""
    assert explainer(TEXT, queries=None).settings["queries"] is None
    by_error = explainer(TEXT, tolerance=None)
    assert (by_error.settings["tolerance"], by_error.settings["max_queries"]) == (None, 300)
    assert adder(EFFECTS, queries=60, method="ridge")(TEXT, tolerance=0.1).settings["queries"] == "auto", (
        "a tolerance implies auto"
    )
    assert explainer.pipeline.matches(explainer(TEXT), explainer.options)
    assert not explainer.pipeline.matches(fixed, explainer.options)


def test_the_progress_bar_names_the_round(monkeypatch, capsys):
    monkeypatch.setattr(engine, "_PROGRESS_DELAY", 0)
    explainer = Explainer(Counted(noise=4.0), output="log_odds", progress=True)
    explainer(TEXT, method=RidgeErrors(), tolerance=1e-9, max_queries=300)
    shown = capsys.readouterr().err
    assert [f"asking, round {number}" in shown for number in (1, 2, 3, 4)] == [True, True, True, False]
    explainer(TEXT, queries=50)
    assert "round" not in capsys.readouterr().err


# --- methods of the tests


@dataclass(frozen=True)
class RidgeErrors(Method):
    """Least squares on Scales with the usual standard errors, which become smaller with every round."""

    name: str = "least-squares"

    def plan(self, units, budget, rng, empty):
        return Scales().draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context):
        x = np.column_stack([np.ones(len(context.scores)), context.plan.keep])
        inverse = np.linalg.pinv(x.T @ x)
        effects = inverse @ x.T @ context.scores
        noise = ((context.scores - x @ effects) ** 2).sum() / max(len(x) - x.shape[1], 1)
        errors = np.sqrt(noise * np.diag(inverse))[1:]
        return MethodResult(Additive(effects[1:], effects[0]), errors={"removal": errors})
