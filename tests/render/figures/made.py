"""Explanations with known numbers, without a model."""

import numpy as np

from slalom.core import Slalom
from slalom.result import Explanation, Fidelity

ODD = ["$5_{x}$", "a_b", "C:\\temp\\x", "שלום", "مرحبا", "👍🏽", "映画", "<b>", "$", "\x00bad", "\ud83d", "very " * 30, "naïve"]


def made(units, values, importances, text=None, se=None, background=None, score=1.0, labels=("no", "yes"), target="yes"):
    """An explanation of units that stand in the text one after the other; se are standard errors of the values."""
    text = " ".join(units) if text is None else text
    spans, at = [], 0
    for unit in units:
        start = text.index(unit, at)
        at = start + len(unit)
        spans.append((start, at))
    return Explanation(
        text=text,
        units=tuple(units),
        spans=np.array(spans, dtype=np.int64),
        surrogate=Slalom(values, importances, background),
        score=score,
        target=target,
        labels=labels,
        fidelity=Fidelity(None, None),
        fit_r2=1.0,
        unit="word",
        sizes=np.ones(len(units), dtype=np.int64),
        method="joint",
        seed=0,
        queries=1,
        tokens=1,
        seconds=0.1,
        values_se=se,
        importances_se=None if se is None else np.linspace(0.1, 0.5, len(units)),
    )


def drawn(n, seed=0, **more):
    """An explanation of n words with random numbers."""
    rng = np.random.default_rng(seed)
    names = [f"word{i}" if i % 3 else f"w{i}" for i in range(n)]
    return made(names, 5 * rng.normal(size=n), rng.normal(size=n), **more)


def several():
    """An explanation of three classes."""
    values = np.array([[3.0, -1.0, -2.0], [-1.0, 2.0, -1.0], [0.0, -4.0, 4.0], [0.5, 0.5, -1.0]])
    words = ["red", "green", "blue", "grey"]
    se = np.arange(12.0).reshape(4, 3)
    scores = np.array([0.2, -0.5, 0.3])
    return made(words, values, [1.0, 0.0, 0.5, -1.5], se=se, score=scores, labels=("r", "g", "b"), target="all")


def found(axes, gid):
    """The one artist with this name."""
    (artist,) = axes.findobj(lambda artist: artist.get_gid() == gid)
    return artist


def named(axes, start):
    """All artists whose name starts so."""
    return axes.findobj(lambda artist: (artist.get_gid() or "").startswith(start))
