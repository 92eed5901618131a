"""`slalom corpus`: many texts, explained by a run that survives anything."""

import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from slalom.cli.corpus_model import confirmed_options
from slalom.cli.corpus_summary import COMMANDS
from slalom.cli.inputs import DEFAULT_COLUMN
from slalom.cli.language_models import (
    NAMES,
    ApiName,
    BaseUrl,
    Chat,
    Concurrency,
    Labels,
    LanguageModel,
    Mode,
    Spellings,
    TemplateOption,
    check_options,
    classifier,
    say_what_is_loaded,
)
from slalom.cli.options import (
    Cache,
    Column,
    Device,
    Json,
    Long,
    MaxQueries,
    Method,
    Model,
    Queries,
    Seed,
    Tolerance,
    Unit,
)
from slalom.cli.printing import complain, console
from slalom.errors import InputError, ModelError

corpus = typer.Typer(
    no_args_is_help=True, help="Explain whole corpora: run, resume, summarise what the model does, compare two."
)

Out = Annotated[str, typer.Argument(metavar="OUT", help="Folder of the table, or an address such as s3://bucket/corpus.")]
Workers = Annotated[
    int,
    typer.Option(
        min=0, help="Processes, each with the model; with --ray the largest number of actors.", show_default="this process"
    ),
]
RayAddress = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help="Compute on a Ray cluster: auto, local, or host:port.")
]
Cores = Annotated[
    int | None,
    typer.Option(
        min=1, help="Cores of each process or actor.", show_default="processes share those of this machine, actors have one"
    ),
]
Gpus = Annotated[
    float | None,
    typer.Option(min=0, help="GPUs of each actor of --ray.", show_default="1 where the cluster has any"),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="End a worker that has had no answer of the model and finished no text for so long; the text at fault is marked.",
        show_default="never",
    ),
]
MaxFailures = Annotated[
    int,
    typer.Option(
        min=0, help="End the run where the model fails alike on so many texts in sequence, as a server that is down; 0: never."
    ),
]


@corpus.command()
def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="File (.jsonl, .csv, .tsv, .parquet, .txt; also .gz, .zst), a folder of them, or hf:NAME, a dataset of"
            " Hugging Face.",
        ),
    ],
    out: Out,
    column: Column = None,
    id_column: Annotated[str | None, typer.Option(help="Column of the ids.", show_default="the row's number")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Column to copy to the table, such as the gold label; may be repeated.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of a dataset of Hugging Face.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Keep whole explanations too.")] = False,
    no_text: Annotated[bool, typer.Option("--no-text", help="Do not copy the texts to the table.")] = False,
    part_size: Annotated[int, typer.Option(min=1, help="Texts per part: what a kill loses at most, per worker.")] = 500,
    limit: Annotated[int | None, typer.Option(min=1, help="Explain the first texts only.", show_default="all")] = None,
    workers: Workers = 0,
    ray: RayAddress = None,
    cores_per_worker: Cores = None,
    gpus_per_worker: Gpus = None,
    timeout: Timeout = None,
    max_failures: MaxFailures = 20,
    model: Model = None,
    lm: LanguageModel = None,
    api: ApiName = None,
    base_url: BaseUrl = None,
    template: TemplateOption = None,
    labels: Labels = None,
    spellings: Spellings = False,
    chat: Chat = False,
    mode: Mode = "auto",
    concurrency: Concurrency = 8,
    method: Method = "joint",
    queries: Queries = None,
    tolerance: Tolerance = None,
    max_queries: MaxQueries = None,
    unit: Unit = None,
    target: Annotated[
        str | None,
        typer.Option(help="Class to explain, by label or index.", show_default="class 1 of two, else the predicted one"),
    ] = None,
    long: Long = "cut",
    device: Device = None,
    seed: Seed = 0,
    cache: Cache = None,
) -> None:
    """Explain all texts of SOURCE, and write a table of the explanations to OUT.

    The same command continues a run that was interrupted or killed; only the parts under way are lost. A text that fails is a
    row with its error.
    """
    import slalom.corpus  # noqa: PLC0415
    from slalom.methods import method as find_method  # noqa: PLC0415
    from slalom.pipeline.options import Options  # noqa: PLC0415

    options = {
        "model": _absolute(model), "lm": _absolute(lm), "api": api, "base_url": base_url, "template": template,
        "labels": labels, "spellings": spellings, "chat": chat, "mode": mode, "concurrency": concurrency,
        "method": method, "queries": queries, "tolerance": tolerance, "max_queries": max_queries, "unit": unit,
        "target": target, "long": long, "device": device, "seed": seed,
        "cache": None if cache is None else str(cache.absolute()),
    }  # fmt: skip
    check_options(model, lm, spellings, chat, api, base_url, template, labels, mode)
    Options(
        find_method(method), unit, queries, None, None, seed, long, tolerance=tolerance, max_queries=max_queries
    )  # what is refused leaves nothing behind
    _say_model(options)
    try:
        made = slalom.corpus.run(
            source, out, partial(explainer_of, options), text_column=column or DEFAULT_COLUMN, id_column=id_column,
            keep=keep or (), split=split, full=full, text=not no_text, part_size=part_size, limit=limit, workers=workers,
            ray=ray, cores_per_worker=cores_per_worker, gpus_per_worker=gpus_per_worker, timeout=timeout,
            max_failures=max_failures, command=options,
        )  # fmt: skip
    except KeyboardInterrupt as stop:
        complain(f"interrupted; {out!r} has the parts that were finished; run the same command to continue")
        raise typer.Exit(130) from stop
    state = slalom.corpus.status(out)
    console().print(str(state), markup=False, soft_wrap=True)
    if not state.explained:  # a server that is down, a column of numbers: it is not the texts
        first = next(error for batch in made.batches(["error"]) for error in batch.column("error").to_pylist())
        raise ModelError(f"no text could be explained; the first one: {first}")


@corpus.command()
def status(out: Out, as_json: Json = False) -> None:
    """Say how far a run is: texts done, failed and killed, rate, time left."""
    import slalom.corpus  # noqa: PLC0415

    found = slalom.corpus.status(out)
    if as_json:
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
    else:
        console().print(str(found), markup=False, soft_wrap=True)


@corpus.command()
def retry_failed(
    out: Out,
    workers: Workers = 0,
    ray: RayAddress = None,
    cores_per_worker: Cores = None,
    gpus_per_worker: Gpus = None,
    timeout: Timeout = None,
    max_failures: MaxFailures = 20,
    model: Model = None,
    lm: LanguageModel = None,
    api: ApiName = None,
    base_url: BaseUrl = None,
    template: TemplateOption = None,
    cache: Cache = None,
    source: Annotated[
        str | None, typer.Option(help="Where the texts are.", show_default="the file on this machine that the run has read")
    ] = None,
) -> None:
    """Try the texts of a run again that have failed or ended their process.

    The model and its options are those of the run. As OUT may come from someone else, a server must be named again, and so must
    a model's folder inside of OUT.
    """
    import slalom.corpus  # noqa: PLC0415

    options = confirmed_options(out, _absolute(model), _absolute(lm), api, base_url, template)
    if options is None:
        raise InputError(f"{out!r} was begun in Python; use slalom.corpus.retry_failed with its explainer")
    options["cache"] = None if cache is None else str(cache.absolute())
    _say_model(options)
    try:
        tried = slalom.corpus.retry_failed(
            out, partial(explainer_of, options), source=source, workers=workers, ray=ray, cores_per_worker=cores_per_worker,
            gpus_per_worker=gpus_per_worker, timeout=timeout, max_failures=max_failures,
        )  # fmt: skip
    except KeyboardInterrupt as stop:
        complain("interrupted; run the same command to continue")
        raise typer.Exit(130) from stop
    again = ", ".join(f"{number:,} {name}" for name, number in tried.items()) or "no text had failed"
    console().print(f"tried again: {again}", markup=False, soft_wrap=True)


def _say_model(options: dict[str, Any]) -> None:
    """Say which model is loaded and where texts are sent; of the bundled classifier there is nothing to say."""
    model, lm, api, base_url = (options[name] for name in ("model", "lm", "api", "base_url"))
    if model or lm or api:
        say_what_is_loaded([model], lm, api, base_url)


def _absolute(model: str | None) -> str | None:
    """Return the absolute path of a model's folder, which holds in other processes too; a name on the hub as it is."""
    return model if model is None or not Path(model).exists() else str(Path(model).absolute())


def explainer_of(options: dict[str, Any]) -> Any:
    """Return the Explainer of the options of `slalom corpus run`; every worker calls it."""
    from slalom import Explainer  # noqa: PLC0415

    asked = classifier(options["model"], device=options["device"], **{name: options[name] for name in NAMES})
    passed = ("method", "unit", "queries", "tolerance", "max_queries", "seed", "long", "cache")
    device = None if options["lm"] else options["device"]
    made = Explainer(asked, device=device, **{name: options[name] for name in passed})
    target = options["target"]
    if target is None:
        return made
    index = int(target) if target.isdecimal() and target not in made.model.head.labels else target
    made.options = replace(made.options, target=index)
    return made


for _name, _command in COMMANDS:
    corpus.command(_name)(_command)
