"""`slalom compare`: methods side by side on a model and texts of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.cli.printing import check_places, complain, console
from slalom.errors import InputError
from slalom.files import has_rows, read_rows, read_text, write_text
from slalom.training.data import read_labelled


def compare(
    data: Annotated[
        Path,
        typer.Option(
            help="Texts: one a line, or rows with a field `text` (.jsonl, .json, .csv, .tsv; also .gz); rows with `words`"
            " and `maps` bring what people have marked."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="The folder or hub name of a Hugging Face classifier; the sentiment model of slalom unless told."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas, ours and baselines; a wrong one lists them all.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Names with commas; all that can be had but instability unless told.")
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="How many texts, drawn at random.")] = 50,
    queries: Annotated[str, typer.Option(help="Budgets with commas.")] = "500",
    corpus: Annotated[
        str | None, typer.Option(help="Labelled texts of two classes, for Naive Bayes; given as `slalom train` takes them.")
    ] = None,
    unit: Annotated[Literal["token", "type", "word", "sentence"], typer.Option(help="What the texts are made of.")] = "token",
    target: Annotated[str | None, typer.Option(help="The class to explain, by label or number.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU if there is one, unless told.")] = None,
    seed: Annotated[int, typer.Option(help="Of the choice of texts, the queries and the fits.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A .jsonl file for every record; one that was begun is continued.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table of means and standard errors.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the table and pictures.")] = None,
) -> None:
    """Set methods side by side: how well each predicts the model, ranks what decides, and what it costs.

    Ctrl-C loses nothing where --out is given: the same command goes on.
    """
    from slalom.evaluate.comparison import DEFAULT  # noqa: PLC0415
    from slalom.evaluate.comparison import compare as run  # noqa: PLC0415

    chosen, human = _texts(data, texts, seed)
    check_places(data, out, csv, html)
    labelled = None if corpus is None else read_labelled(corpus)
    if labelled is not None and len(labelled.names) != 2:
        raise InputError(f"--corpus must have two labels; {corpus} has {len(labelled.names)}")
    try:
        found = run(
            model,
            chosen,
            methods=_listed(methods) or DEFAULT,
            queries=_budgets(queries),
            measures=_listed(metrics),
            corpus=None if labelled is None else (labelled.texts, labelled.labels.tolist()),
            human=human,
            target=int(target) if target is not None and target.isdecimal() else target,
            unit=unit,
            seed=seed,
            out=out,
            device=device,
        )
    except KeyboardInterrupt as stop:
        complain(f"interrupted; {'the same command goes on' if out else 'with --out FILE what is done is kept'}")
        raise typer.Exit(130) from stop
    if csv:
        write_text(csv, found.to_csv())
    if html:
        found.to_html(html)
    if as_json:
        typer.echo(found.to_json())
        return
    show(found, console())
    for path in (csv, html, out):
        if path:
            console().print(f"written: {path}", markup=False, soft_wrap=True)


def show(found: Any, screen: Console) -> None:
    """Print the table of means and standard errors, the best of each measure in bold."""
    from slalom.evaluate.comparison import MEASURES  # noqa: PLC0415

    wide, shown, errors = not screen.is_terminal, list(found.measures), True
    table = _table(found, shown, errors)
    while table.__rich_measure__(screen, screen.options.update(max_width=10_000)).maximum > screen.width and len(shown) > 1:
        if not errors:  # what does not fit is left out, never cut
            shown.remove(next((name for name in ("tokens", "queries") if name in shown), shown[-1]))
        errors = False
        table = _table(found, shown, errors)
    screen.print(table, soft_wrap=wide)
    if len(shown) < len(found.measures):
        screen.print(f"left out for want of room: {', '.join(n for n in found.measures if n not in shown)}; --csv FILE has all")
    about = found.about
    screen.print(
        f"{about['texts']} texts, {about['model']}, seed {about['seed']}; mean{' ± standard error' if errors else ''}",
        markup=False,
        soft_wrap=wide,
    )
    for name in found.measures:
        more, what = MEASURES[name]
        side = {True: "more is better", False: "less is better", None: "neither is better"}[more]
        screen.print(Text(f"{name.replace('_', ' ')}: {what} ({side})", "dim"), soft_wrap=wide)
    for name, reason in found.skipped.items():
        screen.print(f"left out: {name}: {reason}", markup=False, soft_wrap=wide)


def _table(found: Any, measures: Sequence[str], errors: bool) -> Table:
    best = {name: found.best(name) for name in measures}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, side in (("method", "left"), ("budget", "right"), *((name.replace("_", " "), "right") for name in measures)):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for row in found.rows:
        cells = [Text(row[0]), Text("" if row[1] is None else str(row[1]))]
        for name in measures:
            one = found.summary(row, name)
            said = "" if one.mean is None else _number(one.mean, name)
            if errors and one.se is not None and name not in ("queries", "tokens"):
                said += f" ± {_number(one.se, name)}"
            cells.append(Text(said, "bold" if best[name] == row else ""))
        table.add_row(*cells)
    return table


def _number(number: float, name: str) -> str:
    if name in ("queries", "tokens"):
        return f"{number:.0f}"
    return f"{number:.3f}" if abs(number) < 100 else f"{number:.3g}"


def _texts(path: Path, most: int, seed: int) -> tuple[list[str], list[tuple[list[str], Any]] | None]:
    """Return some texts of a file, drawn at random and in their order, and what people have marked in them."""
    if not has_rows(path):
        every = [line.strip("\r") for line in read_text(path).split("\n") if line.strip()]
        return [every[i] for i in _drawn(len(every), most, seed, path)], None
    rows = list(read_rows(path))
    if rows and all("words" in row and "maps" in row for row in rows):
        from slalom.evaluate import yelp_hat  # noqa: PLC0415

        marked = yelp_hat(rows)
        chosen = [marked[i] for i in _drawn(len(marked), most, seed, path)]
        return [one.text for one in chosen], [(list(one.words), one.maps) for one in chosen]
    found = [row["text"] for row in rows if isinstance(row.get("text"), str) and row["text"].strip()]
    if rows and not found:
        raise InputError(f'the rows of {str(path)!r} must have a field "text"; they have {", ".join(map(repr, rows[0]))}')
    return [found[i] for i in _drawn(len(found), most, seed, path)], None


def _drawn(n: int, most: int, seed: int, path: Path) -> list[int]:
    if n == 0:
        raise InputError(f"{str(path)!r} must have at least one text; it has none")
    return sorted(np.random.default_rng(seed).permutation(n)[:most].tolist())


def _listed(given: str | None) -> Sequence[str] | None:
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _budgets(given: str) -> list[int]:
    try:
        budgets = [int(part) for part in given.split(",") if part.strip()]
    except ValueError:
        budgets = []
    if not budgets or min(budgets) < 2:
        raise InputError(f"--queries must be numbers of at least 2 with commas, such as 500,5000; got {given!r}")
    return budgets
