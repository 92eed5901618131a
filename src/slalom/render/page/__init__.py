"""Explanations, or a comparison of methods, as one HTML page that needs nothing else: no server, no network, no other file.

The page of explanations holds the data as JSON, one block a text, and a script that draws the text that is shown and answers
"what if this word were not there?" with the surrogate itself. Texts, labels and names are data and never become markup: the
template escapes, the JSON has no character that HTML knows, the script writes text nodes only, and a content security policy
lets no script run but this one, known by its hash.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from markupsafe import Markup

from slalom.errors import InputError
from slalom.render.page.compared import comparison_page
from slalom.render.page.content import content, entry, opening
from slalom.render.page.parts import asset, policy, style, template
from slalom.result import Explanation
from slalom.text import printable

_SCRIPTS = ("surrogate.js", "format.js", "tip.js", "scatter.js", "table.js", "page.js")


def page(explanations: Sequence[Explanation], title: str | None = None) -> str:
    """Return a self-contained HTML page about explanations of one or more texts.

    title: of the page; None takes the first words of the text, or the number of texts.
    """
    _check(explanations)
    if title is None:
        title = opening(explanations[0]) if len(explanations) == 1 else f"Explanations of {len(explanations)} texts"
    look, script = style(), _script()
    return template("page.html").render(
        title=printable(title),
        policy=Markup(policy(look, script)),
        style=Markup(look),
        script=Markup(script),
        index=_embedded([entry(one) for one in explanations]),
        texts=[_embedded(content(one)) for one in explanations],
    )


def _check(explanations: Any) -> None:
    if not isinstance(explanations, Sequence) or not all(isinstance(one, Explanation) for one in explanations):
        raise InputError("a page is made of explanations, in a list; pass [explanation]")
    if not explanations:
        raise InputError("a page needs at least one explanation; got none")


def _embedded(data: Any) -> Markup:
    """Return data as JSON in ASCII that no HTML parser can take for markup; JSON.parse gives it back."""
    plain = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def _script() -> str:
    return '(() => {\n"use strict";\n' + "\n".join(map(asset, _SCRIPTS)) + "})();"


__all__ = ["comparison_page", "page"]
