"""`slalom lexicon`: what a model says of each word, learnt once from many texts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter, validators
from rich.console import Console

from slalom.cli.inputs import STANDARD_INPUT, texts_of_file
from slalom.cli.language_models import LanguageModel
from slalom.cli.options import BUDGET, EXPLANATION, INPUT, OUTPUT, Column, Cost, Csv, Html, Json, Long, Positive, Seed, Unit
from slalom.cli.printing import check_outputs, complain, console, print_estimate, print_line, print_rows, say_written, written
from slalom.cli.user_code import AnyClassifier
from slalom.errors import InputError, count

lexicon = App(name="lexicon", help="Learn what a model says of each word, show it, compare two models.")

File = Annotated[Path, Parameter(help="File that `slalom lexicon build` wrote.")]


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True)
class Texts:
    """The texts from which words are learnt."""

    data: Annotated[Path, Parameter(name=("--data", "--file"))]
    """Texts whose words are learnt: by line, or rows (.jsonl, .json, .csv, .tsv; .gz); - is stdin."""
    column: Column = ()
    limit: Positive | None = None
    """Learn from the first texts only (default: all)."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class Output:
    """What is shown and written."""

    target: Annotated[str | None, Parameter(group=EXPLANATION)] = None
    """Class whose score is shown (default: the second of two, else the first)."""
    min_texts: Positive = 5
    """Fewest texts of a word (default: 5)."""
    top: Positive = 20
    """Rows of each table (default: 20); pages and files have all words."""
    as_json: Json = False
    csv: Csv = None
    html: Html = None


@lexicon.command
def build(
    *,
    texts: Texts,
    out: Annotated[Path, Parameter(group=OUTPUT)],
    model: AnyClassifier = AnyClassifier(),
    language_model: LanguageModel = LanguageModel(),
    unit: Annotated[Unit | None, Parameter(group=EXPLANATION)] = None,
    long: Annotated[Long, Parameter(group=EXPLANATION)] = "cut",
    seed: Annotated[Seed, Parameter(group=EXPLANATION)] = 0,
    queries: Annotated[int, Parameter(group=BUDGET, validator=validators.Number(gte=20))] = 120,
    cost: Cost = Cost(),
    as_json: Json = False,
) -> int:
    """Learn the words of texts: each is asked alone, and its importance comes from queries about the texts.

    With --cache, the same command continues one that was interrupted.

    Args:
        out: File that is written (.parquet).
        unit: token, type, word or sentence (default: that of the method joint).
        queries: Queries per text, besides each new word alone (default: 120).
    """
    from slalom import Explainer, Lexicon  # noqa: PLC0415
    from slalom.lexicon.known import shown_r2  # noqa: PLC0415

    check_outputs(None if str(texts.data) == STANDARD_INPUT else texts.data, out)
    if len(texts.column) > 1:
        raise InputError(f"a lexicon is learnt from one column of texts; got {', '.join(texts.column)}")
    listed = texts_of_file(texts.data, next(iter(texts.column), None))[: texts.limit]
    asked, about_model = model.load(language_model)
    about_model |= {"cache": cost.cache, "prices": cost.prices, "max_cost": cost.max_cost}
    explainer = Explainer(asked, unit=unit, seed=seed, long=long, **about_model)
    if cost.dry_run:
        print_estimate(Lexicon.estimate(explainer, listed, queries=queries), as_json)
        return 0
    try:
        found = Lexicon.learn(explainer, listed, queries=queries)
    except KeyboardInterrupt:
        complain(f"interrupted; {'run the same command to continue' if cost.cache else 'use --cache FILE to keep the answers'}")
        return 130
    found.save(out)
    if as_json:
        print(json.dumps({"words": len(found), **found.about}))
        return 0
    about, held = found.about, found.about["held_out"]
    skipped = f" ({about['skipped']} could not be read)" if about["skipped"] else ""
    print_line(console(), f"{count(len(found), 'word')} of {count(about['texts'], 'text')}{skipped}")
    print_line(
        console(),
        f"Without a query, R2 {shown_r2(held['near'])} near the text and {shown_r2(held['far'])} on parts of all sizes (medians"
        f" of {count(held['texts'], 'text')} that the words were not learnt from).",
    )
    print_line(console(), f"written: {out}")
    return 0


@lexicon.command
def show(file: File, /, *, output: Output = Output()) -> None:
    """Show the strongest words, and those that say something else in texts than alone."""
    from slalom import Lexicon  # noqa: PLC0415
    from slalom.lexicon.words import words_of  # noqa: PLC0415

    check_outputs(file, output.csv, output.html)
    found = Lexicon.load(file)
    words = words_of(found, output.target)
    strongest = words.by("in_texts", output.min_texts)
    if written(strongest, output):
        return
    screen = console()
    print_line(screen, f"{words.title}; scores are of “{words.target}”", "bold")
    learnt = f"learnt from {count(found.about['texts'], 'text')}"
    print_line(screen, f"{learnt}; {len(strongest):,} words are in at least {output.min_texts}", "dim")
    screen.print()
    _table(screen, "strongest", strongest, output.top, "in_texts", "texts alone in_texts importance")
    screen.print()
    in_context = words.by("context", output.min_texts)
    _table(screen, "context", in_context, output.top, "context", "texts alone in_texts context")
    print_line(
        screen,
        "alone: the model's answer to the word alone, less that to the empty text; in texts: what its effects in texts say that"
        " this would be; importance: logarithm of its weight against other words. ±: 95% intervals. Order: how far the"
        " interval is from zero.",
        "dim",
    )
    say_written(output)


@lexicon.command
def compare(before: File, after: File, /, *, output: Output = Output()) -> None:
    """Show which words say something else to another model: what training changed, or what a fix did."""
    from slalom import Lexicon  # noqa: PLC0415
    from slalom.lexicon.words import changes_of  # noqa: PLC0415

    check_outputs(None, output.csv, output.html)
    changes = changes_of(Lexicon.load(before), Lexicon.load(after), output.target).by("change", output.min_texts)
    if written(changes, output):
        return
    screen = console()
    print_line(screen, f"{changes.title}; scores are of “{changes.target}”", "bold")
    names = "texts alone_before alone_after in_texts_before in_texts_after change"
    _table(screen, "word", changes, output.top, "change", names)
    print_line(screen, "change: in texts, with its 95% interval. Order: how far it is from zero.", "dim")
    say_written(output)


def _table(screen: Console, head: str, words: Any, top: int, coloured: str, names: str) -> None:
    from slalom.result import NORMAL_95  # noqa: PLC0415

    columns, rows = words.columns, []
    for i, word in enumerate(words.words[:top]):
        row = [columns[coloured][i], word]
        for name in names.split():
            number, error = float(columns[name][i]), columns.get(f"{name}_se")
            within = "" if error is None else f" ± {NORMAL_95 * float(error[i]):.2f}"
            row.append(f"{int(number):,}" if name == "texts" else f"{number:+.2f}{within}")
        rows.append(row)
    print_rows(screen, [name.replace("_", " ") for name in (head, *names.split())], rows)
