"""Explanations, or a comparison of methods, as one self-contained HTML page: no server, no network, no other file.

A page of explanations holds the data as JSON, one block per text, and a script that draws the chosen text and predicts, with
the surrogate itself, what removing words does. Texts, labels and names never become markup: the template escapes, the JSON has
no character that means anything in HTML, the script writes text nodes only, and a content security policy allows no script but
this one, by its hash.
"""

from collections.abc import Sequence

from slalom.errors import InputError
from slalom.render.page.compared import comparison_page
from slalom.render.page.content import content, entry, opening
from slalom.render.page.parts import embedded, rendered, script, style
from slalom.result import Explanation, Explanations
from slalom.text import printable

# In this order; the live page has all but the last.
_NAMES = "surrogate format tip bars reading scatter table text strongest classes guess answer preview layout viewer theme"
VIEWER = tuple(f"{name}.js" for name in _NAMES.split())
_SCRIPTS = (*VIEWER, "page.js")


def page(explanations: Sequence[Explanation], title: str | None = None) -> str:
    """Return explanations of one or more texts, and the failures of `Explanations`, as one self-contained HTML page."""
    if not explanations:
        raise InputError("a page needs at least one explanation; got none")
    failures = explanations.failures if isinstance(explanations, Explanations) else ()
    if title is None:
        title = entry(explanations[0])["opening"] if len(explanations) == 1 else f"Explanations of {len(explanations)} texts"
    return rendered(
        "page.html",
        title,
        style(),
        script(*_SCRIPTS),
        index=embedded([entry(explanation) for explanation in explanations]),
        texts=[embedded(content(explanation)) for explanation in explanations],
        failures=[(f.number + 1, printable(opening(f.text)), printable(f.error)) for f in failures],
    )


__all__ = ["VIEWER", "comparison_page", "page"]
