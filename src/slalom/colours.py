"""The colours of every picture and page, in one place: blue speaks for the target, orange against it.

The pair is told apart by people with any kind of colour blindness. Colours are laid over the page as a wash of at most
`STRONGEST`, so that black text on a white page and white text on a black one stay readable.
"""

import numpy as np

from slalom.core.checks import Floats

FOR = (33, 102, 172)
AGAINST = (217, 95, 2)
LOUD = (117, 112, 179)  # importances, which have no sign
STRONGEST = 0.6


def strengths(scores: Floats) -> Floats:
    """Return scores (n,) as shares of the strongest, in [-1, 1]; zeros where all are zero.

    >>> strengths(np.array([1.0, -4.0])).tolist()
    [0.25, -1.0]
    """
    top = float(np.abs(scores).max(initial=0.0))
    return np.zeros_like(scores) if top == 0.0 else np.asarray(scores / top)


def wash(strength: float) -> str:
    """Return the CSS colour of a strength in [-1, 1].

    >>> wash(1.0), wash(-0.5)
    ('rgba(33,102,172,0.600)', 'rgba(217,95,2,0.300)')
    """
    red, green, blue = FOR if strength > 0 else AGAINST
    return f"rgba({red},{green},{blue},{STRONGEST * abs(strength):.3f})"
