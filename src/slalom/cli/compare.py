"""`slalom compare`: compare methods on your own model and texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.cli.inputs import texts_of_file
from slalom.cli.language_models import (
    ApiName,
    BaseUrl,
    Chat,
    Concurrency,
    Labels,
    LanguageModel,
    Mode,
    Spellings,
    TemplateOption,
)
from slalom.cli.options import FILE_HELP, Cache, Column, Device, DryRun, Json, MaxCost, PriceTable, Target, UnitName
from slalom.cli.printing import check_outputs, complain, console, print_estimate
from slalom.cli.user_code import AnyModel, OutputOption, TrustPickle, TrustRemoteCode, model_and_options
from slalom.errors import InputError, count
from slalom.files import has_rows, read_rows, write_text


def compare(
    file: Annotated[
        Path, typer.Option(help=f"{FILE_HELP} Rows with `words` and `maps` add the words that people have marked.")
    ],
    column: Column = None,
    model: AnyModel = None,
    lm: LanguageModel = None,
    api: ApiName = None,
    base_url: BaseUrl = None,
    template: TemplateOption = None,
    labels: Labels = None,
    spellings: Spellings = False,
    chat: Chat = False,
    mode: Mode = "auto",
    concurrency: Concurrency = 8,
    output: OutputOption = None,
    trust_remote_code: TrustRemoteCode = False,
    trust_pickle: TrustPickle = False,
    methods: Annotated[
        str | None,
        typer.Option(help="Methods, separated by commas; `slalom methods` lists them.", show_default="a selection of ten"),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Measures, separated by commas.", show_default="all that apply"),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Number of texts, drawn at random.")] = 50,
    queries: Annotated[
        str, typer.Option(help="Budgets of model queries per text, separated by commas; `auto` as in `slalom explain`.")
    ] = "500",
    corpus: Annotated[
        str | None, typer.Option(help="Labelled texts of two classes, for Naive Bayes: rows with text and label.")
    ] = None,
    unit: Annotated[UnitName, typer.Option(help="Unit of the explanations.")] = "token",
    target: Target = None,
    device: Device = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of texts, the queries and the fits.")] = 0,
    cache: Cache = None,
    out: Annotated[Path | None, typer.Option(help="Write every record as JSON lines; an incomplete file is continued.")] = None,
    as_json: Json = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table of means and standard errors as CSV.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page with tables and charts.")] = None,
    dry_run: DryRun = False,
    prices: PriceTable = None,
    max_cost: MaxCost = None,
) -> None:
    """Compare methods: how well each predicts the model, how well it ranks the units, and what it costs.

    With --out results are written as they come; after Ctrl-C, run the same command to continue. A model that costs money is
    asked once only with --cache: methods ask some of the same queries.
    """
    from slalom.core.checks import whole_number  # noqa: PLC0415
    from slalom.evaluate import DEFAULT_METHODS, comparison_estimate  # noqa: PLC0415
    from slalom.evaluate import compare as run  # noqa: PLC0415
    from slalom.evaluate.labelled import read_labelled  # noqa: PLC0415

    method_names, measures, budgets = _names("--methods", methods), _names("--metrics", metrics), _budgets(queries)
    chosen, human = _texts(file, column, texts, whole_number("--seed", seed, 0))
    check_outputs(file, out, csv, html)
    labelled = None if corpus is None else read_labelled(corpus)
    if labelled is not None and len(labelled.names) != 2:
        raise InputError(f"--corpus must have two labels; {corpus} has {len(labelled.names)}")
    asked, about_model = model_and_options(
        model, device, output, labels, trust_remote_code, trust_pickle, lm=lm, spellings=spellings, chat=chat,
        api=api, base_url=base_url, template=template, mode=mode, concurrency=concurrency,
    )  # fmt: skip
    options: dict[str, Any] = {
        "methods": DEFAULT_METHODS if method_names is None else method_names, "queries": budgets, "measures": measures,
        "target": int(target) if target is not None and target.isdecimal() else target, "unit": unit, "seed": seed,
        "cache": cache, "prices": prices, **about_model,
    }  # fmt: skip
    if dry_run:
        print_estimate(comparison_estimate(asked, chosen, **options), as_json)
        return
    try:
        compared = run(
            asked,
            chosen,
            corpus=None if labelled is None else (labelled.texts, labelled.labels.tolist()),
            human=human,
            out=out,
            max_cost=max_cost,
            **options,
        )
    except KeyboardInterrupt as stop:
        complain(f"interrupted; {'run the same command to continue' if out else 'use --out FILE to keep results'}")
        raise typer.Exit(130) from stop
    if csv:
        write_text(csv, compared.to_csv())
    if html:
        compared.to_html(html)
    if as_json:
        typer.echo(compared.to_json())
        return
    show(compared, console())
    for path in (csv, html, out):
        if path:
            console().print(f"written: {path}", markup=False, soft_wrap=True)


def show(compared: Any, screen: Console) -> None:
    """Print the table of means and standard errors, the best of each measure in bold."""
    from slalom.evaluate import MEASURES  # noqa: PLC0415

    wide, shown, errors = not screen.is_terminal, list(compared.measures), True
    table = _table(compared, shown, errors)
    while table.__rich_measure__(screen, screen.options.update(max_width=10_000)).maximum > screen.width and len(shown) > 1:
        if not errors:  # columns that do not fit are left out, never cut
            shown.remove(next((name for name in ("tokens", "queries") if name in shown), shown[-1]))
        errors = False
        table = _table(compared, shown, errors)
    screen.print(table, soft_wrap=wide)
    if len(shown) < len(compared.measures):
        hidden = ", ".join(name for name in compared.measures if name not in shown)
        screen.print(f"hidden for lack of space: {hidden}; --csv FILE writes all")
    about, several = compared.about, compared.about["texts"] > 1
    what = f"mean{' ± 95% interval' if errors else ''}" if several else "one value each"
    screen.print(
        f"{count(about['texts'], 'text')}, {about['model']}, seed {about['seed']}; {what}",
        markup=False,
        soft_wrap=wide,
    )
    for name in compared.measures:
        more, summary = MEASURES[name]
        side = {True: "more is better", False: "less is better", None: "neither is better"}[more]
        screen.print(Text(f"{name.replace('_', ' ')}: {summary} ({side})", "dim"), soft_wrap=wide)
    for name, reason in compared.skipped.items():
        screen.print(f"left out: {name}: {reason}", markup=False, soft_wrap=wide)


def _table(compared: Any, measures: Sequence[str], errors: bool) -> Table:
    best = {name: compared.best(name) for name in measures}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, side in (("method", "left"), ("budget", "right"), *((name.replace("_", " "), "right") for name in measures)):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for row in compared.rows:
        cells = [Text(row[0]), Text("" if row[1] is None else str(row[1]))]
        for name in measures:
            summary = compared.summary(row, name)
            cell = "" if summary.mean is None else _number(summary.mean, name)
            if errors and summary.half_width is not None and name not in ("queries", "tokens"):
                cell += f" ± {_number(summary.half_width, name)}"
            cells.append(Text(cell, "bold" if best[name] == row else ""))
        table.add_row(*cells)
    return table


def _number(number: float, name: str) -> str:
    if name in ("queries", "tokens"):
        return f"{number:.0f}"
    return f"{number:.3f}" if abs(number) < 100 else f"{number:.3g}"


def _texts(path: Path, column: str | None, most: int, seed: int) -> tuple[list[str], list[tuple[list[str], Any]] | None]:
    """Return texts of a file, drawn at random and in their order, and the words that people have marked in them."""
    rows = list(read_rows(path)) if has_rows(path) and column is None else []
    if rows and all("words" in row and "maps" in row for row in rows):
        from slalom.evaluate import yelp_hat  # noqa: PLC0415

        annotated = yelp_hat({"words": row["words"], "maps": row["maps"]} for row in rows)  # labels do not matter here
        chosen = [annotated[i] for i in _drawn(len(annotated), most, seed, path)]
        return [item.text for item in chosen], [(list(item.words), item.maps) for item in chosen]
    texts = [text for text in texts_of_file(path, column) if text.strip()]
    return [texts[i] for i in _drawn(len(texts), most, seed, path)], None


def _drawn(n: int, most: int, seed: int, path: Path) -> list[int]:
    if n == 0:
        raise InputError(f"{str(path)!r} must have at least one text; it has none")
    import numpy as np  # noqa: PLC0415

    return sorted(np.random.default_rng(seed).permutation(n)[:most].tolist())


def _names(option: str, listed: str | None) -> list[str] | None:
    """Return the names of an option, separated by commas; None where it is not given."""
    if listed is None:
        return None
    names = [name.strip() for name in listed.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} must have at least one name; got {listed!r}; leave it out for the default")
    return names


def _budgets(option: str) -> list[Any]:
    parts = [part.strip() for part in option.split(",") if part.strip()]
    try:
        budgets = ["auto" if part == "auto" else int(part) for part in parts]
    except ValueError:
        budgets = []
    if not budgets or min((budget for budget in budgets if isinstance(budget, int)), default=2) < 2:
        raise InputError(
            f"--queries must be numbers of at least 2 or auto, separated by commas, such as 500,5000; got {option!r}"
        )
    return budgets
