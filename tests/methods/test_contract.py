"""What holds for every method that only queries a model: built-in ones and one as a plugin would bring it."""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Additive
from slalom.methods import BlackBoxMethod, list_methods, peers
from tests.cases import cases

pytestmark = [
    pytest.mark.filterwarnings("ignore:The set_.* function"),  # of shap, when it is imported
    pytest.mark.filterwarnings("ignore:Regressors in active set degenerate"),  # of shap, with few queries
]
TEXT = "a good film with a good cast"
BUDGET, CHECK, WHOLE = 24, 6, 1  # every explanation asks about the whole text, which the budget need not cover


@dataclass(frozen=True)
class Halves(BlackBoxMethod):
    """Half of what leave-one-out finds, as a method of another package."""

    name: str = "halves"

    def attribute(self, context):
        n = len(context.units)
        keep = np.concatenate([np.ones((1, n)), 1.0 - np.eye(n)])[: context.budget]
        whole, *without = context.ask(keep)
        effects = np.zeros(n)
        effects[: len(without)] = whole - np.array(without)
        return Additive(effects / 2, whole)


def installed(method):
    """Whether the package of a baseline is there."""
    packages = {"baselines": "lime" if method.name == "lime" else "shap", "peers": "lightgbm"}
    return method.extra not in packages or find_spec(packages[method.extra]) is not None


METHODS = {name: method for name, method in list_methods().items() if method.needs == ("queries",) and installed(method)}
METHODS["halves"] = Halves()


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """Trees: what holds for every method does not need a thousand of them."""
    monkeypatch.setattr(peers, "_ROUNDS", (50, 100))


class Counting:
    """A callable that knows which texts it was asked about."""

    def __init__(self):
        self.asked = set()

    def __call__(self, texts):
        self.asked.update(texts)
        return [2.0 * text.count("good") - ("with" in text) + 0.1 * len(text.split()) for text in texts]


def explained(method, text=TEXT, model=None, **options):
    options = {"queries": BUDGET, "check": CHECK, **options}
    return Explainer(model or Counting(), output="log_odds", unit="token")(text, method=method, **options)


@cases("method", METHODS.values(), ids=list(METHODS))
def test_there_is_one_finite_score_per_unit_and_the_seed_decides_everything(method):
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    e, again = (explained(method, seed=2**63 - 1) for _ in range(2))
    assert np.random.random() == expected  # noqa: NPY002
    assert e.units == tuple(TEXT.split())
    assert e.removal.shape == (7,)
    assert np.isfinite(e.removal).all()
    assert np.isfinite(e.predict(np.eye(7, dtype=bool))).all()
    assert (e.method, e.signed) == (method.name, method.signed)
    if e.signed:
        assert e.removal[1] > 0 > e.removal[3]  # "good" raises the score, "with" lowers it
    assert np.array_equal(e.removal, again.removal)
    assert (e.seed, e.queries) == (2**63 - 1, again.queries)


@cases("budget", [2, BUDGET])
@cases("method", METHODS.values(), ids=list(METHODS))
def test_the_budget_is_kept(method, budget):
    model = Counting()
    explainer = Explainer(model, output="log_odds", unit="token")
    model.asked.clear()  # an Explainer tries its model
    e = explainer(TEXT, method=method, queries=budget, check=CHECK)
    allowed = (budget if method.takes_budget else len(e.units)) + CHECK + WHOLE
    assert e.queries <= allowed
    assert len(model.asked - {"", "a"}) <= e.queries


@cases("method", METHODS.values(), ids=list(METHODS))
def test_a_text_of_one_unit_is_explained(method):
    e = explained(method, "good")
    assert e.removal.shape == (1,)
    assert np.isfinite(e.removal).all()
    if method.name in ("leave-one-out", "kernel-shap", "partition-shap"):
        assert e.removal == pytest.approx(2.1)  # the score of the text less that of nothing
        assert e.predict([True]) == pytest.approx(2.1)


@cases("method", METHODS.values(), ids=list(METHODS))
def test_repeated_words_share_their_score_where_units_are_types(method):
    apart, shared = (explained(method, "good film good end", unit=unit) for unit in ("token", "type"))
    assert apart.units == shared.units == ("good", "film", "good", "end")
    assert shared.removal[0] == pytest.approx(shared.removal[2], rel=1e-12)
    assert np.isfinite([apart.removal, shared.removal]).all()


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match=r"an option of a call must be .*; got 'samples'"):
        explained(METHODS["halves"], samples=5)
