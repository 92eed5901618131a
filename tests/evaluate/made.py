"""Explanations with known scores, and a model that they explain exactly."""

import numpy as np

from slalom import Explainer
from slalom.core import Additive
from slalom.result import Explanation, Fidelity
from slalom.text import words


def explanation(text, effects, *, base=0.0, score=None, labels=("no", "yes"), target=None, **others):
    """Return an additive explanation of the words of a text; the score is what it predicts itself, unless given."""
    effects = np.asarray(effects, dtype=float)
    spans = words(text)
    surrogate = Additive(effects, np.full(effects.shape[1:], base))
    total = surrogate(np.ones((1, len(effects))))[0]
    given = {
        "fidelity": Fidelity(None, None),
        "fit_r2": 1.0,
        "unit": "word",
        "sizes": np.ones(len(effects), dtype=np.int64),
        "method": "made",
        "seed": 0,
        "queries": 0,
        "tokens": 0,
        "seconds": 0.0,
    }
    return Explanation(
        text=text,
        units=tuple(text[a:b] for a, b in spans),
        spans=spans,
        surrogate=surrogate,
        score=total if score is None else score,
        target=target or ("all" if effects.ndim == 2 else labels[-1]),
        labels=labels,
        **(given | others),
    )


def adder(effects, base=0.0, **options):
    """Return an explainer of a model whose log odds are base + the sum of the effects of the words that are there."""

    def log_odds(texts):
        return [base + sum(effects.get(word, 0.0) for word in text.split()) for text in texts]

    return Explainer(log_odds, output="log_odds", labels=["no", "yes"], progress=False, **options)
