"""An explanation in a terminal: prediction, text in colours, strongest units, and how well it predicts the model."""

import unicodedata

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.core.checks import Floats
from slalom.render.palette import DARK, LIGHT, Colour, hexadecimal, mix, strengths
from slalom.result import NORMAL_95, Explanation
from slalom.text import printable


def _ramp(weak: str, strong: str) -> tuple[str, ...]:
    """Return styles from weak to strong."""
    return weak, f"{weak} bold underline", f"black on {weak}", f"bold white on {strong}"


def _hue(light: Colour, dark: Colour) -> tuple[str, ...]:
    """Return the styles of a hue: in the middle of both themes it is readable on light and dark."""
    return _ramp(hexadecimal(mix(light, dark, 0.5)), hexadecimal(LIGHT.text(light)))


_FOR = _hue(LIGHT.positive, DARK.positive)
_AGAINST = _hue(LIGHT.negative, DARK.negative)
_NEUTRAL = _hue(LIGHT.neutral, DARK.neutral)
# For terminals of sixteen colours.
_FOR_16, _AGAINST_16, _NEUTRAL_16 = _ramp("cyan", "blue"), _ramp("yellow", "red"), _ramp("magenta", "magenta")
_BAR = 12  # characters of the longest bar
_GAP = 3  # between columns
_LEAST = 0.08  # of the strongest effect: weaker ones stay as they are


def show(e: Explanation, screen: Console, top: int, number: str = "") -> None:
    """Print an explanation.

    Args:
        e: What is shown.
        screen: Where it is shown.
        top: How many of the strongest units are listed.
        number: Which of several texts it is, for the heading.
    """
    if number:
        screen.rule(f"text {number}", align="left")
    effect = e.scores("removal")
    column = e.column()
    about = e.target if column is None else e.labels[column]
    kind = e.score_name
    line = Text()
    if e.prediction is not None:
        label, share = e.prediction
        line.append(label, style="bold").append("   " if share is None else f" {share:.1%}   ")
    line.append(f"{kind} of {about}: {float(np.atleast_1d(e.score)[e.leading]):+.2f}", style="dim")
    wide = not screen.is_terminal  # a pipe has no width: lines are not wrapped
    for part in (line, Text(), coloured(e, effect, screen.color_system == "standard"), Text()):
        screen.print(part, soft_wrap=wide)
    screen.print(_table(e, effect, top, screen.width))
    listed = f"the {top} strongest of {len(e)}; " if len(e) > top else ""
    within = "; ± is a 95% interval" if e.values_se is not None and not e.additive else ""
    meaning = f"removal: by how much the {kind} of {about} falls without it"
    meaning = meaning if e.signed else f"{e.method}: how much it counts, neither for nor against {about}"
    screen.print(Text(f"{listed}{meaning}{within}", "dim"), soft_wrap=wide)
    if e.length_effect is not None:
        slope = float(e.length_effect if column is None else np.asarray(e.length_effect)[column])
        length_note = f"of which due to length alone: {_signed(slope, float(np.abs(effect).max()))} per token"
        screen.print(Text(length_note, "dim"), soft_wrap=wide)
    screen.print(Text(quality(e)), soft_wrap=wide)
    if e.stopped:
        screen.print(Text(f"stopped: {e.stopped}", "dim"), soft_wrap=wide)
    for remark in e.remarks:
        screen.print(Text(f"note: {remark}"), soft_wrap=wide)


def coloured(e: Explanation, effect: Floats, sixteen: bool = False) -> Text:
    """Return the text with its units coloured by their effect (n,).

    Args:
        e: The explanation.
        effect: Effect of each unit (n,).
        sixteen: Whether the terminal has sixteen colours only.
    """
    line = Text(_harmless(e.text))
    ramps = (_FOR_16, _AGAINST_16) if sixteen else (_FOR, _AGAINST)
    if not e.signed:
        ramps = ((_NEUTRAL_16 if sixteen else _NEUTRAL),) * 2
    for (start, stop), share in zip(e.spans.tolist(), strengths(effect).tolist(), strict=True):
        if abs(share) >= _LEAST and stop > start:
            line.stylize(ramps[share < 0][min(int(abs(share) * 4), 3)], start, stop)
    return line


def _table(e: Explanation, effect: Floats, top: int, width: int) -> Table:
    """Return the strongest units, in as many columns as there is room for.

    Value and importance are left out where they are not determined separately.
    """
    chosen = np.argsort(-np.abs(effect), kind="stable")[:top]
    column = e.column()
    errors = e.values_se if e.values_se is None or column is None else e.values_se[:, column]
    values = [_interval(v, None if errors is None else errors[i]) for i, v in enumerate(e.scores("value"))]
    importance_errors = e.importances_se
    importances = [
        _interval(s, None if importance_errors is None else importance_errors[i]) for i, s in enumerate(e.importances)
    ]
    longest = float(np.abs(effect).max()) or 1.0
    styles = [(_FOR if x > 0 else _AGAINST)[0] if e.signed else _NEUTRAL[0] for x in effect]
    bars = [Text("█" * round(_BAR * abs(x) / longest) or "▏", style) for x, style in zip(effect, styles, strict=True)]
    name = "token" if e.unit == "type" else e.unit
    names = [_short(e.units[i], max(width // 3, 12)) for i in chosen]
    numbers = [_signed(x, longest) if e.signed else _signed(x, longest).removeprefix("+") for x in effect]
    columns: list[tuple[str, list[str] | list[Text]]] = [("removal" if e.signed else "score", numbers), ("", bars)]
    if not e.additive:
        columns += [("value", values), ("importance", importances), ("weight", [f"{w:.1%}" for w in e.weights])]
    left = width - max(len(name), *map(len, names))
    for number, (title, cells) in enumerate(columns):  # what does not fit is left out, never cut
        left -= _GAP + max(len(title), *(len(cells[i]) for i in chosen))
        if number and left < 0:
            columns = columns[:number]
            break
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    table.add_column(name, no_wrap=True)
    for title, _ in columns:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for i, shown in zip(chosen, names, strict=True):
        table.add_row(Text(shown), *(cells[i] for _, cells in columns))
    return table


def _interval(centre: float, error: float | None) -> str:
    return f"{centre:+.2f}" if error is None or not np.isfinite(error) else f"{centre:+.2f} ± {NORMAL_95 * error:.2f}"


def _signed(number: float, beside: float) -> str:
    """Write an effect with three decimals, or three digits where all effects are tiny."""
    return f"{number:+.3f}" if beside >= 0.05 else f"{number:+.2e}"


def _short(name: str, most: int) -> str:
    flat = _harmless(" ".join(name.split()) or name)
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _harmless(text: str) -> str:
    """Return a text that cannot steer a terminal: control characters become a mark of the same length."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) != "Cc" else "\N{REPLACEMENT CHARACTER}" for c in printable(text)
    )


def quality(e: Explanation) -> str:
    """Return one line on how well the explanation predicts the model, and what it cost."""
    took = f"{e.queries} queries, {e.seconds:.2g} s"
    if not e.signed:
        return took
    parts = [f"{tested.shown} {where}" for tested, where in e.fidelity.known if tested.r2 is not None]
    if parts:
        return f"predicts removals with R2 = {' and '.join(parts)}; {took}"
    if e.fidelity.known:
        return f"the model answers the same to all queries that test the fit; {took}"
    why = e.fidelity_text if e.merged_from else "no query was left to test it"
    return f"fits what the model answers with R2 = {e.fit_r2:.3f}; {why}; {took}"
