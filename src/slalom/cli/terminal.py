"""An explanation in a terminal: the prediction, the text in colours, the strongest units, and how far to trust it."""

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.colours import strengths
from slalom.core.checks import Floats
from slalom.explanation import Explanation, Quality

# From weak to strong, readable on light and dark; blue speaks for the target, orange against it.
_FOR = ("#4393c3", "#4393c3 bold underline", "black on #4393c3", "bold white on #2166ac")
_AGAINST = ("#e6700f", "#e6700f bold underline", "black on #e6700f", "bold white on #a63603")
# And for terminals of sixteen colours.
_FOR_16 = ("cyan", "cyan bold underline", "black on cyan", "bold white on blue")
_AGAINST_16 = ("yellow", "yellow bold underline", "black on yellow", "bold white on red")
_BAR = 12  # characters of the longest bar
_LEAST = 0.08  # of the strongest effect: weaker ones stay as they are


def show(e: Explanation, screen: Console, top: int, number: str = "") -> None:
    """Print an explanation; `number` says which of several it is."""
    if number:
        screen.rule(f"text {number}", align="left")
    effect = e.scores("removal")
    column = e.column()
    about = e.target if column is None else e.labels[column]
    kind = "log odds" if column is None else "centred logit"
    line = Text()
    if e.prediction is not None:
        line.append(e.prediction[0], style="bold").append(f" {e.prediction[1]:.1%}   ")
    line.append(f"{kind} of {about}: {float(np.max(np.asarray(e.score))):+.2f}", style="dim")
    wide = not screen.is_terminal  # a pipe has no width: long lines stay whole
    for part in (line, Text(), coloured(e, effect, screen.color_system == "standard"), Text()):
        screen.print(part, soft_wrap=wide)
    screen.print(_table(e, effect, top))
    many = f"the {top} strongest of {len(e)}; " if len(e) > top else ""
    sure = "; ± is a 95% interval" if e.values_se is not None and not e.additive else ""
    screen.print(Text(f"{many}removal: how much of the {kind} of {about} goes with it{sure}", "dim"), soft_wrap=wide)
    screen.print(Text(said(e)), soft_wrap=wide)
    for remark in e.remarks:
        screen.print(Text(f"note: {remark}"), soft_wrap=wide)


def coloured(e: Explanation, effect: Floats, few: bool = False) -> Text:
    """Return the text with its units coloured by their effect (n,); few: in sixteen colours."""
    line, palettes = Text(e.text), (_FOR_16, _AGAINST_16) if few else (_FOR, _AGAINST)
    for (start, stop), share in zip(e.spans.tolist(), strengths(effect).tolist(), strict=True):
        if abs(share) >= _LEAST and stop > start:
            line.stylize(palettes[share < 0][min(int(abs(share) * 4), 3)], start, stop)
    return line


def _table(e: Explanation, effect: Floats, top: int) -> Table:
    """Return the strongest units; without value and importance where these are not told apart."""
    column = e.column()
    values, importances = e.scores("value"), e.importances
    errors = e.values_se if e.values_se is None or column is None else e.values_se[:, column]
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column("token" if e.unit == "type" else e.unit, overflow="fold")
    table.add_column("removal", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in () if e.additive else ("value", "importance", "weight"):
        table.add_column(name, justify="right", no_wrap=True)
    largest = float(np.abs(effect).max()) or 1.0
    for i in e.strongest(top):
        bar = Text("█" * round(_BAR * abs(effect[i]) / largest) or "▏", _FOR[0] if effect[i] > 0 else _AGAINST[0])
        cells: list[str | Text] = [_short(e.units[i]), f"{effect[i]:+.3f}", bar]
        if not e.additive:
            cells.append(_interval(values[i], None if errors is None else errors[i]))
            cells.append(_interval(importances[i], None if e.importances_se is None else e.importances_se[i]))
            cells.append(f"{e.weights[i]:.1%}")
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
    return table


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
