"""Explanations with every part that a page must show, from models with known answers."""

from dataclasses import replace

import numpy as np

from slalom import Explainer
from slalom.core import Lengths, Link, Slalom
from slalom.result import Explanation, Fidelity, Quality
from slalom.theory.oracle import Oracle

TEXT = "A good film, not bad at all.\n\nThe end   is dull, and the music good."
NASTY = "</script><script>window.hacked=1</script> <img src=x onerror=window.hacked=2> a\u2028b & \"c\" 'd' <!-- ]]>"
LABELS = ['<img src=x onerror="window.hacked=3">', "</script><script>window.hacked=4</script>"]


def fitted(text=TEXT, **options):
    """A real fit, with standard errors and held-out queries."""
    oracle = Oracle({"good": 3.0, "bad": -5.0, "dull": -2.0, "film,": 2.0}, {"bad": 1.0, "dull": 0.5}, (0.1, 0.5))
    return Explainer(oracle, output="log_odds", labels=["negative", "positive"], queries=150, **options)(text)


def nasty():
    e = Explainer(lambda texts: [float(t.count("a")) for t in texts], output="log_odds", labels=LABELS, queries=60)(NASTY)
    return replace(
        e,
        model="<script>window.hacked=5</script>",
        diagnosis="<img src=x onerror=window.hacked=6>",
        units=tuple(f"<b>{unit}</b>" for unit in e.units),
        versions={"<i>": "</dd><script>window.hacked=7</script>"},
    )


def three():
    def logits(texts):
        return np.array([[t.count("o"), t.count("a"), 0.1 * len(t)] for t in texts], dtype=float)

    return Explainer(logits, output="logits", labels=["o", "a", "long"], queries=120, target="all")(TEXT)


def made(n=12, classes=None, background=True, link=True, lengths=False, seed=0, unit="word"):
    """A surrogate out of the air: every part of `predict` can be there or not."""
    r = np.random.default_rng(seed)
    shape = (n,) if classes is None else (n, classes)
    back = (r.normal(size=shape[1:]), 0.7) if background else None
    saturating = Link(r.normal(size=shape[1:]) * 0.1, np.full(shape[1:], 1.5)[()]) if link else None
    words = [f"w{i}" for i in range(n)]
    starts = np.cumsum([0] + [len(word) + 1 for word in words])[:-1]
    sizes = r.integers(1, 4, n)
    offsets = r.normal(size=(int(sizes.sum()) - 1, *shape[1:]))  # one too short: the last one is clipped
    model = Slalom(r.normal(size=shape), r.normal(size=n) * 2, back, saturating)
    score = model(np.ones((1, n)))[0]
    odds = np.array([-score, score]) if classes is None else score
    return Explanation(
        text=" ".join(words),
        units=tuple(words),
        spans=np.stack([starts, starts + [len(word) for word in words]], axis=1),
        surrogate=model,
        score=float(score) if classes is None else score,
        target="yes" if classes is None else "all",
        labels=("no", "yes") if classes is None else tuple(f"class {c}" for c in range(classes)),
        fidelity=Fidelity(Quality(0.91, 0.0123, 40), Quality(None, 0.5, 30)),
        fit_r2=0.97,
        unit=unit,
        sizes=sizes,
        method="joint",
        seed=seed,
        queries=1234,
        tokens=98765,
        seconds=1.5,
        lengths=Lengths(offsets) if lengths else None,
        probabilities=np.exp(odds) / np.exp(odds).sum(),
    )
