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

# Methods side by side: ours in strong colours, the others in quiet ones, again and again; each on white paper and on dark.
OURS = ("joint", "local", "eff", "fidel")
OURS_LIGHT = ((33, 102, 172), (217, 95, 2), (176, 42, 122), (0, 124, 108))
OURS_DARK = ((90, 160, 225), (243, 142, 62), (236, 124, 190), (66, 190, 166))
OTHERS_LIGHT = ((128, 132, 138), (150, 120, 88), (104, 134, 104), (138, 112, 150), (92, 122, 150), (160, 112, 112))
OTHERS_DARK = ((140, 146, 154), (176, 148, 112), (128, 160, 128), (166, 140, 180), (122, 152, 180), (186, 138, 138))


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
