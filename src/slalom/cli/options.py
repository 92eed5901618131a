"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# The groups of options in `--help`, the same in all commands; an option may name its own group instead.
GROUPS = {
    "Input": "source sources file column id_column keep split limit corpus gold slices texts question answer part span test"
    " label",
    "Model": "device model output trust_pickle trust_remote_code",
    "Language model": "api base_url chat concurrency labels lm max_answer_tokens mode spellings template",
    "Explanation": "flip long method methods metrics seed target unit",
    "Budget": "cache dry_run max_cost max_queries prices queries tolerance",
    "Run": "cores_per_worker fresh gpus_per_worker max_failures part_size ray timeout workers",
    "Server": "host no_token open_page port token",
    "Output": "as_json by case csv full html min_texts no_text out phrases png sort strongest top include_poor",
}

Model = Annotated[
    str | None,
    typer.Option(help="Folder or hub name of a Hugging Face classifier.", show_default="the bundled sentiment classifier"),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Device: cpu, cuda, cuda:1, ...",
        show_default="a GPU if there is one; the bundled classifier: the CPU, without torch",
    ),
]
FILE_HELP = "File with one text per line, or rows (.jsonl, .json, .csv, .tsv; --column names the column), also .gz; - is stdin."
Column = Annotated[str | None, typer.Option(help="Column of the rows that holds the texts.", show_default="text")]
Method = Annotated[str, typer.Option(help="Explanation method; `slalom methods` lists them.")]
Target = Annotated[
    str | None,
    typer.Option(help="Class to explain, by label or index, or `all`.", show_default="class 1 of two, else the predicted one"),
]
UnitName = Literal["token", "type", "word", "sentence"]
Unit = Annotated[
    UnitName | None,
    typer.Option(metavar="<unit>", help="Unit: token, type, word or sentence.", show_default="that of the method"),
]
Long = Annotated[
    Literal["cut", "window"],
    typer.Option(help="Texts longer than the model's context: cut them, or explain overlapping windows."),
]
Seed = Annotated[int, typer.Option(help="Seed of the queries and the fit.")]
Cache = Annotated[Path | None, typer.Option(help="SQLite file that keeps the model's answers.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]


def budget(option: str) -> int | str:
    """Return a number of queries, or "auto"."""
    if option.strip() == "auto":
        return "auto"
    try:
        return int(option)
    except ValueError as error:
        raise typer.BadParameter(f"must be a whole number of at least 2, or auto; got {option!r}") from error


Queries = Annotated[
    Any,
    typer.Option(
        parser=budget,
        metavar="<int|auto>",
        help="Budget of model queries per text, and 20 to 100 more to test, up to 12 on pairs; `auto`: rounds until the error"
        " on held-out queries no longer falls.",
        show_default="five per unit, between 200 and 1000",
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        help="Goal of `--queries auto`, which it implies: the 95% intervals of `removal` of the ten strongest units are within"
        " ± this number, in log odds."
    ),
]
MaxQueries = Annotated[
    int | None,
    typer.Option(help="Largest budget of `--queries auto` (default: 5000); else a limit of all queries about a text."),
]


def _prices(option: str) -> Any:
    """Return prices given as two numbers, or the path of a file."""
    parts = option.split(",")
    try:
        return dict(zip(("input", "output"), map(float, parts), strict=len(parts) > 1))
    except ValueError:
        return option


DryRun = Annotated[bool, typer.Option("--dry-run", help="Print queries, tokens and cost; ask nothing.")]
PriceTable = Annotated[
    Any,
    typer.Option(
        parser=_prices,
        metavar="<file|in,out>",
        help="Dollars per million tokens read and written (0.15,0.60), or a JSON file with a table by model.",
    ),
]
MaxCost = Annotated[float | None, typer.Option(help="Most dollars to spend; needs --prices.")]
