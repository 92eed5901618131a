"""An explanation in a terminal: prediction, text in colours, strongest units, and how well it predicts the model."""

import unicodedata

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.core.checks import Floats
from slalom.render.palette import DARK, LIGHT, Colour, hexadecimal, is_ours, mix, strengths
from slalom.result import NORMAL_95, SCORES, Explanation, Flip
from slalom.result.flip import sentence
from slalom.result.plain import duration, occurrence
from slalom.result.remarks import no_single_unit
from slalom.result.scale import leading_score
from slalom.result.wording import all_asked, fidelity_text, queries_text, score_of
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
_LEAST = 0.08  # of the full strength: weaker effects stay as they are
_UNKNOWN = "too uncertain to show"
_REMOVALS = ("leave-one-out",)  # methods of others whose effects are removals
_REMOVED = "strike"  # the units of a flip, whatever their colour


def show(e: Explanation, screen: Console, top: int, number: str = "", flip: Flip | str | None = None) -> None:
    """Print an explanation.

    Where no single unit decides, this is said first, and the table is in the order of the Shapley values.
    """
    if number:
        screen.rule(f"text {number}", align="left")
    effect, saturated = e.scores("removal"), e.saturated
    column = e.column()
    about = e.target if column is None else e.labels[column]
    line = Text()
    if e.prediction is not None:
        label, share = e.prediction
        line.append(label, style="bold").append("   " if share is None else f" {share:.1%}   ")
    named = score_of(e, about)
    line.append(f"{named}: {float(np.atleast_1d(e.score)[e.leading]):+.2f}", style="dim")
    wide = not screen.is_terminal  # a pipe has no width: lines are not wrapped
    text = coloured(e, effect, screen.color_system == "standard")
    if isinstance(flip, Flip):
        for i in flip.units:
            text.stylize(_REMOVED, *e.spans[i].tolist())
    parts = [*_answer(e), line, Text(), text, Text()]
    found = [Text(no_single_unit(e), "bold")] if saturated else []
    if flip is not None:
        found.append(Text(f"flip: {_harmless(sentence(e, flip) if isinstance(flip, Flip) else flip)}"))
    for part in (*parts, *found, *([Text()] if found else [])):
        screen.print(part, soft_wrap=wide)
    table = _Table(e, effect, top, screen.width)
    screen.print(table.drawn())
    for note in _legend(e, table, named, about):
        screen.print(Text(note, "dim"), soft_wrap=wide)
    if e.pairs:
        screen.print(Text(_together(e)), soft_wrap=wide)
    screen.print(Text(quality(e)), soft_wrap=wide)
    if e.stopped:
        screen.print(Text(f"stopped: {e.stopped}", "dim"), soft_wrap=wide)
    for remark in e.remarks:
        if not (saturated and remark == no_single_unit(e)):
            screen.print(Text(f"note: {remark}"), soft_wrap=wide)


def _together(e: Explanation) -> str:
    """Return the pairs of units that act together, in one line."""
    column = e.column()
    pairs = (
        f"{' + '.join(_short(e.units[i], 20) for i in units)} {effect if column is None else effect[column]:+.2f}"  # type: ignore[index]
        for units, effect, _ in e.pairs
    )
    return f"together, beyond their single removals (the model's own answers): {', '.join(pairs)}"


def _answer(e: Explanation) -> list[Text]:
    """Return the question and the answer of a language model, with the part that is explained underlined."""
    if e.answer is None:
        return []
    said = Text("answer:   ", "dim").append(_harmless(e.answer.text), "default not dim")
    if not e.answer.is_whole:
        first = len("answer:   ")
        said.stylize("bold underline", first + e.answer.start, first + e.answer.stop)
    asked = [Text("question: ", "dim").append(_harmless(e.answer.question), "default not dim")] if e.answer.question else []
    return [*asked, said]


def coloured(e: Explanation, effect: Floats, sixteen: bool = False) -> Text:
    """Return the text with its units coloured by their effect of removal (n,), on the scale of the decision.

    An effect that is not distinguishable from zero has the weakest colour at most.
    """
    line = Text(_harmless(e.text))
    ramps = (_FOR_16, _AGAINST_16) if sixteen else (_FOR, _AGAINST)
    if not e.signed:
        ramps = ((_NEUTRAL_16 if sixteen else _NEUTRAL),) * 2
    certain = e.certain()
    for i, share in enumerate(strengths(effect, e.full_effect()).tolist()):
        start, stop = e.spans[i].tolist()
        if abs(share) >= _LEAST and stop > start:
            level = min(int(abs(share) * 4), 3) if certain is None or certain[i] else 0
            line.stylize(ramps[share < 0][level], start, stop)
    return line


class _Table:
    """The strongest units, in as many columns as there is room for.

    Value and importance are left out where they are not determined separately.
    """

    def __init__(self, e: Explanation, effect: Floats, top: int, width: int) -> None:
        self.e, self.effect, self.width = e, effect, width
        self.by = leading_score(e)
        self.leading = e.scores(self.by)
        self.chosen = np.argsort(-np.abs(self.leading), kind="stable")[:top]
        self.uncertain = {name: _uncertain(e, name) for name in {self.by, "removal"}}
        self.marked = {name for name, which in self.uncertain.items() if which[self.chosen].any()}
        known = {} if e.additive else {name: e.determined(name) for name in ("value", "importance")}
        self.shown: list[str] = []  # titles of the columns that fit
        self.left_out = [name for name, which in known.items() if which is not None and not which[self.chosen].any()]

    @property
    def errors(self) -> bool:
        """Whether a number in the table has an interval."""
        shown = {self.by, "removal", *(() if self.e.additive else ("value", "importance"))}
        return not shown.isdisjoint(self.e.errors)

    def drawn(self) -> Table:
        """Return the table."""
        e, chosen = self.e, self.chosen
        name = "token" if e.unit == "type" else e.unit
        names = [_short(e.units[i], max(self.width // 3, 12)) + occurrence(e.units, i) for i in chosen]
        left = self.width - max(len(name), *map(len, names))
        columns = self._columns()
        if max(len(cell) for cell in columns[0][1]) + _GAP > left:
            columns = self._columns(intervals=False)
        for number, (title, cells) in enumerate(columns):  # what does not fit is left out, never cut
            left -= _GAP + max(len(title), *(len(cell) for cell in cells))
            if number and left < 0:
                columns = columns[:number]
                break
        self.shown = [title for title, _ in columns]
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        table.add_column(name, no_wrap=True)
        for title, _ in columns:
            table.add_column(title, justify="right" if title else "left", no_wrap=True)
        for row, shown in enumerate(names):
            table.add_row(Text(shown), *(cells[row] for _, cells in columns))
        return table

    def _columns(self, intervals: bool = True) -> list[tuple[str, list[Text]]]:
        """Return the columns with the cells of the chosen units; what orders the table comes first, with its bars."""
        e = self.e
        longest = float(np.abs(self.leading).max()) or 1.0
        styles = [(_FOR if x > 0 else _AGAINST)[0] if e.signed else _NEUTRAL[0] for x in self.leading]
        dim = self.uncertain[self.by]
        bars = [
            Text("█" * round(_BAR * abs(self.leading[i]) / longest) or "▏", f"{styles[i]} dim" if dim[i] else styles[i])
            for i in self.chosen
        ]
        removal = (_title(e), self._effects("removal", self.effect, intervals))
        columns = [("Shapley", self._effects("shapley", self.leading, intervals))] if self.by == "shapley" else [removal]
        columns += [("", bars)]
        columns += [removal] if self.by == "shapley" else []
        if not e.additive:
            columns += self._parameters()
            columns += [("weight", [Text(f"{e.weights[i]:.1%}") for i in self.chosen])]
        return columns

    def _effects(self, name: str, effect: Floats, intervals: bool) -> list[Text]:
        """Return the cells of removal or Shapley values, with intervals and marks where they are known."""
        longest, errors = float(np.abs(effect).max()), self.e.standard_errors(name)
        cells = []
        for i in self.chosen:
            cell = _signed(effect[i], longest)
            cell = cell if self.e.signed else cell.removeprefix("+")
            if intervals and errors is not None and np.isfinite(errors[i]):
                cell += f" ± {_signed(NORMAL_95 * errors[i], longest).removeprefix('+')}"
            marks = name in self.marked
            uncertain = marks and self.uncertain[name][i]
            cells.append(Text(cell + (" ?" if uncertain else "  " if marks else ""), "dim" if uncertain else ""))
        return cells

    def _parameters(self) -> list[tuple[str, list[Text]]]:
        """Return the columns of values and importances; one that the queries determine for no unit is left out."""
        columns = []
        for name in ("value", "importance"):
            if name not in self.left_out:
                scores, errors, known = self.e.scores(name), self.e.standard_errors(name), self.e.determined(name)
                known = np.ones(len(self.e), dtype=bool) if known is None else known
                cells = [_interval(scores[i], None if errors is None else errors[i]) for i in self.chosen]
                shown = [Text(cell) if known[i] else Text(_UNKNOWN, "dim") for i, cell in zip(self.chosen, cells, strict=True)]
                columns.append((name, shown))
        return columns


def _title(e: Explanation) -> str:
    """Return what the effects of units are called: other packages' methods give each unit an effect, whatever was removed."""
    if not e.signed:
        return "score"
    return "effect" if _is_foreign(e) and e.method not in _REMOVALS else "removal"


def _is_foreign(e: Explanation) -> bool:
    """Return whether the effects are those of a method that is not a SLALOM."""
    return e.surrogate.kind == "additive" and not is_ours(e.method)


def _uncertain(e: Explanation, name: str) -> NDArray[np.bool_]:
    """Return which units have a score that is not distinguishable from zero; none where the method has no standard errors."""
    certain = e.certain(name=name)
    return np.zeros(len(e), dtype=bool) if certain is None else ~certain


def _legend(e: Explanation, table: _Table, named: str, about: str) -> list[str]:
    """Return the lines below the table: what its numbers mean."""
    n = len(table.chosen)
    listed = f"the {n} strongest of {len(e)}; " if len(e) > n else ""
    if not e.signed:
        return [f"{listed}{e.method}: how much it counts, neither for nor against {about}"]
    shapley = f"Shapley: {_meaning('shapley', named)}; " if e.saturated else ""
    marks = "; ± is a 95% interval" if table.errors else ""
    marks += "; ? is not distinguishable from zero" if table.marked else ""
    marks += f"; their {'s and '.join(table.left_out)}s are {_UNKNOWN}" if table.left_out else ""
    meaning = f"removal: {_meaning('removal', named)}"
    if _title(e) == "effect":
        meaning = f"effect: what it adds to the {named}, by {e.method}"
    lines = [f"{listed}{shapley}{meaning}{marks}"]
    lines += _included(e, float(np.abs(table.effect).max()))
    meanings = "; ".join(f"{name}: {SCORES[name].meaning}" for name in ("value", "importance", "weight") if name in table.shown)
    lines += [meanings] if meanings else []
    return lines


def _meaning(name: str, named: str) -> str:
    """Return what a score says of a unit, where the score of the model has a name."""
    return SCORES[name].meaning.replace("the score", f"the {named}")


def _included(e: Explanation, strongest: float) -> list[str]:
    """Return the line that says what of a removal is due to no word: to the length, to places."""
    column, parts = e.column(), list[str]()
    if e.length_effect is not None:
        slope = float(e.length_effect if column is None else np.asarray(e.length_effect)[column])
        parts.append(f"{_signed(slope, strongest).removeprefix('+')} of each removal is the text getting shorter")
    if e.place_effects is not None:
        most = float(np.abs(e.place_effects if column is None else e.place_effects[:, column]).max())
        parts.append(f"up to {_signed(most, strongest)[1:]} because later words shift position")
    return ["; ".join(parts)] if parts else []


def _interval(centre: float, error: float | None) -> str:
    return f"{centre:+.2f}" if error is None or not np.isfinite(error) else f"{centre:+.2f} ± {NORMAL_95 * error:.2f}"


def _signed(number: float, beside: float) -> str:
    """Write an effect with three decimals, or as many as give the strongest of them three digits."""
    if not 1e-5 <= beside < 0.05:
        return f"{number:+.3f}" if beside >= 0.05 else f"{number:+.2e}"
    return f"{number:+.{2 - int(np.floor(np.log10(beside)))}f}"


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
    took = f"{queries_text(e)}, {duration(e.seconds)}"
    if not e.signed:
        return took
    if e.fidelity.statement:
        return f"predicts removals with {e.fidelity.statement}; {took}"
    if any(tested.few for tested, _ in e.fidelity.known):
        few = "too few queries were left to test it"
        few = f"not tested, as too few of the test queries are new to {e.method}" if _is_foreign(e) else few
        return f"fits what the model answers with R2 = {e.fit_r2:.3f}; {few}; {took}"
    if e.fidelity.known:
        return f"the model answers the same to all queries that test the fit; {took}"
    if all_asked(e) and not e.merged_from:
        return f"{fidelity_text(e)}; {took}"
    why = fidelity_text(e) if e.merged_from else "no query was left to test it"
    return f"fits what the model answers with R2 = {e.fit_r2:.3f}; {why}; {took}"
