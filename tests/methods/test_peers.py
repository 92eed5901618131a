"""Peers against their own packages: trees, ProxySPEX, Gaussian processes and the lasso, on all masks of small texts."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from slalom import Explainer, Explanation
from slalom.core import Conjunctions, Neighbours
from slalom.errors import InputError, MissingExtra
from slalom.methods import method, peers
from slalom.methods.peers import HammingGP, PairsGP, ProxySpex, Trees
from slalom.text import Units
from tests.cases import cases

N = 8
ALL = (np.arange(2**N)[:, None] >> np.arange(N) & 1).astype(bool)
INSTALLED = [peer for peer in peers.PEERS if not peer.extra or find_spec("lightgbm")]
FEW = (50, 100)
ROUNDS = peers._ROUNDS
TEXT = "the film was not very good at all"


def game(keep):
    z = np.asarray(keep, dtype=float)
    return 1.0 + 2.0 * z[:, 0] - z[:, 1] + 1.5 * z[:, 2] * z[:, 3] - 2.0 * z[:, 4] * z[:, 5] * z[:, 6] + 0.3 * z[:, 7]


def bends(texts):
    words = [text.split() for text in texts]
    return [2.0 * ("good" in w) - 3.0 * ("good" in w and "not" in w) + 0.1 * len(w) + 0.2 * ("at" in w) for w in words]


def rows(number, n=N, seed=0):
    return np.random.default_rng(seed).permutation(2**n)[:number, None] >> np.arange(n) & 1 == 1


def value(function, keep):
    """The predictions of a fitted function of masks."""
    return function.base + keep @ function.values + function.part(keep.astype(float))


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """A tenth of the trees, here and in other packages; the test of the grid has the real numbers."""
    monkeypatch.setattr(peers, "_ROUNDS", FEW)


@pytest.fixture(scope="module")
def booster():
    pytest.importorskip("lightgbm")
    keep = rows(200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "_ROUNDS", FEW)
        return peers.boosted(keep, game(keep), 3)


def test_leaves_predict_as_lightgbm_does(booster):
    terms = peers._leaves(booster)
    np.testing.assert_allclose(value(peers._function(N, terms), ALL), booster.predict(ALL.astype(float)), atol=1e-12)


def test_fourier_coefficients_of_trees_are_those_of_all_masks(booster):
    signs = 1.0 - 2.0 * (ALL.astype(int) @ ALL.T % 2)  # (masks, sets)
    expected = signs.T @ booster.predict(ALL.astype(float)) / len(ALL)
    coefficients = peers.fourier(peers._leaves(booster))
    found = [coefficients.get(tuple(np.flatnonzero(units).tolist()), 0.0) for units in ALL]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    back = peers._function(N, peers.polynomial(coefficients))
    np.testing.assert_allclose(value(back, ALL), booster.predict(ALL.astype(float)), atol=1e-10)


def test_the_strongest_coefficients_hold_the_energy():
    coefficients = {(): 9.0, (0,): 3.0, (1,): 1.0, (0, 1): 0.5, (2,): 0.1}
    assert peers.strongest(coefficients) == [(), (0,), (1,)]  # 10 of 10.26
    assert peers.strongest({(): 0.0}) == [()]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # LightGBM 4.6 with scikit-learn 1.9
def test_trees_have_the_settings_that_cross_validation_prefers():
    pytest.importorskip("lightgbm")
    from lightgbm import LGBMRegressor  # noqa: PLC0415
    from sklearn.model_selection import GridSearchCV  # noqa: PLC0415

    keep = rows(220, seed=1)
    assert ROUNDS == (500, 1000), "those of ProxySPEX"
    grid = {"max_depth": [3, 5], "n_estimators": [*FEW], "learning_rate": [0.01, 0.1]}
    search = GridSearchCV(LGBMRegressor(verbose=-1, n_jobs=1), grid, scoring="r2", cv=5)
    scores = game(keep) + np.random.default_rng(1).normal(size=len(keep))
    theirs = search.fit(keep.astype(float), scores).best_estimator_.booster_
    np.testing.assert_allclose(peers.boosted(keep, scores, 0).predict(ALL), theirs.predict(ALL), atol=1e-12)


def test_proxyspex_is_that_of_shapiq():
    shapiq = pytest.importorskip("shapiq")
    pytest.importorskip("lightgbm")
    asked = []

    def played(masks):
        asked.append(np.array(masks, dtype=bool))
        return game(masks) + 0.3 * np.sin(17.0 * masks @ np.arange(1, N + 1))

    proxy = shapiq.ProxySPEX(n=N, index="FBII", max_order=N, random_state=5)
    assert proxy.decoder_args["max_iter"] == [*ROUNDS]
    proxy.decoder_args["max_iter"] = [*FEW]
    theirs = proxy.approximate(220, played)
    expected = [
        sum(theirs.values[k] for units, k in theirs.interaction_lookup.items() if row[list(units)].all()) for row in ALL
    ]
    keep = asked[0]
    ours = ProxySpex().fit(keep, played(keep), 5)
    np.testing.assert_allclose(value(ours, ALL), expected, atol=1e-6)


def kernels(name, logs):
    """The kernel of each Gaussian process from all masks to all masks, from its equation."""
    if name == "hamming-gp":
        differ = ALL[:, None, :] != ALL
        return np.exp(logs[N]) * np.exp(-(differ / np.exp(-logs[:N])).mean(axis=2))
    t = (2.0 * ALL - 1.0) @ (2.0 * ALL - 1.0).T / N
    a, b, c = np.exp(logs[:3])
    return a + b * t + c * t**2


@cases("gp", [HammingGP(), PairsGP()], ids=["hamming", "pairs"])
def test_gaussian_processes_predict_as_scikit_learn_does(gp):
    process = pytest.importorskip("sklearn.gaussian_process")
    from sklearn.gaussian_process.kernels import Kernel  # noqa: PLC0415

    at = np.random.default_rng(2).permutation(len(ALL))[:90]
    scores = game(ALL[at])
    logs, _ = peers.most_probable(gp.process(ALL[at]), (scores - scores.mean()) / scores.std())
    matrix = kernels(gp.name, logs)

    class Fixed(Kernel):
        def __init__(self):
            pass

        def __call__(self, X, Y=None, eval_gradient=False):
            return matrix[np.ix_(X[:, 0].astype(int), (X if Y is None else Y)[:, 0].astype(int))]

        def diag(self, X):
            return np.diag(matrix)[X[:, 0].astype(int)]

        def is_stationary(self):
            return False

    peer = process.GaussianProcessRegressor(Fixed(), alpha=np.exp(logs[-1]), optimizer=None, normalize_y=True)
    peer.fit(at[:, None], scores)
    found = value(gp.fit(ALL[at], scores, 0), ALL)
    np.testing.assert_allclose(found, peer.predict(np.arange(len(ALL))[:, None]), atol=1e-8)
    ours, standard = gp.process(ALL[at]), (scores - scores.mean()) / scores.std()
    away = (logs - ours.means) / ours.widths
    evidence = peers.loss(logs, ours, standard)[0] - 0.5 * away @ away + 0.5 * len(at) * np.log(2.0 * np.pi)
    assert -evidence == pytest.approx(peer.log_marginal_likelihood_value_)
    assert np.mean((found - game(ALL)) ** 2) < (0.1 if gp.name == "hamming-gp" else 0.3) * np.var(game(ALL))


@cases("gp", [HammingGP(), PairsGP()], ids=["hamming", "pairs"])
def test_the_slopes_of_the_evidence_are_those_of_its_values(gp):
    keep = rows(60)
    process, scores = gp.process(keep), game(keep) - game(keep).mean()
    logs = process.means + np.random.default_rng(3).normal(size=len(process.means))
    slopes = approx_fprime(logs, lambda x: peers.loss(x, process, scores)[0], 1e-6)
    np.testing.assert_allclose(peers.loss(logs, process, scores)[1], slopes, rtol=1e-4, atol=1e-4)
    best = peers.most_probable(process, scores)[0]
    assert np.abs(peers.loss(best, process, scores)[1][(np.abs(best) < 13.9) & (best != -9.2)]).max() < 1e-2


def test_all_pairs_are_found_exactly():
    keep = rows(120)
    scores = 1.0 + 2.0 * keep[:, 0] - keep[:, 1] + 3.0 * keep[:, 0] * keep[:, 2] - keep[:, 6] * keep[:, 7]
    function = PairsGP().fit(keep, scores, 0)
    pairs = dict(zip(map(tuple, function.part.literals.tolist()), function.part.effects.tolist(), strict=True))
    assert pairs[1, 3] == pytest.approx(3.0, abs=0.05)
    assert pairs[7, 8] == pytest.approx(-1.0, abs=0.05)
    assert function.values[:3] == pytest.approx([2.0, -1.0, 0.0], abs=0.05)


def test_the_lasso_is_that_of_cross_validation():
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    explainer = Explainer(bends, output="log_odds", unit="word")
    e = explainer(TEXT, method="lasso", queries=100, check=0, seed=4)
    units = Units(e.units, e.spans, np.arange(N), np.arange(N))
    asked = method("lasso").plan(units, 100, np.random.default_rng(4), empty=True).keep
    peer = make_pipeline(StandardScaler(), linear.LassoCV(cv=5, max_iter=10_000)).fit(asked, explainer.ask(e, asked))
    assert e.additive
    assert np.ptp(e.predict(ALL)) > 1.0
    np.testing.assert_allclose(e.predict(ALL), peer.predict(ALL), atol=1e-6)


@cases(
    "part",
    [Conjunctions(3, [[1, -2, 3], [2, 0, 0], [-3, 1, 0]], [1.0, -2.0, 0.5]), Neighbours(ALL[:5, :3], [1, 2, 3], range(5))],
)
def test_units_with_one_parameter_share_it(part):
    types = np.array([0, 1, 0, 2, 2, 2])
    shares = np.array([[np.mean(row[types == t]) for t in range(3)] for row in ALL[:, :6]])
    np.testing.assert_allclose(peers._shared(part, types)(ALL[:, :6].astype(float)), part(shares), atol=1e-12)


@cases("peer", INSTALLED)
def test_explanations_are_saved_and_sum_up(peer):
    e = Explainer(bends, output="log_odds", unit="word")(TEXT, method=peer, queries=150)
    assert e.fidelity.far.r2 > 0.7
    back = Explanation.from_dict(json.loads(json.dumps(e.to_dict())))
    np.testing.assert_array_equal(back.predict(ALL), e.predict(ALL))
    whole = np.ones(N, dtype=bool)
    predicted = [e.predict(whole) - e.predict(whole & (np.arange(N) != i)) for i in range(N)]
    np.testing.assert_allclose(e.removal, predicted, atol=1e-12)
    assert e.scores("shapley").sum() == pytest.approx(e.predict(whole) - e.predict(~whole))
    words = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_allclose(e.surrogate.merged(words)(np.eye(3)), e.predict(words == np.arange(3)[:, None]), atol=1e-12)


@cases("peer", INSTALLED)
def test_what_cannot_be_fitted_is_a_constant_or_one_line(peer):
    constant = Explainer(lambda texts: [1.5] * len(texts), output="log_odds")(TEXT, method=peer, queries=40)
    assert not constant.removal.any()
    assert constant.predict(ALL) == pytest.approx(np.full(len(ALL), 1.5))
    several = Explainer(lambda texts: [[x, 0.0, 1.0] for x in bends(texts)], output="logits", target="all")
    with pytest.raises(InputError, match=f"method '{peer.name}' explains one class at a time"):
        several(TEXT, method=peer)


@cases("peer", [Trees(), ProxySpex()])
def test_a_missing_package_is_named_with_its_extra(peer, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    asked = []

    def counting(texts):
        asked.extend(texts)
        return bends(texts)

    explainer = Explainer(counting, output="log_odds")
    before = len(asked)
    message = r"^this method needs lightgbm and scikit-learn; install them with: pip install 'slalom-xai\[peers\]'$"
    with pytest.raises(MissingExtra, match=message):
        explainer(TEXT, method=peer, queries=40)
    assert len(asked) == before
