"""An explanation in a terminal: the prediction, the text in colours, the strongest units, and how far to trust it."""

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from slalom.explanation import Explanation, Quality

# From weak to strong, each with the colour that is read on it; blue speaks for the target, orange against it.
_FOR = (("#c6dbef", "black"), ("#92c5de", "black"), ("#4393c3", "black"), ("#2166ac", "white"))
_AGAINST = (("#fee6ce", "black"), ("#fdae6b", "black"), ("#f16913", "black"), ("#a63603", "white"))
_LEAST = 0.08  # of the strongest effect: weaker ones stay as they are


def show(e: Explanation, screen: Console, top: int, number: str = "") -> None:
    """Print an explanation; `number` says which of several it is."""
    if number:
        screen.rule(f"text {number}", align="left")
    effect = e.scores("removal")
    about = e.target if e.target != "all" else e.labels[int(np.argmax(np.asarray(e.score)))]
    screen.print(_prediction(e, about))
    screen.print()
    screen.print(coloured(e, effect), soft_wrap=not screen.is_terminal)
    screen.print()
    screen.print(_table(e, effect, top, about))
    screen.print(Text(said(e)), soft_wrap=True)
    for remark in (e.diagnosis, f"{e.cut} tokens at the end were not seen by the model" if e.cut else ""):
        if remark:
            screen.print(Text(f"note: {remark}"), soft_wrap=True)


def _prediction(e: Explanation, about: str) -> Text:
    line = Text()
    if e.prediction is not None:
        label, probability = e.prediction
        line.append(label, style="bold").append(f" {probability:.1%}   ")
    score = float(np.max(np.asarray(e.score)))
    kind = "centred logit" if e.target == "all" else "log odds"
    return line.append(f"{kind} of {about}: {score:+.2f}", style="dim")


def coloured(e: Explanation, effect: np.ndarray) -> Text:
    """Return the text with its units coloured by their effect (n,)."""
    line, largest = Text(e.text), float(np.abs(effect).max(initial=0.0))
    for (start, stop), one in zip(e.spans.tolist(), effect.tolist(), strict=True):
        share = abs(one) / largest if largest else 0.0
        if share >= _LEAST and stop > start:
            paper, ink = (_FOR if one > 0 else _AGAINST)[min(int(share * 4), 3)]
            line.stylize(Style(bgcolor=paper, color=ink), start, stop)
    return line


def _table(e: Explanation, effect: np.ndarray, top: int, about: str) -> Table:
    values, value_errors = e.scores("value"), _column(e.values_se, e)
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column(e.unit if e.unit != "type" else "token", overflow="fold")
    for name in ("value", "importance", "weight", "removal"):
        table.add_column(name, justify="right", no_wrap=True)
    for i in e.strongest(top):
        importance = _interval(e.importances[i], None if e.importances_se is None else e.importances_se[i])
        value = _interval(values[i], None if value_errors is None else value_errors[i])
        style = "bold" if abs(effect[i]) >= 0.5 * np.abs(effect).max() else ""
        table.add_row(Text(_short(e.units[i]), style), value, importance, f"{e.weights[i]:.1%}", f"{effect[i]:+.3f}")
    if len(e) > top:
        table.caption = f"the {top} strongest of {len(e)}; removal: by how much {about} falls without it"
        table.caption_justify = "left"
    return table


def _column(errors: np.ndarray | None, e: Explanation) -> np.ndarray | None:
    if errors is None or errors.ndim == 1:
        return errors
    return np.asarray(errors[:, int(np.argmax(np.asarray(e.score)))])


def _interval(centre: float, error: float | None) -> str:
    return f"{centre:+.2f}" if error is None or not np.isfinite(error) else f"{centre:+.2f} ± {1.96 * error:.2f}"


def _short(name: str) -> str:
    flat = " ".join(name.split()) or name
    return flat if len(flat) <= 60 else f"{flat[:59]}…"


def said(e: Explanation) -> str:
    """Return one line on how well the explanation predicts the model, and what it took."""
    took = f"{e.queries} queries, {e.seconds:.2g} s"
    near, far = (_r2(q) for q in e.fidelity)
    if near is None and far is None:
        return f"fits what the model answers with R2 = {e.fit_r2:.3f}; no query was left to test it; {took}"
    parts = [f"{r2:.3f} {where}" for r2, where in ((near, "near the text"), (far, "on parts of all sizes")) if r2 is not None]
    return f"predicts removals with R2 = {' and '.join(parts)}; {took}"


def _r2(quality: Quality | None) -> float | None:
    return None if quality is None else quality.r2
