"""The methods of the arena: each fits answers of a model to parts of one text, and predicts those to any other part.

A method is a function `fit(keep, scores, kinds) -> predict`: which units each of m rows keeps (m, n), the model's scores (m,),
and equal numbers (n,) where units are the same word; `predict` takes rows (k, n) to scores (k,). `@method` names the rows that
it is given: those that `joint` asks ("mixed"), subsets of even sizes ("even") or random halves ("halves").
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LassoCV, Ridge

from arena.answers import Floats, Keep
from slalom.core import Alternating, Joint, Linear, Observed, fit
from slalom.methods import OURS
from slalom.methods.peers import HammingGP, PairsGP, PeerMethod, ProxySpex, Trees
from slalom.text import Units

Predict = Callable[[Keep], Floats]
Fit = Callable[[Keep, Floats, np.ndarray], Predict]


class Method(NamedTuple):
    """A method and the rows that it is given."""

    fit: Fit
    rows: str
    summary: str


METHODS: dict[str, Method] = {}


def method(name: str, rows: str) -> Callable[[Fit], Fit]:
    """Enter a function into the table of methods, under a name."""

    def enter(fit: Fit) -> Fit:
        METHODS[name] = Method(fit, rows, (fit.__doc__ or "").splitlines()[0])
        return fit

    return enter


@method("joint-halves", "halves")
@method("joint-even", "even")
@method("joint", "mixed")
def joint(keep, scores, kinds):
    """The default of slalom."""
    n = len(kinds)
    units = Units(("",) * n, np.zeros((n, 2), dtype=np.int64), np.arange(n), np.arange(n), kinds)
    model = OURS[0].surrogate(units, keep, Observed(scores))
    return lambda rows: model(rows.astype(float))


@method("formula", "even")
def formula(keep, scores, kinds):
    """The formula of slalom alone: values, importances, competition and link."""
    return _of_kinds(Joint(), keep, scores, kinds)


@method("slalom-eff", "even")
def slalom_eff(keep, scores, kinds):
    """The fit of SLALOM-eff (Leemann et al.): values averaged by softmax, without competition or link."""
    return _of_kinds(Alternating(), keep, scores, kinds)


@method("ridge-mixed", "mixed")
@method("ridge", "even")
def ridge(keep, scores, kinds):
    """Ridge regression, its strength by the evidence."""
    return fit(keep, scores, Linear()).model


@method("lasso", "even")
def lasso(keep, scores, kinds):
    """A lasso, as in ContextCite (Cohen-Wang et al.), its strength by cross-validation."""
    return LassoCV(cv=5, max_iter=5000).fit(keep.astype(float), scores).predict


@method("lime", "even")
def lime(keep, scores, kinds):
    """Ridge regression with the weights of LIME (Ribeiro et al.)."""
    distance = 100.0 * (1.0 - np.sqrt(keep.mean(axis=1)))
    return Ridge(alpha=1.0).fit(keep.astype(float), scores, np.exp(-(distance**2) / (2.0 * 25.0**2))).predict


@method("kernel-shap", "even")
def kernel_shap(keep, scores, kinds):
    """A regression with the weights of KernelSHAP (Lundberg and Lee), for rows of even sizes."""
    n, kept = keep.shape[1], keep.sum(axis=1)
    return Ridge(alpha=1e-3).fit(keep.astype(float), scores, (n - 1.0) / np.maximum(kept * (n - kept), 1)).predict


def _enter(name: str, rows: str, peer: PeerMethod) -> None:
    def fit(keep, scores, kinds):
        base, values, part = peer.fit(keep, scores, 0)
        return lambda rows: base + rows @ values + part(rows.astype(float))

    fit.__doc__ = peer.summary
    method(name, rows)(fit)


_enter("trees", "even", Trees())
_enter("proxyspex", "halves", ProxySpex())
_enter("hamming-gp", "even", HammingGP())
_enter("hamming-gp-mixed", "mixed", HammingGP())
_enter("pairs-gp", "even", PairsGP())
_enter("pairs-gp-mixed", "mixed", PairsGP())


def _of_kinds(fitter, keep, scores, kinds):
    """Fit a surrogate whose equal units share their parameters."""
    same = np.eye(kinds.max() + 1)[kinds]
    model = fit(keep @ same, scores, fitter).model
    return lambda rows: model(rows @ same)
