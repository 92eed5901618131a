"""`slalom train`: a small classifier from labelled texts."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from slalom.cli.printing import complain, console
from slalom.errors import InputError

_NEW, _START, _TEACH, _RUN = "A new network", "A saved start", "A teacher", "The run"


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled texts: a .csv, .tsv, .jsonl or .json file (also .gz), or a data set by name."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the model.")],
    test: Annotated[str | None, typer.Option(help="Texts to judge the finished model on, given like DATA.")] = None,
    text: Annotated[str, typer.Option(help="The column with the texts.")] = "text",
    label: Annotated[str, typer.Option(help="The column with the labels.")] = "label",
    labels: Annotated[
        str | None, typer.Option(help="Names for the labels, in their sorted order, with commas: negative,positive.")
    ] = None,
    arch: Annotated[str, typer.Option(help="bert, distilbert or gpt2.", rich_help_panel=_NEW)] = "bert",
    layers: Annotated[int, typer.Option(help="How many layers.", rich_help_panel=_NEW)] = 2,
    hidden: Annotated[int, typer.Option(help="The size of each layer.", rich_help_panel=_NEW)] = 256,
    heads: Annotated[int, typer.Option(help="Attention heads a layer.", rich_help_panel=_NEW)] = 4,
    inner: Annotated[
        int | None,
        typer.Option(help="The size of the feed-forward layers; four times --hidden unless told.", rich_help_panel=_NEW),
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="How many word pieces.", rich_help_panel=_NEW)] = 8000,
    dropout: Annotated[float, typer.Option(help="The share of activations left out in training.", rich_help_panel=_NEW)] = 0.1,
    init: Annotated[
        str | None, typer.Option(help="Start from this saved encoder or classifier instead.", rich_help_panel=_START)
    ] = None,
    teacher: Annotated[str | None, typer.Option(help="Learn from this saved classifier too.", rich_help_panel=_TEACH)] = None,
    temperature: Annotated[float, typer.Option(help="How much its opinions are softened.", rich_help_panel=_TEACH)] = 2.0,
    hard: Annotated[float, typer.Option(help="The weight of the labels beside it.", rich_help_panel=_TEACH)] = 0.5,
    crops: Annotated[
        float, typer.Option(help="The share of texts shown as a random passage, judged by it.", rich_help_panel=_TEACH)
    ] = 0.5,
    views: Annotated[int, typer.Option(help="How many sets of passages are made.", rich_help_panel=_TEACH)] = 8,
    epochs: Annotated[int, typer.Option(help="How often all texts are seen.", rich_help_panel=_RUN)] = 5,
    batch: Annotated[int, typer.Option(help="Texts a step.", rich_help_panel=_RUN)] = 32,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="At its height; 5e-4 for a new network, 5e-5 from --init, unless told.", rich_help_panel=_RUN),
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Of matrices.", rich_help_panel=_RUN)] = 0.01,
    max_length: Annotated[int, typer.Option(help="How many tokens of a text are read.", rich_help_panel=_RUN)] = 512,
    validation: Annotated[
        float, typer.Option(help="The share of texts held out to watch the training.", rich_help_panel=_RUN)
    ] = 0.05,
    half: Annotated[bool, typer.Option("--half", help="Store the weights in half precision.", rich_help_panel=_RUN)] = False,
    seed: Annotated[int, typer.Option(help="Of every random choice.", rich_help_panel=_RUN)] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU if there is one, unless told.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, and replace what is in the folder.")] = False,
) -> None:
    """Train a small classifier on labelled texts, from nothing, from a saved model, or taught by one.

    Ctrl-C loses nothing: the same command goes on where it was stopped.
    """
    from slalom.training import Recipe, Stopped, read_labelled  # noqa: PLC0415
    from slalom.training import train as run  # noqa: PLC0415

    recipe = Recipe(
        arch=arch, layers=layers, hidden=hidden, heads=heads, inner=inner, vocabulary=vocabulary, dropout=dropout, init=init,
        max_length=max_length, teacher=teacher, temperature=temperature, hard=hard, crops=crops, views=views, epochs=epochs,
        batch=batch, learning_rate=learning_rate, weight_decay=weight_decay, validation=validation, half=half, seed=seed,
    )  # fmt: skip

    texts = read_labelled(data, text=text, label=label, split="train")
    judged = None if test is None else read_labelled(test, text=text, label=label, split="test").named(texts.names)
    if labels is not None:
        names = tuple(name.strip() for name in labels.split(","))
        if len(names) != len(texts.names) or len(set(names)) != len(names) or not all(names):
            raise InputError(
                f"--labels must give {len(texts.names)} different names, for {', '.join(texts.names[:9])}; got {labels!r}"
            )
        texts, judged = replace(texts, names=names), None if judged is None else replace(judged, names=names)
    for some in (texts, judged):
        if some is not None and some.skipped:
            console().print(f"{some.skipped:,} rows of {some.source} have no text or no label and are left out", markup=False)
    command = f"slalom {shlex.join(sys.argv[1:])}"
    try:
        made = run(texts, out, recipe, test=judged, device=device, fresh=fresh, command=command)
    except Stopped as stop:
        complain(str(stop))
        raise typer.Exit(130) from stop
    said = [f"{made.parameters:,} parameters, {made.seconds:.0f} s"]
    if len(texts) * validation >= 0.5:
        said.append(f"right on {made.validation[-1]:.4f} of the held-out texts")
    if judged is not None:
        said.append(f"on {made.test:.4f} of the {len(judged):,} test texts")
    console().print(f"{made.path}: {', '.join(said)}", markup=False)
