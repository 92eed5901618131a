"""`slalom train`: a small classifier from labelled texts."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from slalom.cli.inputs import DEFAULT_COLUMN
from slalom.cli.options import Column, Device
from slalom.cli.printing import complain, console
from slalom.errors import InputError, plural

_NEW, _START, _TEACH, _RUN = "A new network", "A saved start", "A teacher", "Run"


def _default(usual: object, attention: object) -> str:
    """Return the default of an option: that of most architectures, and that of one layer of attention."""
    return f"{usual}; attention: {attention}"


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled texts: a .csv, .tsv, .jsonl or .json file (also .gz), or a data set by name."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    test: Annotated[str | None, typer.Option(help="Labelled texts to test the trained model on, given like DATA.")] = None,
    column: Column = None,
    label: Annotated[str, typer.Option(help="Column of the rows that holds the labels.")] = "label",
    labels: Annotated[
        str | None,
        typer.Option(help="Names for the labels, in sorted order, with commas: negative,positive.", rich_help_panel="Input"),
    ] = None,
    arch: Annotated[
        str,
        typer.Option(help="bert, distilbert, gpt2, or attention: one layer, as in docs/attention.md.", rich_help_panel=_NEW),
    ] = "bert",
    layers: Annotated[
        int | None, typer.Option(help="Number of layers.", show_default=_default(2, 1), rich_help_panel=_NEW)
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(help="Size of each layer.", show_default=_default(256, 128), rich_help_panel=_NEW)
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Attention heads per layer.", show_default=_default(4, 6), rich_help_panel=_NEW)
    ] = None,
    inner: Annotated[
        int | None,
        typer.Option(
            help="Size of the feed-forward layers (attention: of a head).",
            show_default=_default("four times --hidden", 64),
            rich_help_panel=_NEW,
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            help="Number of word pieces (attention: words).", show_default=_default(8000, 200_000), rich_help_panel=_NEW
        ),
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Dropout rate.", show_default=_default(0.1, 0), rich_help_panel=_NEW)
    ] = None,
    no_final: Annotated[
        bool, typer.Option("--no-final", help="Leave out the final layer (attention only).", rich_help_panel=_NEW)
    ] = False,
    init: Annotated[
        str | None, typer.Option(help="Start from this saved encoder or classifier.", rich_help_panel=_START)
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="Learn from the predictions of this saved classifier too.", rich_help_panel=_TEACH)
    ] = None,
    temperature: Annotated[float, typer.Option(help="Temperature of its predictions.", rich_help_panel=_TEACH)] = 2.0,
    hard: Annotated[float, typer.Option(help="Weight of the labels beside the teacher.", rich_help_panel=_TEACH)] = 0.5,
    crops: Annotated[
        float, typer.Option(help="Share of texts cropped to a random passage, labelled by the teacher.", rich_help_panel=_TEACH)
    ] = 0.5,
    views: Annotated[int, typer.Option(help="Number of different croppings of the data.", rich_help_panel=_TEACH)] = 8,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over all texts.", show_default=_default(5, 10), rich_help_panel=_RUN)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Texts per step.", show_default=_default(32, 16), rich_help_panel=_RUN)
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Largest learning rate.",
            show_default=_default("5e-4 for a new network, 5e-5 from --init", "1e-4, constant"),
            rich_help_panel=_RUN,
        ),
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of matrices.", rich_help_panel=_RUN)] = 0.01,
    max_length: Annotated[
        int | None,
        typer.Option(help="Tokens of a text that are read.", show_default=_default(512, 256), rich_help_panel=_RUN),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            help="Share of texts held out for validation.",
            show_default=_default(0.05, "0.2, and the best epoch is kept"),
            rich_help_panel=_RUN,
        ),
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Store the weights in half precision.", rich_help_panel=_RUN)] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.", rich_help_panel=_RUN)] = 0,
    device: Device = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, and replace what is in the folder.")] = False,
) -> None:
    """Train a small classifier on labelled texts, from scratch, from a saved model, or from a teacher.

    Nothing is lost on Ctrl-C: run the same command to continue.
    """
    from slalom.training import Recipe, Stopped, read_labelled  # noqa: PLC0415
    from slalom.training import train as run  # noqa: PLC0415

    recipe = Recipe.of(
        arch, layers=layers, hidden=hidden, heads=heads, inner=inner, vocabulary=vocabulary, dropout=dropout, init=init,
        final=not no_final, max_length=max_length, teacher=teacher, temperature=temperature, hard=hard, crops=crops,
        views=views, epochs=epochs, batch=batch, learning_rate=learning_rate, weight_decay=weight_decay, validation=validation,
        half=half, seed=seed,
    )  # fmt: skip

    field = column or DEFAULT_COLUMN
    texts = read_labelled(data, text=field, label=label, split="train")
    test_texts = None if test is None else read_labelled(test, text=field, label=label, split="test").named(texts.names)
    if labels is not None:
        names = tuple(name.strip() for name in labels.split(","))
        if len(names) != len(texts.names) or len(set(names)) != len(names) or not all(names):
            raise InputError(
                f"--labels must give {len(texts.names)} different names, for {', '.join(texts.names[:9])}; got {labels!r}"
            )
        texts, test_texts = replace(texts, names=names), None if test_texts is None else replace(test_texts, names=names)
    for part in (texts, test_texts):
        if part is not None and part.skipped:
            have, are = ("has", "is") if part.skipped == 1 else ("have", "are")
            rows = f"{part.skipped:,} {plural(part.skipped, 'row')} of {part.source}"
            console().print(f"{rows} {have} no text or no label and {are} left out", markup=False)
    command = f"slalom {shlex.join(sys.argv[1:])}"
    try:
        trained = run(texts, out, recipe, test=test_texts, device=device, fresh=fresh, command=command)
    except Stopped as stop:
        complain(str(stop))
        raise typer.Exit(130) from stop
    report = [f"{trained.parameters:,} parameters, {trained.seconds:.0f} s"]
    if len(texts) * recipe.validation >= 0.5:
        accuracy = max(trained.validation) if recipe.best else trained.validation[-1]
        report.append(f"accuracy {accuracy:.4f} on the held-out texts")
    if test_texts is not None:
        report.append(f"{trained.test:.4f} on the {len(test_texts):,} test texts")
    console().print(f"{trained.path}: {', '.join(report)}", markup=False)
