"""`slalom corpus summary`, `compare` and `sql`: what a model does in general, what changed, and questions of your own."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.cli.options import Json
from slalom.cli.printing import check_outputs, complain, console
from slalom.errors import plural
from slalom.files import csv_text, write_text

_NAME = 24  # characters of a word in a table
_PARTS = 4  # slices or classes side by side
_FLIPS = 10
_ORDERS = {"effect": "the end of the interval on zero's side", "total": "mean times texts", "texts": "texts"}

Folder = Annotated[str, typer.Argument(metavar="OUT", help="Folder that `slalom corpus run` has written.")]
By = Annotated[Literal["word", "phrase", "piece", "all"], typer.Option(help="What is listed; pieces are tokens within words.")]
Gold = Annotated[str | None, typer.Option(help="Kept column with the true labels: labels of the model, or their indices.")]
SliceColumn = Annotated[
    str | None, typer.Option("--slice", help="Kept column with a part of the corpus per text, such as its origin.")
]
OneTarget = Annotated[str | None, typer.Option(help="Class whose score is summarised.", show_default="that of most texts")]
Top = Annotated[int, typer.Option(min=1, help="Rows of each table; pages and files have at least 100.")]
MinTexts = Annotated[int | None, typer.Option(min=2, help="Fewest texts of a word.", show_default="5, or one in 10,000 texts")]
Case = Annotated[bool, typer.Option("--case", help="Tell upper from lower case.")]
Csv = Annotated[Path | None, typer.Option(help="Write all rows as CSV.")]
Html = Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")]


def summary(
    out: Folder,
    gold: Gold = None,
    slices: SliceColumn = None,
    target: OneTarget = None,
    by: By = "word",
    sort: Annotated[
        Literal["effect", "total", "texts"],
        typer.Option(help="Order: the end of the listed interval on zero's side, mean times texts, or texts."),
    ] = "effect",
    top: Top = 20,
    min_texts: MinTexts = None,
    phrases: Annotated[int, typer.Option(min=1, max=5, help="Words of the longest phrase; 1: no phrases.")] = 3,
    strongest: Annotated[int, typer.Option(min=1, help="How many words of a text count as its strongest.")] = 5,
    case: Case = False,
    include_poor: Annotated[
        bool,
        typer.Option("--include-poor", help="Include texts whose explanation predicts worse than a constant near the text."),
    ] = False,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
) -> None:
    """Summarise what the model does in general: by word and phrase, and shortcuts that it should not take."""
    from slalom import corpus  # noqa: PLC0415

    check_outputs(None, csv, html)
    found = corpus.summary(
        out,
        gold=gold,
        slices=slices,
        target=target,
        min_texts=min_texts,
        phrases=phrases,
        strongest=strongest,
        sort=sort,
        top=max(100, top),
        case=case,
        include_poor=include_poor,
    )
    if not _written(found, csv, html, as_json):
        show_summary(found, console(), by, top)
        _say_written(csv, html)


def compare(
    before: Annotated[str, typer.Argument(metavar="OUT1", help="Folder of the first model's explanations.")],
    after: Annotated[str, typer.Argument(metavar="OUT2", help="Folder of the second model's, of the same texts.")],
    gold: Gold = None,
    target: OneTarget = None,
    by: By = "word",
    top: Top = 20,
    min_texts: MinTexts = None,
    case: Case = False,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
) -> None:
    """Compare two models on the same texts: which words changed, which predictions flipped and why."""
    from slalom import corpus  # noqa: PLC0415

    check_outputs(None, csv, html)
    found = corpus.compare(before, after, gold=gold, target=target, min_texts=min_texts, top=max(100, top), case=case)
    if not _written(found, csv, html, as_json):
        show_comparison(found, console(), by, top)
        _say_written(csv, html)


def sql(
    out: Folder,
    query: Annotated[str, typer.Argument(help="A query of DuckDB over texts, units, words and phrases.")],
    as_json: Json = False,
    csv: Csv = None,
) -> None:
    """Ask a question of your own in SQL: the views are texts, units, words and phrases."""
    from slalom import corpus  # noqa: PLC0415

    check_outputs(None, csv, None)
    found = corpus.open(out).sql(query)
    if found is None:
        return
    if csv or as_json:
        rows = found.fetchall()
        if csv:
            write_text(csv, csv_text([list(found.columns), *map(list, rows)]))
        if as_json:
            typer.echo(json.dumps([dict(zip(found.columns, row, strict=True)) for row in rows], default=str))
    else:
        typer.echo(found)
    _say_written(csv)


def _written(found: Any, csv: Path | None, html: Path | None, as_json: bool) -> bool:
    """Write the files; return whether everything was printed as JSON."""
    if csv:
        write_text(csv, found.to_csv())
    if html:
        found.to_html(html)
    if as_json:
        typer.echo(found.to_json())
    return as_json


def _say_written(*paths: Path | None) -> None:
    for path in paths:
        if path:
            complain(f"written: {path}")


def show_summary(found: Any, screen: Console, by: str, top: int) -> None:
    """Print a summary as tables that fit into 80 columns."""
    from slalom.corpus.queries import POOR_R2  # noqa: PLC0415

    about = found.about
    right = "" if about["accuracy"] is None else f", accuracy {about['accuracy']:.1%}"
    heading = f"{about['model']} on {about['explained']:,} {plural(about['explained'], 'text')}{right}"
    _line(screen, f"{heading}; effects on the score of “{about['target']}”", "bold")
    if others := about["other_targets"]:
        explain = "text explains" if (n := sum(others.values())) == 1 else "texts explain"
        _line(screen, f"{n:,} {explain} other classes: --target {' | '.join(others)}", "dim")
    if poor := about["poor"]:
        every = about["explained"] + (0 if about["include_poor"] else poor)
        done = "included" if about["include_poor"] else "left out; explain with more queries, or add --include-poor"
        _line(screen, f"{poor:,} of {every:,} texts poorly explained (held-out R2 near the text below {POOR_R2:g}): {done}")
    for kind in ("word", "phrase", "piece"):
        words = found.of_kind(kind)[:top] if by in (kind, "all") else []
        if by == kind and not words:
            _line(screen, f"no {kind} is in at least {about['min_texts']} texts; --min-texts lowers that")
        if words:
            screen.print()
            _words(screen, kind, words, about)
            if "slice" in about["groups"]:
                _slices(screen, words, about)
    screen.print()
    _shortcuts(screen, found, top)
    _line(
        screen,
        f"Effect: mean over the texts that have it, with a 95% interval. Order: {_ORDERS[about['sort']]}. Listed: in at least"
        f" {about['min_texts']} texts.",
        "dim",
    )


def _words(screen: Console, kind: str, words: Sequence[Any], about: Any) -> None:
    heads = [kind, "texts", "effect", "95% interval", f"top {about['strongest']}", "reversed"]
    contrasted = about["gold"] is not None
    rows = []
    for word in words:
        effect = word.effect
        cells = [_name(word.name), f"{effect.texts:,}", _signed(effect.mean), _interval(effect)]
        cells += [f"{word.strongest:.0%}", f"{word.against / effect.texts:.0%}"]
        if contrasted:
            gap = word.contrast()
            sure = gap is not None and gap.low * gap.high > 0
            cells.append("" if gap is None else _signed(gap.difference) + ("*" if sure else " "))
        rows.append((cells, effect.mean))
    _table(screen, [*heads, *(["correct-wrong"] if contrasted else [])], rows)
    notes = "top: share of its texts where it is among the strongest; reversed: share of texts with the opposite effect"
    _line(screen, notes + ("; *: 95% interval without 0" if contrasted else ""), "dim")


def _slices(screen: Console, words: Sequence[Any], about: Any) -> None:
    parts = about["groups"]["slice"][:_PARTS]
    rows = []
    for word in words:
        cells = [word.groups["slice"][part] for part in parts]
        rows.append(
            ([_name(word.name), *(f"{_signed(cell.mean)} ({cell.texts:,})" if cell.texts else "" for cell in cells)], None)
        )
    screen.print()
    _table(screen, [f"by {about['slice']}", *(_name(part, 14) for part in parts)], rows)


def _shortcuts(screen: Console, found: Any, top: int) -> None:
    if not found.shortcuts:
        _line(screen, "shortcuts: none found")
        return
    about = found.about
    rows = [
        (
            [_name(item.word.name), f"{item.score:.2f}", _signed(item.word.effect.mean), "; ".join(item.reasons)],
            item.word.effect.mean,
        )
        for item in found.shortcuts[: min(top, 10)]
    ]
    _table(screen, ["shortcut?", "score", "effect", "why"], rows, wrapped=True)
    if about["gold"] is None and about["slice"] is None:
        _line(screen, "neither --gold nor --slice was given: these are only the strong and rare", "dim")
    else:
        _line(screen, "score: log odds that the model relies on it for, beyond what labels and slices support", "dim")


def show_comparison(found: Any, screen: Console, by: str, top: int) -> None:
    """Print a comparison as tables that fit into 80 columns."""
    about = found.about
    first, second = about["models"]
    shared = f"{about['shared']:,} shared texts; effects on “{about['target']}”"
    _line(screen, f"before: {first}, after: {second}; {shared}", "bold")
    if about["accuracy"] is not None:
        _line(screen, "accuracy {:.1%} before, {:.1%} after".format(*about["accuracy"]))
    for kind in ("word", "phrase", "piece"):
        changes = found.of_kind(kind)[:top] if by in (kind, "all") else []
        if changes:
            screen.print()
            rows = [
                (
                    [
                        _name(one.name),
                        f"{one.change.texts:,}",
                        _signed(one.before.mean),
                        _signed(one.after.mean),
                        _signed(one.change.mean),
                        _interval(one.change),
                    ],
                    one.change.mean,
                )
                for one in changes
            ]
            _table(screen, [kind, "texts", "before", "after", "change", "95% interval"], rows)
    screen.print()
    share = about["flipped"] / about["shared"]
    ways = "; ".join(f"{way['texts']:,} from {way['before']} to {way['after']}" for way in about["flips"])
    _line(screen, f"{about['flipped']:,} predictions flipped ({share:.1%}){': ' + ways if ways else ''}", "bold")
    for flip in found.flips[: min(top, _FLIPS)]:
        gold = f", truly {flip.gold}" if flip.gold is not None else ""
        _line(screen, f"{flip.id}: {flip.before} -> {flip.after}{gold}, score {_signed(flip.change)}")
        why = ", ".join(f"{_name(word.word)} {_signed(word.before)} -> {_signed(word.after)}" for word in flip.words[:3])
        _line(screen, f"    {why or 'no word has changed in that direction'}", "dim")


def _table(
    screen: Console, heads: Sequence[str], rows: Iterable[tuple[Sequence[str], float | None]], wrapped: bool = False
) -> None:
    """Print rows of cells; the first is a name, with the colour of the sign."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for i, head in enumerate(heads):
        last = wrapped and i == len(heads) - 1
        table.add_column(Text(head), justify="left" if i == 0 or last else "right", no_wrap=not last)
    for cells, sign in rows:
        colour = "" if not sign else "blue" if sign > 0 else "dark_orange3"
        table.add_row(Text(cells[0], colour), *(Text(cell) for cell in cells[1:]))
    screen.print(table)


def _line(screen: Console, text: str, style: str = "") -> None:
    screen.print(Text(text, style), soft_wrap=not screen.is_terminal)


def _name(name: str, most: int = _NAME) -> str:
    from slalom.text import printable  # noqa: PLC0415

    name = printable(" ".join(name.split()))
    return name if len(name) <= most else name[: most - 1] + "…"


def _signed(number: float | None) -> str:
    return "" if number is None else f"{number:+.2f}"


def _interval(effect: Any) -> str:
    return "" if effect.low is None else f"{effect.low:+.2f} to {effect.high:+.2f}"


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (("summary", summary), ("compare", compare), ("sql", sql))
