"""An explanation in a terminal: prediction, text in colours, strongest units, and how well it predicts the model."""

import unicodedata
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.core.checks import Floats
from slalom.render.palette import DARK, LIGHT, hexadecimal, is_ours, mix, strengths
from slalom.result import NORMAL_95, SCORES, AnswerSentence, Explanation, Flip
from slalom.result.flip import sentence
from slalom.result.plain import duration, occurrence, shortened
from slalom.result.remarks import no_single_unit
from slalom.result.scale import leading_score
from slalom.result.wording import (
    all_asked,
    competition_text,
    fidelity_text,
    field_lines,
    prediction_text,
    queries_text,
    rests_on,
    score_of,
    source_names,
    source_numbers,
)
from slalom.text import printable

_Ramp = tuple[str, ...]  # styles from weak to strong


def _ramp(weak: str, strong: str) -> _Ramp:
    return weak, f"{weak} bold underline", f"black on {weak}", f"bold white on {strong}"


def _hue(name: str) -> _Ramp:
    """Return the styles of a hue: in the middle of both themes it is readable on light and dark."""
    light = getattr(LIGHT, name)
    return _ramp(hexadecimal(mix(light, getattr(DARK, name), 0.5)), hexadecimal(LIGHT.text(light)))


_FOR, _AGAINST, _NEUTRAL = map(_hue, ("positive", "negative", "neutral"))
_SIXTEEN = (_ramp("cyan", "blue"), _ramp("yellow", "red"), _ramp("magenta", "magenta"))  # for terminals of sixteen colours
_BAR = 12  # characters of the longest bar
_GAP = 3  # between columns
_SLIGHT = 0.01  # of the strongest removal: what places do is not worth a line below it
_LEAST = 0.08  # of the full strength: weaker effects stay as they are
_REMOVALS = ("leave-one-out",)  # methods of others whose effects are removals
_REMOVED = "strike"  # the units of a flip, whatever their colour


def show(e: Explanation, screen: Console, top: int, number: str = "", flip: Flip | str | None = None) -> None:
    """Print an explanation.

    Where no single unit decides, this is said first, and the table is in the order of the Shapley values.
    """
    if number:
        screen.rule(f"text {number}", align="left")
    column = e.column()
    about = e.target if column is None else e.labels[column]
    named = score_of(e, about)
    head = Text()
    if flip is None and e.headline:
        head.append(e.headline, style="bold").append("   ")
    elif e.prediction is not None:
        head.append(prediction_text(e), style="bold").append("   ")
    head.append(f"{named}: {float(np.atleast_1d(e.score)[e.leading]):+.2f}", style="dim")
    text = coloured(e, e.scores("removal"), screen.color_system == "standard")
    remarks = [Text(no_single_unit(e), "bold")] if e.saturated else []
    if isinstance(flip, Flip):
        for i in flip.units:
            text.stylize(_REMOVED, *folded(e)[1][i])
    if flip is not None:
        remarks.append(Text(f"flip: {harmless(sentence(e, flip) if isinstance(flip, Flip) else flip)}"))
    text = text if e.answer is None else _numbered(e, text)
    table = _table(e, top, screen.width)
    below = [Text(note, "dim") for note in _legend(e, table, named, about)]
    below += [Text(_together(e))] if e.pairs else []
    below += [Text(harmless(line.strip())) for line in field_lines(e)]
    below.append(Text(quality(e)))
    below += [Text(f"stopped: {e.stopped}", "dim")] if e.stopped else []
    below += [Text(f"note: {remark}") for remark in e.remarks if not (e.saturated and remark == no_single_unit(e))]
    for part in (*_answer(e), head, Text(), text, Text(), *remarks, *([Text()] if remarks else []), table.drawn, *below):
        if isinstance(part, Table):
            screen.print(part)
        else:
            screen.print(part, soft_wrap=not screen.is_terminal)  # a pipe has no width: lines are not wrapped


def _together(e: Explanation) -> str:
    """Return the pairs of units that act together, in one line."""
    column, parts = e.column(), list[str]()
    for units, effect, _ in e.pairs:
        alone = float(e.scores("removal")[list(units)].sum())
        both = alone - float(effect if column is None else effect[column])  # type: ignore[index,arg-type]
        parts.append(f"{' + '.join(short(e.units[i], 20) for i in units)} {both:+.2f} (one by one {alone:+.2f})")
    return f"removed together (asked): {', '.join(parts)}"


def _answer(e: Explanation) -> list[Text]:
    if e.answer is None:
        return []
    answer = Text("answer:   ", "dim").append(harmless(e.answer.text), "default not dim")
    if not e.answer.is_whole:
        first = len("answer:   ")
        answer.stylize("bold underline", first + e.answer.start, first + e.answer.stop)
    question = Text("question: ", "dim").append(harmless(e.answer.question), "default not dim")
    lines = [question] if e.answer.question else []
    if len(e.sentences) == 1:
        lead = "rests on: " if e.sentences[0].sources else ""
        rests = Text(lead, "dim").append(rests_on(e.sentences[0]), f"not dim {_FOR[0]}")
        return [*lines, answer, rests, *_words(e.sentences[0])]
    said = list[Text]()
    for s in e.sentences:
        said += [Text(f"  {harmless(s.text)}  ").append(rests_on(s), _FOR[0] if s.sources else "italic"), *_words(s)]
    times = "; 1 is 2.7 times less probable, 3 is 20 times" if e.scale == "log probability" else ""
    meaning = (
        f"numbers: by how much the {e.scale} of the sentence falls without the source (± is a 95% interval), or without"
        f" all that can replace each other{times}"
    )
    return [*lines, Text("answer, and the sources that each sentence rests on:", "dim"), *said, Text(meaning, "dim"), Text()]


def _words(sentence: AnswerSentence) -> list[Text]:
    """Return the words of a sentence that have sources, with these, in one line."""
    rests = [f"{harmless(word.text)} ← {rests_on(word)}" for word in sentence.words if word.sources]
    return [Text(f"    {'; '.join(rests)}", "dim")] if rests else []


def _numbered(e: Explanation, text: Text) -> Text:
    """Return the text of sources with their numbers, which the names of runs have."""
    before, *parts = text.divide([start for start, _ in folded(e)[1]])
    numbers = [f"[{number}] " if n == 1 else "" for number, n in zip(source_numbers(e), e.sizes.tolist(), strict=True)]
    return Text.assemble(
        before, *(piece for number, part in zip(numbers, parts, strict=True) for piece in ((number, "dim"), part))
    )


def coloured(e: Explanation, effect: Floats, sixteen: bool = False) -> Text:
    """Return the text with its units coloured by their effect of removal (n,), on the scale of the decision.

    An effect that is not distinguishable from zero has the weakest colour at most.
    """
    shown, spans = folded(e)
    line = Text(harmless(shown))
    positive, negative, neutral = _SIXTEEN if sixteen else (_FOR, _AGAINST, _NEUTRAL)
    doubtful = _uncertain(e, "removal")
    for i, share in enumerate(strengths(effect, e.full_effect()).tolist()):
        start, stop = spans[i]
        if abs(share) >= _LEAST and stop > start:
            ramp = neutral if not e.signed else negative if share < 0 else positive
            line.stylize(ramp[0 if doubtful[i] else min(int(abs(share) * 4), 3)], start, stop)
    return line


def folded(e: Explanation) -> tuple[str, list[tuple[int, int]]]:
    """Return the text and the spans of its units; of a long context every unit in a line, and the names of runs of sources."""
    if e.answer is None or e.sizes.max() == 1:
        return e.text, [(start, stop) for start, stop in e.spans.tolist()]
    lines = [e.text[a:b] if n == 1 else f"[{name}]" for name, n, (a, b) in zip(e.units, e.sizes, e.spans.tolist(), strict=True)]
    stops = np.cumsum([len(line) + 1 for line in lines]) - 1
    return "\n".join(lines), [(int(stop) - len(line), int(stop)) for stop, line in zip(stops, lines, strict=True)]


class _Listed(NamedTuple):
    """The table of the strongest units, and what its legend needs to know."""

    drawn: Table
    rows: int
    shown: list[str]  # titles of the columns
    marked: bool  # whether units that are not distinguishable from zero have a mark


def _table(e: Explanation, top: int, width: int) -> _Listed:
    """Return the strongest units, in as many columns as there is room for; what orders them comes first, with its bars.

    Importances are left out where values add up: they mean nothing then.
    """
    by = leading_score(e)
    chosen = np.argsort(-np.abs(e.scores(by)), kind="stable")[:top]
    unit = "token" if e.unit == "type" else e.unit
    known = source_names(e) if e.answer else e.units
    names = [short(known[i], max(width // 3, 12)) + occurrence(e.units, i) for i in chosen]

    def columns(intervals: bool) -> list[tuple[str, list[Text]]]:
        cells = [(_title(e), _effects(e, "removal", chosen, intervals))]
        if by == "shapley":
            cells.insert(0, ("Shapley", _effects(e, "shapley", chosen, intervals)))
        cells.insert(1, ("", _bars(e, by, chosen)))
        if _is_foreign(e):
            return cells
        cells.append(("value", _parameter(e, "value", chosen)))
        return cells + ([] if e.additive else [("importance", _parameter(e, "importance", chosen))])

    room = width - max(len(unit), *map(len, names))
    cells = columns(intervals=True)
    if max(len(cell) for cell in cells[0][1]) + _GAP > room:
        cells = columns(intervals=False)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    table.add_column(unit, no_wrap=True)
    shown = list[str]()
    for title, column in cells:  # what does not fit is left out, never cut
        room -= _GAP + max(len(title), *(len(cell) for cell in column))
        if shown and room < 0:
            break
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
        shown.append(title)
    for row, name in enumerate(names):
        table.add_row(Text(name), *(column[row] for _, column in cells[: len(shown)]))
    marked = any(_uncertain(e, name)[chosen].any() for name in {by, "removal"})
    return _Listed(table, len(chosen), shown, marked)


def _bars(e: Explanation, by: str, chosen: NDArray[np.int64]) -> list[Text]:
    scores, doubtful = e.scores(by), _uncertain(e, by)
    longest = float(np.abs(scores).max()) or 1.0
    bars = []
    for i in chosen:
        style = ((_FOR if scores[i] > 0 else _AGAINST) if e.signed else _NEUTRAL)[0]
        bars.append(Text("█" * round(_BAR * abs(scores[i]) / longest) or "▏", f"{style} dim" if doubtful[i] else style))
    return bars


def _effects(e: Explanation, name: str, chosen: NDArray[np.int64], intervals: bool) -> list[Text]:
    """Return the cells of removal or Shapley values, with intervals and marks where they are known."""
    effect, errors, doubtful = e.scores(name), e.standard_errors(name), _uncertain(e, name)
    longest, marks, cells = float(np.abs(effect).max()), doubtful[chosen].any(), []
    for i in chosen:
        cell = _signed(effect[i], longest)
        cell = cell if e.signed else cell.removeprefix("+")
        if intervals and errors is not None and 0.0 < errors[i] < np.inf:
            cell += f" ± {_signed(NORMAL_95 * errors[i], longest).removeprefix('+')}"
        cells.append(Text(cell + (" ?" if doubtful[i] else "  " if marks else ""), "dim" if doubtful[i] else ""))
    return cells


def _parameter(e: Explanation, name: str, chosen: NDArray[np.int64]) -> list[Text]:
    """Return the cells of values or importances."""
    scores, errors = e.scores(name), e.standard_errors(name)
    within = ["" if errors is None or not 0.0 < errors[i] < np.inf else f" ± {NORMAL_95 * errors[i]:.2f}" for i in chosen]
    return [Text(f"{scores[i]:+.2f}{width}") for i, width in zip(chosen, within, strict=True)]


def _title(e: Explanation) -> str:
    """Return what the effects of units are called: other packages' methods give each unit an effect, whatever was removed."""
    if not e.signed:
        return "score"
    return "effect" if _is_foreign(e) and e.method not in _REMOVALS else "removal"


def _is_foreign(e: Explanation) -> bool:
    """Return whether the effects are those of a method that is not a SLALOM."""
    return e.surrogate.kind == "additive" and not is_ours(e.method)


def _uncertain(e: Explanation, name: str) -> NDArray[np.bool_]:
    """Return which units have a predicted score that is not distinguishable from zero; none without standard errors."""
    certain, errors = e.certain(name=name), e.standard_errors(name)
    return np.zeros(len(e), dtype=bool) if certain is None or errors is None else ~certain & (errors > 0.0)


def _legend(e: Explanation, table: _Listed, named: str, about: str) -> list[str]:

    def meaning(name: str) -> str:
        return (
            f"{SCORES[name].label if name == 'shapley' else name}: {SCORES[name].meaning.replace('the score', f'the {named}')}"
        )

    rest = f"the {table.rows} strongest of {len(e)}; " if len(e) > table.rows else ""
    if not e.signed:
        return [f"{rest}{e.method}: how much it counts, neither for nor against {about}"]
    by_share = leading_score(e) == "shapley"
    listed = {"removal", "value", *(["shapley"] if by_share else []), *([] if e.additive else ["importance"])}
    rest += f"{meaning('shapley')}; " if by_share else ""
    how = e.settings.get("removal")
    removal = meaning("removal").replace(":", f" ({how}):" if how else ":", 1)
    rest += removal if _title(e) == "removal" else f"effect: what it adds to the {named}, by {e.method}"
    rest += "" if listed.isdisjoint(e.errors) else "; ± is a 95% interval"
    rest += "; removals and values without ± are the model's own answers" if e.measured and e.errors else ""
    rest += "; ? is not distinguishable from zero" if table.marked else ""
    columns = "; ".join(f"{name}: {SCORES[name].meaning}" for name in ("value", "importance") if name in table.shown)
    return [line for line in (rest, columns, competition_text(e), _included(e)) if line]


def _included(e: Explanation) -> str:
    """Return the line that says what of a removal is due to later words shifting; empty where nothing is."""
    if e.place_effects is None:
        return ""
    column, strongest = e.column(), float(np.abs(e.scores("removal")).max())
    most = float(np.abs(e.place_effects if column is None else e.place_effects[:, column]).max())
    if most < _SLIGHT * strongest:
        return ""
    return f"a removal moves later words: up to {_signed(most, strongest)[1:]} of it is due to that"


def _signed(number: float, beside: float) -> str:
    """Write an effect with three decimals, or as many as give the strongest of them three digits."""
    if not 1e-5 <= beside < 0.05:
        return f"{number:+.3f}" if beside >= 0.05 else f"{number:+.2e}"
    return f"{number:+.{2 - int(np.floor(np.log10(beside)))}f}"


def short(name: str, most: int) -> str:
    """Return a name on one line, of so many characters at most, that cannot steer a terminal."""
    return shortened(harmless(" ".join(name.split()) or name), most)


def harmless(text: str) -> str:
    """Return a text that cannot steer a terminal: control characters become a mark of the same length."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) != "Cc" else "\N{REPLACEMENT CHARACTER}" for c in printable(text)
    )


def quality(e: Explanation) -> str:
    """Return one line on how well the explanation predicts the model, and what it cost."""
    if not e.signed:
        fit = ""
    elif e.fidelity.statement:
        fit = f"predicts removals with {e.fidelity.statement}; "
    elif any(tested.few for tested, _ in e.fidelity.known):
        few = f"not tested, as too few of the test queries are new to {e.method}"
        few = few if _is_foreign(e) else "too few queries were left to test it"
        fit = f"fits what the model answers with R2 = {e.fit_r2:.3f}; {few}; "
    elif e.fidelity.known:
        fit = "the model answers the same to all queries that test the fit; "
    elif not e.merged_from and (all_asked(e) or e.settings.get("queries") == 0):
        fit = f"{fidelity_text(e)}; "
    else:
        why = fidelity_text(e) if e.merged_from else "no query was left to test it"
        fit = f"fits what the model answers with R2 = {e.fit_r2:.3f}; {why}; "
    return f"{fit}{queries_text(e)}, {duration(e.seconds)}"
