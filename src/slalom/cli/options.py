"""Options that several commands share."""

from typing import Annotated, Literal

import typer

Model = Annotated[
    str | None,
    typer.Option(help="Folder or hub name of a Hugging Face classifier.", show_default="the bundled sentiment classifier"),
]
Device = Annotated[str | None, typer.Option(help="Device: cpu, cuda, cuda:1, ...", show_default="a GPU if there is one")]
Column = Annotated[str | None, typer.Option(help="Field of the rows that holds the texts.", show_default="text")]
Target = Annotated[
    str | None,
    typer.Option(help="Class to explain, by label or index, or `all`.", show_default="class 1 of two, else the predicted one"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
UnitName = Literal["token", "type", "word", "sentence"]
