"""Options that several commands share, in groups: a command takes a group as one argument.

The docstring of a field is its line in `--help`; an option of several groups is an annotated type that has this line. What the
groups are called, and their order, is the same in all commands.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

from slalom.cli.printing import UsageError, as_option

INPUT, MODEL, LANGUAGE_MODEL, EXPLANATION, BUDGET, RUN, SERVER, OUTPUT = (
    Group(title, sort_key=number)
    for number, title in enumerate(
        ("Input", "Model", "Language model", "Explanation", "Budget", "Run", "Server", "Output"), start=1
    )
)
Unit = Literal["token", "type", "word", "sentence"]
Positive = Annotated[int, Parameter(validator=validators.Number(gte=1))]
NotNegative = Annotated[int, Parameter(validator=validators.Number(gte=0))]
_Names = Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=False)]
Column = Annotated[_Names, Parameter(help="Column of the rows that holds the texts (default: text).")]
Fields = Annotated[
    _Names, Parameter(help="Column of the rows that holds the texts (default: text); repeated: the fields of each example.")
]
Numeric = Annotated[_Names, Parameter(help="Column of numbers that is a field beside the texts; may be repeated.")]
Pair = Annotated[str | None, Parameter(help="Columns of the two texts of a pair, as premise,hypothesis.")]
Slice = Annotated[
    str | None, Parameter(name="--slice", group=INPUT, help="Kept column that divides the corpus, such as its source.")
]
Folder = Annotated[str, Parameter(help="Folder that `slalom corpus run` writes, or an address such as s3://bucket/corpus.")]
Device = Annotated[str | None, Parameter(group=MODEL, help="cpu, cuda, cuda:1, ... (default: a GPU if there is one).")]
TrustCode = Annotated[bool, Parameter(group=MODEL, help="Run Python modules in the model's folder; read them first.")]
Method = Annotated[str, Parameter(help="Method (default: joint); `slalom methods` lists them.")]
Target = Annotated[str | None, Parameter(help="Class, or `all` (default: 1 of two, else the predicted one).")]
Long = Annotated[Literal["cut", "window"], Parameter(help="Longer texts than the model reads: cut (default), or window.")]
Seed = Annotated[int, Parameter(help="Seed of the queries and the fit.")]
Cache = Annotated[Path | None, Parameter(group=BUDGET, help="SQLite file that keeps the model's answers.")]
Top = Annotated[Positive, Parameter(group=OUTPUT, help="Rows of the table (default: 10).")]
Json = Annotated[bool, Parameter(name="--json", group=OUTPUT, help="Print JSON only.")]
Csv = Annotated[Path | None, Parameter(group=OUTPUT, help="Write all rows as CSV.")]
Html = Annotated[Path | None, Parameter(group=OUTPUT, help="Write a self-contained HTML page.")]
Out = Annotated[Path | None, Parameter(help="Write JSON lines; an incomplete file is continued.")]


def queries_option(_: Any, tokens: Any) -> int | str:
    """Return a number of queries, or "auto"."""
    option = tokens[0].value.strip()
    try:
        return "auto" if option == "auto" else int(option)
    except ValueError:
        raise ValueError(f"must be a whole number of at least 2, or auto; got {option!r}") from None


def _prices(_: Any, tokens: Any) -> Any:
    parts = tokens[0].value.split(",")
    try:
        return dict(zip(("input", "output"), map(float, parts), strict=len(parts) > 1))
    except ValueError:
        return tokens[0].value


Queries = Annotated[Any, Parameter(group=BUDGET, converter=queries_option, metavar="N|auto")]


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True)
class Rows:
    """Files with texts, or with records of several fields."""

    file: Path | None = None
    """Texts by line, or rows (.jsonl, .json, .csv, .tsv; .gz); - is stdin."""
    column: Fields = ()
    numeric: Numeric = ()
    pair: Pair = None

    @property
    def given(self) -> bool:
        """Whether columns are named."""
        return bool(self.column or self.numeric or self.pair)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True)
class Classifier:
    """A Hugging Face classifier."""

    model: str | None = None
    """Folder or hub name of a Hugging Face classifier (default: the bundled one)."""
    device: Device = None


@Parameter(name="*", group=EXPLANATION)
@dataclass(frozen=True)
class Explaining:
    """How a text is explained."""

    method: Method = "joint"
    unit: Unit | None = None
    """token, type, word or sentence (default: that of the method)."""
    target: Target = None
    long: Long = "cut"
    seed: Seed = 0
    removal: Literal["drop", "mask", "blank"] = "drop"
    """What removing means: drop (default), or mask or blank in its place."""
    prior: str | None = None
    """File of `slalom lexicon build`: fewer queries do, --queries 0 too; bundled: that of the bundled classifier."""


@Parameter(name="*", group=BUDGET)
@dataclass(frozen=True)
class Budget:
    """How many queries a text may have."""

    queries: Queries = None
    """Queries per text (default: 5 per unit, 200 to 1000)."""
    tolerance: float | None = None
    """With auto: wanted ± of the ten strongest units."""
    max_queries: int | None = None
    """Limit of all queries (default of auto: 5000; 1500 for joint and local)."""


@Parameter(name="*", group=BUDGET)
@dataclass(frozen=True)
class Cost:
    """What answers may cost, and where they are kept."""

    cache: Cache = None
    prices: Annotated[Any, Parameter(converter=_prices, metavar="IN,OUT|FILE")] = None
    """Dollars per million tokens, as 0.15,0.60."""
    max_cost: float | None = None
    """Most dollars to spend; needs --prices."""
    dry_run: bool = False
    """Print queries, tokens and cost; ask nothing."""


def class_of(target: str | None, labels: Any = ()) -> str | int | None:
    """Return a class by its label, or by its index where no label is that number."""
    return int(target) if target is not None and target.isdecimal() and target not in labels else target


def fields_of(*groups: Any) -> dict[str, Any]:
    """Return the options of groups by name."""
    return {name: value for group in groups for name, value in asdict(group).items()}


def one_of(**options: object) -> str | None:
    """Return which of the options is given, as the command line names it; at most one may be."""
    given = [as_option(name) for name, value in options.items() if value is not None]
    if len(given) > 1:
        *first, last = map(as_option, options)
        raise UsageError(f"give one of {', '.join(first)} and {last}; got {' and '.join(given)}")
    return given[0] if given else None
