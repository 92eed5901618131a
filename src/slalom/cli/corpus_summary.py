"""`slalom corpus summary`, `compare` and `sql`: what a model does in general, what changed, and questions of your own."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators
from rich.console import Console

from slalom.cli.options import EXPLANATION, INPUT, OUTPUT, Csv, Folder, Html, Json, Positive, Slice, fields_of
from slalom.cli.printing import check_outputs, complain, console, print_line, print_rows, say_written, short_name, written
from slalom.errors import plural
from slalom.files import csv_text, write_text

_PARTS = 4  # slices or classes side by side
_SHOWN = 10  # shortcuts, and flips
_KINDS = ("word", "phrase", "piece")
_ORDERS = {"effect": "the end of the interval on zero's side", "total": "mean times texts", "texts": "texts"}


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class Selection:
    """What is summarised, and which rows are listed."""

    gold: Annotated[str | None, Parameter(group=INPUT)] = None
    """Kept column with the true labels: labels of the model, or their indices."""
    target: Annotated[str | None, Parameter(group=EXPLANATION)] = None
    """Class whose score is summarised (default: that of most texts)."""
    min_texts: Annotated[int, Parameter(validator=validators.Number(gte=2))] | None = None
    """Fewest texts of a word (default: 5, or one in 10,000 texts)."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class Output:
    """What is shown and written."""

    by: Literal["word", "phrase", "piece", "all"] = "word"
    """List each word (default), phrase, piece (a token within a word), or all."""
    top: Positive = 20
    """Rows of each table (default: 20); pages and files have at least 100."""
    as_json: Json = False
    csv: Csv = None
    html: Html = None


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class Words:
    """Which words count, and in which order they are."""

    slices: Slice = None
    sort: Literal["effect", "total", "texts"] = "effect"
    """Order: effect (end of the interval on zero's side), total (mean times texts) or texts."""
    phrases: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=5))] = 3
    """Words of the longest phrase (default: 3); 1: no phrases."""
    include_poor: bool = False
    """Include texts whose explanation predicts worse than a constant near the text."""


def summary(out: Folder, /, *, selection: Selection = Selection(), words: Words = Words(), output: Output = Output()) -> None:
    """Summarise what the model does in general: by word and phrase, and shortcuts that it should not take."""
    from slalom import corpus  # noqa: PLC0415

    check_outputs(None, output.csv, output.html)
    result = corpus.summary(out, top=max(100, output.top), **fields_of(selection, words))
    if not written(result, output):
        _show_summary(result, console(), output)


def compare(out1: str, out2: str, /, *, selection: Selection = Selection(), output: Output = Output()) -> None:
    """Compare two models on the same texts: which words changed, which predictions flipped and why.

    Args:
        out1: Folder of the first model's explanations.
        out2: Folder of the second model's, of the same texts.
    """
    from slalom import corpus  # noqa: PLC0415

    check_outputs(None, output.csv, output.html)
    result = corpus.compare(out1, out2, top=max(100, output.top), **fields_of(selection))
    if not written(result, output):
        _show_comparison(result, console(), output)


def sql(out: Folder, query: str, /, *, as_json: Json = False, csv: Csv = None) -> None:
    """Ask a question of your own in SQL, by DuckDB: the views are texts, units, words and phrases.

    Args:
        query: The query.
    """
    from slalom import corpus  # noqa: PLC0415

    check_outputs(None, csv, None)
    rows = corpus.open(out).sql(query)
    if rows is None:
        return
    if csv:
        write_text(csv, csv_text([list(rows.columns), *map(list, rows.fetchall())]))
        complain(f"written: {csv}")
    if as_json:
        print(json.dumps([dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()], default=str))
    elif not csv:
        print(rows)


def _show_summary(summary: Any, screen: Console, output: Output) -> None:
    from slalom.corpus.queries import POOR_R2  # noqa: PLC0415

    about = summary.about
    right = "" if about["accuracy"] is None else f", accuracy {about['accuracy']:.1%}"
    heading = f"{about['model']} on {about['explained']:,} {plural(about['explained'], 'text')}{right}"
    print_line(screen, f"{heading}; effects on the score of “{about['target']}”", "bold")
    if others := about["other_targets"]:
        explain = "text explains" if (n := sum(others.values())) == 1 else "texts explain"
        print_line(screen, f"{n:,} {explain} other classes: --target {' | '.join(others)}", "dim")
    if poor := about["poor"]:
        every = about["explained"] + (0 if about["include_poor"] else poor)
        done = "included" if about["include_poor"] else "left out; explain with more queries, or add --include-poor"
        print_line(
            screen, f"{poor:,} of {every:,} texts poorly explained (held-out R2 near the text below {POOR_R2:g}): {done}"
        )
    for kind in _KINDS:
        words = summary.of_kind(kind)[: output.top] if output.by in (kind, "all") else []
        if words:
            _show_words(screen, kind, words, about)
        elif output.by == kind:
            print_line(screen, f"no {kind} is in at least {about['min_texts']} texts; --min-texts lowers that")
    screen.print()
    if not summary.shortcuts:
        print_line(screen, "shortcuts: none found")
    else:
        rows = []
        for item in summary.shortcuts[: min(output.top, _SHOWN)]:
            mean = item.word.effect.mean
            rows.append([mean, item.word.name, f"{item.score:.2f}", _signed(mean), "; ".join(item.reasons)])
        print_rows(screen, ["shortcut?", "score", "effect", "why"], rows, wrapped=True)
        note = "score: log odds that the model relies on it for, beyond what labels and slices support"
        if about["gold"] is None and about["slice"] is None:
            note = "neither --gold nor --slice was given: these are only the strong and rare"
        print_line(screen, note, "dim")
    print_line(
        screen,
        f"Effect: mean over the texts that have it, with a 95% interval. Order: {_ORDERS[about['sort']]}. Listed: in at least"
        f" {about['min_texts']} texts.",
        "dim",
    )
    say_written(output)


def _show_words(screen: Console, kind: str, words: Sequence[Any], about: Any) -> None:
    heads, rows = [kind, "texts", "effect", "95% interval", f"top {about['strongest']}", "reversed"], []
    notes = "top: share of its texts where it is among the strongest; reversed: share of texts with the opposite effect"
    for word in words:
        n, mean = word.effect.texts, word.effect.mean
        shares = [f"{word.strongest:.0%}", f"{word.against / n:.0%}"]
        rows.append([mean, word.name, f"{n:,}", _signed(mean), _interval(word.effect), *shares])
    if about["gold"] is not None:
        heads, notes = [*heads, "correct-wrong"], notes + "; *: 95% interval without 0"
        for row, word in zip(rows, words, strict=True):
            gap = word.contrast()
            row.append("" if gap is None else _signed(gap.difference) + ("*" if gap.low * gap.high > 0 else " "))
    screen.print()
    print_rows(screen, heads, rows)
    print_line(screen, notes, "dim")
    if "slice" in about["groups"]:
        parts, rows = about["groups"]["slice"][:_PARTS], []
        for word in words:
            cells = [word.groups["slice"][part] for part in parts]
            rows.append([None, word.name, *(f"{_signed(cell.mean)} ({cell.texts:,})" if cell.texts else "" for cell in cells)])
        screen.print()
        print_rows(screen, [f"by {about['slice']}", *(short_name(part, 14) for part in parts)], rows)


def _show_comparison(comparison: Any, screen: Console, output: Output) -> None:
    about = comparison.about
    first, second = about["models"]
    shared = f"{about['shared']:,} shared texts; effects on “{about['target']}”"
    print_line(screen, f"before: {first}, after: {second}; {shared}", "bold")
    if about["accuracy"] is not None:
        print_line(screen, "accuracy {:.1%} before, {:.1%} after".format(*about["accuracy"]))
    for kind in _KINDS:
        if changes := comparison.of_kind(kind)[: output.top] if output.by in (kind, "all") else []:
            rows = []
            for one in changes:
                means = [_signed(effect.mean) for effect in (one.before, one.after, one.change)]
                rows.append([one.change.mean, one.name, f"{one.change.texts:,}", *means, _interval(one.change)])
            screen.print()
            print_rows(screen, [kind, "texts", "before", "after", "change", "95% interval"], rows)
    screen.print()
    share = about["flipped"] / about["shared"]
    ways = "; ".join(f"{way['texts']:,} from {way['before']} to {way['after']}" for way in about["flips"])
    print_line(screen, f"{about['flipped']:,} predictions flipped ({share:.1%}){': ' + ways if ways else ''}", "bold")
    for flip in comparison.flips[: min(output.top, _SHOWN)]:
        gold = f", truly {flip.gold}" if flip.gold is not None else ""
        print_line(screen, f"{flip.id}: {flip.before} -> {flip.after}{gold}, score {_signed(flip.change)}")
        why = ", ".join(f"{short_name(word.word)} {_signed(word.before)} -> {_signed(word.after)}" for word in flip.words[:3])
        print_line(screen, f"    {why or 'no word has changed in that direction'}", "dim")
    say_written(output)


def _signed(number: float | None) -> str:
    return "" if number is None else f"{number:+.2f}"


def _interval(effect: Any) -> str:
    return "" if effect.low is None else f"{effect.low:+.2f} to {effect.high:+.2f}"
