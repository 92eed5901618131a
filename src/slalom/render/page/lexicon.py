"""The words of a lexicon, or what differs between two, as one self-contained HTML page: a picture and a table with search."""

from typing import Any

from slalom.core.checks import Floats
from slalom.lexicon.words import Words
from slalom.render.page.parts import asset, embedded, rendered, rounded, script, style
from slalom.result import NORMAL_95
from slalom.text import printable

_SCRIPTS = ("format.js", "tip.js", "scatter.js", "theme.js", "lexicon.js")
_LABELS = {  # what columns are called, and what they mean
    "texts": ("texts", "in how many texts it was seen"),
    "alone": ("alone", "the model's own answer to the word alone, less that to the empty text"),
    "in_texts": ("in texts", "what its effects in texts say that this answer would be"),
    "context": ("context", "in texts minus alone: what it means in company and not by itself"),
    "importance": ("importance", "logarithm of its weight against other words"),
    "alone_before": ("alone before", "the first model's own answer to the word alone, less that to the empty text"),
    "alone_after": ("alone after", "that of the second model"),
    "in_texts_before": ("in texts before", "what its effects in texts say of the first model's answer"),
    "in_texts_after": ("in texts after", "that of the second model"),
    "change": ("change", "in texts: second model minus first"),
}


def lexicon_page(words: Words) -> str:
    """Return words as one self-contained HTML page."""
    shown = [name for name in words.columns if name in _LABELS]
    within = {name: NORMAL_95 * words.columns[f"{name}_se"] for name in shown if f"{name}_se" in words.columns}
    columns = [
        {
            "name": name,
            "label": _LABELS[name][0],
            "means": _LABELS[name][1],
            "numbers": _digits(words.columns[name]),
            "sure": _digits(words.sure.get(name)),
            "within": _digits(within.get(name)),
        }
        for name in shown
    ]
    data = {
        "target": words.target,
        "words": [printable(word) for word in words.words],
        "columns": columns,
        "picture": [shown.index(name) for name in words.picture],
    }
    look, target = "\n".join((style(), asset("lexicon.css"))), printable(words.target)
    return rendered("lexicon.html", words.title, look, script(*_SCRIPTS), target=target, data=embedded(data))


def _digits(numbers: Floats | None) -> Any:
    return None if numbers is None else rounded(numbers.astype(float).tolist(), 5)
