"""The words of a lexicon, or what differs between two, as one self-contained HTML page: a picture and a table with search."""

from markupsafe import Markup

from slalom.lexicon.words import Words
from slalom.render.page.parts import asset, embedded, policy, script, style, template
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
    look, code = "\n".join((style(), asset("lexicon.css"))), script(*_SCRIPTS)
    shown = [name for name in words.columns if name in _LABELS]
    columns = [
        {
            "name": name,
            "label": _LABELS[name][0],
            "means": _LABELS[name][1],
            "numbers": _rounded(words.columns[name]),
            "sure": _rounded(words.sure[name]) if name in words.sure else None,
            "within": _rounded(NORMAL_95 * words.columns[f"{name}_se"]) if f"{name}_se" in words.columns else None,
        }
        for name in shown
    ]
    across, up = (shown.index(name) for name in words.picture)
    data = {
        "target": words.target,
        "words": [printable(word) for word in words.words],
        "columns": columns,
        "picture": [across, up],
    }
    return template("lexicon.html").render(
        title=printable(words.title),
        target=printable(words.target),
        policy=Markup(policy(look, code)),
        style=Markup(look),
        script=Markup(code),
        data=embedded(data),
    )


def _rounded(numbers: object) -> list[float]:
    return [float(f"{number:.5g}") for number in numbers.tolist()]  # type: ignore[attr-defined]
