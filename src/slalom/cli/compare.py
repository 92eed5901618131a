"""`slalom compare`: compare methods on your own model and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slalom.cli.inputs import examples_of
from slalom.cli.language_models import LanguageModel
from slalom.cli.options import BUDGET, EXPLANATION, INPUT, OUTPUT, Cost, Html, Json, Out, Positive, Rows, Target, Unit, class_of
from slalom.cli.printing import UsageError, check_outputs, complain, console, print_estimate, print_line, written
from slalom.cli.user_code import AnyClassifier
from slalom.errors import InputError, count
from slalom.files import has_rows, read_rows


@Parameter(name="*", group=EXPLANATION)
@dataclass(frozen=True)
class Methods:
    """What is compared."""

    methods: str | None = None
    """Methods, with commas (default: ten of `slalom methods`)."""
    metrics: str | None = None
    """Measures, with commas (default: all that apply)."""
    texts: Positive = 50
    """Number of texts, drawn at random (default: 50)."""
    removal: str = "drop"
    """What removing means: drop (default), mask or blank; several with commas."""
    corpus: Annotated[str | None, Parameter(group=INPUT)] = None
    """Rows with text and label of two classes, for Naive Bayes."""
    unit: Unit = "token"
    """Unit of the explanations (default: token)."""
    target: Target = None
    seed: int = 0
    """Seed of the choice of texts, the queries and the fits."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class Output:
    """What is shown and written."""

    as_json: Json = False
    csv: Path | None = None
    """Write the table of means and standard errors as CSV."""
    html: Html = None
    out: Out = None


def compare(
    *,
    rows: Rows = Rows(),
    model: AnyClassifier = AnyClassifier(),
    language_model: LanguageModel = LanguageModel(),
    of: Methods = Methods(),
    queries: Annotated[str, Parameter(group=BUDGET)] = "500",
    cost: Cost = Cost(),
    output: Output = Output(),
) -> int:
    """Compare methods: how well each predicts the model, how well it ranks the units, and what it costs.

    Rows with `words` and `maps` add the words that people have marked. With --out results are written as they come; after
    Ctrl-C, run the same command to continue. A model that costs money is asked once only with --cache: methods ask some of the
    same queries.

    Args:
        queries: Budgets of model queries, separated by commas, or `auto` (default: 500).
    """
    from slalom.core.checks import whole_number  # noqa: PLC0415
    from slalom.evaluate import DEFAULT_METHODS, comparison_estimate  # noqa: PLC0415
    from slalom.evaluate import compare as run  # noqa: PLC0415
    from slalom.evaluate.labelled import read_labelled  # noqa: PLC0415

    if rows.file is None:
        raise UsageError("the texts are missing; add --file FILE")
    names, measures, budgets = _names("--methods", of.methods), _names("--metrics", of.metrics), _budgets(queries)
    chosen, human = _texts(rows, rows.file, of.texts, whole_number("seed", of.seed, 0))
    check_outputs(rows.file, output.out, output.csv, output.html)
    labelled = None if of.corpus is None else read_labelled(of.corpus)
    if labelled is not None and len(labelled.names) != 2:
        raise InputError(f"--corpus must have two labels; {of.corpus} has {len(labelled.names)}")
    asked, about_model = model.load(language_model, rows)
    options: dict[str, Any] = {
        "methods": DEFAULT_METHODS if names is None else names, "queries": budgets, "measures": measures,
        "target": class_of(of.target), "unit": of.unit, "seed": of.seed, "cache": cost.cache, "prices": cost.prices,
        "removal": _names("--removal", of.removal), **about_model,
    }  # fmt: skip
    if cost.dry_run:
        print_estimate(comparison_estimate(asked, chosen, **options), output.as_json)
        return 0
    corpus = None if labelled is None else (labelled.texts, labelled.labels.tolist())
    try:
        compared = run(asked, chosen, corpus=corpus, human=human, out=output.out, max_cost=cost.max_cost, **options)
    except KeyboardInterrupt:
        complain(f"interrupted; {'run the same command to continue' if output.out else 'use --out FILE to keep results'}")
        return 130
    if written(compared, output):
        return 0
    show(compared, console())
    for path in (output.csv, output.html, output.out):
        if path:
            console().print(f"written: {path}", markup=False, soft_wrap=True)
    return 0


def show(compared: Any, screen: Console) -> None:
    """Print the table of means and standard errors, the best of each measure in bold."""
    from slalom.evaluate import MEASURES  # noqa: PLC0415

    shown, errors = list(compared.measures), True
    table = _table(compared, shown, errors)
    while table.__rich_measure__(screen, screen.options.update(max_width=10_000)).maximum > screen.width and len(shown) > 1:
        if not errors:  # columns that do not fit are left out, never cut
            shown.remove(next((name for name in ("tokens", "queries") if name in shown), shown[-1]))
        errors = False
        table = _table(compared, shown, errors)
    screen.print(table, soft_wrap=not screen.is_terminal)
    if len(shown) < len(compared.measures):
        hidden = ", ".join(name for name in compared.measures if name not in shown)
        screen.print(f"hidden for lack of space: {hidden}; --csv FILE writes all")
    about, several = compared.about, compared.about["texts"] > 1
    what = f"mean{' ± 95% interval' if errors else ''}" if several else "one value each"
    print_line(screen, f"{count(about['texts'], 'text')}, {about['model']}, seed {about['seed']}; {what}")
    for name in compared.measures:
        more, summary = MEASURES[name]
        side = {True: "more is better", False: "less is better", None: "neither is better"}[more]
        print_line(screen, f"{name.replace('_', ' ')}: {summary} ({side})", "dim")
    for name, reason in compared.skipped.items():
        print_line(screen, f"left out: {name}: {reason}")


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


def _texts(given: Rows, path: Path, most: int, seed: int) -> tuple[list[str], list[tuple[list[str], Any]] | None]:
    """Return texts of a file, drawn at random and in their order, and the words that people have marked in them."""
    rows = list(read_rows(path)) if has_rows(path) and not given.given else []
    if rows and all("words" in row and "maps" in row for row in rows):
        from slalom.evaluate import yelp_hat  # noqa: PLC0415

        annotated = yelp_hat(rows)
        chosen = [annotated[i] for i in _drawn(len(annotated), most, seed, path)]
        return [item.text for item in chosen], [(list(item.words), item.maps) for item in chosen]
    texts = [text for text in examples_of(given) if text.strip() and getattr(text, "blank", None) is None]
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
