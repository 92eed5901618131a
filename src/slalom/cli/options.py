"""Options that several commands share."""

from typing import Annotated, Any, Literal

import typer

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
Column = Annotated[str | None, typer.Option(help="Field of the rows that holds the texts.", show_default="text")]
Target = Annotated[
    str | None,
    typer.Option(help="Class to explain, by label or index, or `all`.", show_default="class 1 of two, else the predicted one"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
UnitName = Literal["token", "type", "word", "sentence"]


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
        help="Budget of model queries per text; `auto`: rounds until the error on held-out queries no longer falls.",
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
