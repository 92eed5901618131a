"""What a visitor can choose, in plain words: methods, units, budgets, and texts to begin with."""

from importlib.util import find_spec
from typing import Any

from slalom.methods import list_methods

_OURS = {
    "joint": ("SLALOM", "Value and importance of every word; predicts what the model says of any part of the text."),
    "local": ("SLALOM, near the text", "The same from small removals only: most precise about single words."),
    "eff": ("SLALOM-eff (paper)", "The paper's fast form, from pairs of words."),
    "fidel": ("SLALOM-fidel (paper)", "The paper's form for removals of up to five words."),
    "ridge": ("Linear, near the text", "One effect per word, by ridge regression on small removals."),
    "ridge-scales": ("Linear, all sizes", "One effect per word, by ridge regression on parts of every size."),
}
_HIDDEN = ("context-cite",)  # a method for sources, which this page does not have
_PACKAGES = {
    **{"lime": "lime", "kernel-shap": "shap", "partition-shap": "shap", "integrated-gradients": "captum"},
    **{"trees": "lightgbm", "proxyspex": "lightgbm", "lasso": "sklearn"},
}
UNITS = [
    ("token", "Tokens, as the model reads them"),
    ("word", "Words"),
    ("sentence", "Sentences"),
    ("type", "Equal tokens share their scores"),
]
BUDGETS = [
    (None, "Standard: five questions per word, 200 to 1,000"),
    (100, "Quick look: 100 questions"),
    (500, "Careful: 500 questions"),
    (2000, "Thorough: 2,000 questions"),
]
EXAMPLES = [
    "A slow, beautiful and utterly convincing film; only the ending is a disappointment.",
    "I wanted to like it, but the jokes are stale and the plot makes no sense.",
    "Not bad at all! The cast is great, and I never looked at my watch.",
]


def methods(looks_inside: bool) -> list[dict[str, Any]]:
    """Return the methods whose packages are installed, with those that look inside the model or without."""
    offered = []
    for name, method in list_methods().items():
        can_be_asked = looks_inside or not {"gradients", "attention"} & set(method.needs)
        if name not in _HIDDEN and can_be_asked and (name not in _PACKAGES or find_spec(_PACKAGES[name])):
            title, note = _OURS.get(name, (name, method.summary))
            about = {"name": name, "title": title, "note": note}
            offered.append(about | {"takes_budget": method.takes_budget, "signed": method.signed})
    return offered
