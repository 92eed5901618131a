"""An explanation in a notebook: the text with its units coloured by their effect, in HTML without a script.

The text colour is that of the notebook, light or dark.
"""

import html
from typing import Any

import numpy as np

from slalom.render.page.content import cut_answer, cut_text
from slalom.render.palette import strengths, wash
from slalom.result import Explanation
from slalom.result.plain import number
from slalom.result.scale import opposite
from slalom.result.wording import fidelity_text, prediction_text, rests_on, source_numbers, unit_texts
from slalom.text import printable

_UNCERTAIN = 0.25  # strength at most of an effect that is not distinguishable from zero


def notebook(e: Explanation) -> str:
    """Return the HTML of an explanation."""
    leading = e.leading
    effects = e.removal
    several = effects.ndim == 2
    label = e.labels[leading] if several else e.target
    shares = strengths(effects[:, leading] if several else effects, e.full_effect())
    certain = e.certain()
    parts, texts = [], unit_texts(e, range(len(e)))
    cut, fields = cut_text(e)
    numbered = source_numbers(e)
    largest = np.max(np.abs([x for _, _, *both in fields for x in both if x is not None]), initial=1e-300)
    for text, i, *field in cut:
        if i is None:
            parts.append(_caption(fields[field[0]], largest, leading) if field else escaped(text))
            continue
        numbers = f"{e.units[i]}: {texts[i]}"
        line, colour = "dashed" if shares[i] < 0 and e.signed else "solid", wash(shares[i], e.signed)
        if certain is not None and not certain[i]:
            line, colour = "dotted", wash(float(np.clip(shares[i], -_UNCERTAIN, _UNCERTAIN)), e.signed)
        look = f"background:{colour};border-bottom:2px {line} {colour};border-radius:3px;padding:1px 0"
        number_of = f"<small>[{numbered[i]}]</small> " if e.answer else ""
        parts.append(f'{number_of}<span style="{look}" title="{escaped(numbers)}">{escaped(text)}</span>')
    other = opposite(e, label)
    keys = (
        ((1.0, f"for {label}"), (-1.0, f"against {label}" if other is None else f"for {other}"))
        if e.signed
        else ((1.0, "counts much"),)
    )
    legend = " &middot; ".join(
        f'<b style="background:{wash(side, e.signed)};padding:0 .5em;font-weight:inherit">{escaped(words)}</b>'
        for side, words in keys
    )
    how = f" ({escaped(str(e.settings['removal']))})" if e.settings.get("removal") else ""
    meaning = f"effect of removal{how}" if e.signed else f"{escaped(e.method)}, neither for nor against {escaped(label)}"
    meaning += "; dotted: not distinguishable from zero" if certain is not None and not certain.all() else ""
    decision = f"{escaped(prediction_text(e))} &middot; " if prediction_text(e) else ""
    score = f"{'all classes:' if several else e.target} {number(e.score, e.labels)}"
    head = f"<b>{decision}{escaped(score)}</b> &middot; {escaped(fidelity_text(e))}"
    if e.answer is not None:
        asked = f"{escaped(e.answer.question)}<br>" if e.answer.question else ""
        rests = [f" <small>{escaped(rests_on(sentence))}</small>" for sentence in e.sentences]
        said = (escaped(text) if k is None else f"<u>{escaped(text)}</u>{rests[k]}" for text, k in cut_answer(e))
        head = f"{asked}&rarr; {''.join(said)}<br>{head}"
    note = "".join(f'<p style="margin:.4em 0">&#9888; {escaped(remark)}</p>' for remark in e.remarks)
    return (
        '<div style="color:inherit;max-width:56em">'
        f'<p style="margin:.4em 0">{head}</p>'
        f'<p dir="auto" style="line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere">{"".join(parts)}</p>'
        f'<p style="margin:.4em 0;font-size:85%">{legend} &middot; {meaning}; hover for numbers</p>{note}</div>'
    )


def _caption(field: tuple[Any, ...], largest: float, column: int) -> str:
    """Return the name of a field with its effects on a class, and bars of them."""
    name, _, *effects = field
    caption = f"<i>{escaped(name)}</i>"
    for what, effect in zip(("removal (asked)", "Shapley values"), effects, strict=True):
        if effect is not None:
            x = float(np.ravel(effect)[column])
            look = f"display:inline-block;width:{4 * abs(x) / largest:.2f}em;height:.6em;background:{wash(float(np.sign(x)))}"
            caption += f' &middot; {what} {number(x)} <span style="{look}"></span>'
    look = "display:block;margin-top:.3em;border-top:1px solid rgba(128,128,128,.4);font-size:85%;white-space:normal"
    return f'<span style="{look}">{caption}</span>'


def escaped(text: str) -> str:
    """Return a text that is no markup."""
    return html.escape(printable(text))
