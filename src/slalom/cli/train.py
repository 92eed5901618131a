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


def _unless(told: object, attention: object) -> str:
    """Say what an option is unless told: for most architectures, and for the one layer of attention."""
    return f"Unless told {told}; attention: {attention}."


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
    arch: Annotated[
        str,
        typer.Option(help="bert, distilbert, gpt2, or attention: one layer, as in docs/attention.md.", rich_help_panel=_NEW),
    ] = "bert",
    layers: Annotated[int | None, typer.Option(help=f"How many layers. {_unless(2, 1)}", rich_help_panel=_NEW)] = None,
    hidden: Annotated[
        int | None, typer.Option(help=f"The size of each layer. {_unless(256, 128)}", rich_help_panel=_NEW)
    ] = None,
    heads: Annotated[int | None, typer.Option(help=f"Attention heads a layer. {_unless(4, 6)}", rich_help_panel=_NEW)] = None,
    inner: Annotated[
        int | None,
        typer.Option(
            help=f"The size of the feed-forward layers (attention: of a head). {_unless('four times --hidden', 64)}",
            rich_help_panel=_NEW,
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(help=f"How many word pieces (attention: words). {_unless(8000, 200_000)}", rich_help_panel=_NEW),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(help=f"The share of activations left out in training. {_unless(0.1, 0)}", rich_help_panel=_NEW),
    ] = None,
    no_final: Annotated[
        bool, typer.Option("--no-final", help="Leave out the final layer (attention only).", rich_help_panel=_NEW)
    ] = False,
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
    epochs: Annotated[
        int | None, typer.Option(help=f"How often all texts are seen. {_unless(5, 10)}", rich_help_panel=_RUN)
    ] = None,
    batch: Annotated[int | None, typer.Option(help=f"Texts a step. {_unless(32, 16)}", rich_help_panel=_RUN)] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help=f"At its height. {_unless('5e-4 for a new network, 5e-5 from --init', '1e-4, and it stays there')}",
            rich_help_panel=_RUN,
        ),
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Of matrices.", rich_help_panel=_RUN)] = 0.01,
    max_length: Annotated[
        int | None, typer.Option(help=f"How many tokens of a text are read. {_unless(512, 256)}", rich_help_panel=_RUN)
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            help=f"The share of texts held out to watch the training. {_unless(0.05, '0.2, and the best epoch is kept')}",
            rich_help_panel=_RUN,
        ),
    ] = None,
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

    recipe = Recipe.of(
        arch, layers=layers, hidden=hidden, heads=heads, inner=inner, vocabulary=vocabulary, dropout=dropout, init=init,
        final=not no_final, max_length=max_length, teacher=teacher, temperature=temperature, hard=hard, crops=crops,
        views=views, epochs=epochs, batch=batch, learning_rate=learning_rate, weight_decay=weight_decay, validation=validation,
        half=half, seed=seed,
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
    if len(texts) * recipe.validation >= 0.5:
        kept = max(made.validation) if recipe.best else made.validation[-1]
        said.append(f"right on {kept:.4f} of the held-out texts")
    if judged is not None:
        said.append(f"on {made.test:.4f} of the {len(judged):,} test texts")
    console().print(f"{made.path}: {', '.join(said)}", markup=False)
