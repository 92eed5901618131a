"""`slalom corpus`: many texts, explained by a run that survives anything."""

import json
import shlex
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter, validators

from slalom.cli import corpus_summary
from slalom.cli.corpus_model import confirmed_options
from slalom.cli.inputs import DEFAULT_COLUMN, columns_of
from slalom.cli.language_models import LanguageModel, NamedLanguageModel, language_model_of
from slalom.cli.options import (
    EXPLANATION,
    INPUT,
    MODEL,
    OUTPUT,
    RUN,
    Budget,
    Cache,
    Classifier,
    Explaining,
    Fields,
    Folder,
    Json,
    NotNegative,
    Numeric,
    Pair,
    Positive,
    class_of,
    fields_of,
    one_of,
)
from slalom.cli.printing import complain, console
from slalom.errors import InputError, ModelError

corpus = App(name="corpus", help="Explain whole corpora: run, resume, summarise what the model does, compare two.")
corpus.command(corpus_summary.summary)
corpus.command(corpus_summary.compare)
corpus.command(corpus_summary.sql)


@Parameter(name="*", group=RUN)
@dataclass(frozen=True)
class Workers:
    """Where the texts are explained, and when the run gives up."""

    workers: NotNegative = 0
    """Processes, each with the model (default: this one); with --ray at most so many actors."""
    ray: Annotated[str | None, Parameter(metavar="ADDRESS")] = None
    """Compute on a Ray cluster: auto, local, or host:port."""
    cores_per_worker: Positive | None = None
    """Cores of each process (default: an equal share) or actor (default: one)."""
    gpus_per_worker: Annotated[float, Parameter(validator=validators.Number(gte=0))] | None = None
    """GPUs of each actor of --ray (default: 1 where the cluster has any)."""
    timeout: float | None = None
    """Seconds without any answer or text after which a worker is ended (default: never)."""
    max_failures: NotNegative = 20
    """Stop after so many texts in sequence that fail alike (default: 20; 0: never)."""


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True)
class Reading:
    """Which rows are read, and what is kept of them."""

    column: Fields = ()
    numeric: Numeric = ()
    pair: Pair = None
    id_column: str | None = None
    """Column of the ids (default: the row's number)."""
    keep: tuple[str, ...] = ()
    """Column to copy to the table, such as the gold label; may be repeated."""
    split: str | None = None
    """Split of a dataset of Hugging Face."""
    limit: Positive | None = None
    """Explain the first texts only (default: all)."""
    part_size: Annotated[Positive, Parameter(group=RUN)] = 500
    """Texts per part: what a kill loses at most, per worker (default: 500)."""
    full: Annotated[bool, Parameter(group=OUTPUT)] = False
    """Keep whole explanations too."""
    no_text: Annotated[bool, Parameter(group=OUTPUT)] = False
    """Do not copy the texts to the table."""


@corpus.command
def run(
    source: str,
    out: Folder,
    /,
    *,
    reading: Reading = Reading(),
    workers: Workers = Workers(),
    model: Classifier = Classifier(),
    language_model: LanguageModel = LanguageModel(),
    explaining: Explaining = Explaining(),
    budget: Budget = Budget(),
    learn: Annotated[int | None, Parameter(group=EXPLANATION, validator=validators.Number(gte=10))] = None,
    cache: Cache = None,
) -> int:
    """Explain all texts of SOURCE, and write a table of the explanations to OUT.

    The same command continues a run that was interrupted or killed; only the parts under way are lost. A text that fails is a
    row with its error.

    Args:
        source: File (.jsonl, .csv, .tsv, .parquet, .txt; .gz, .zst), a folder of them, or hf:NAME of Hugging Face.
        learn: Learn a lexicon from so many first texts, with which fewer queries do; it is kept in OUT.
    """
    import slalom.corpus  # noqa: PLC0415
    from slalom.methods import method as find_method  # noqa: PLC0415
    from slalom.pipeline.options import Options  # noqa: PLC0415

    options = fields_of(model, language_model, explaining, budget)
    options |= {"model": _absolute(model.model), "lm": _absolute(language_model.lm), "prior": _absolute(explaining.prior)}
    one_of(prior=explaining.prior, learn=learn)
    language_model.check(model.model)
    queries = None if explaining.prior and budget.queries == 0 else budget.queries  # which a lexicon allows
    Options(
        find_method(explaining.method), explaining.unit, queries, None, None, explaining.seed, explaining.long,
        tolerance=budget.tolerance, max_queries=budget.max_queries,
    )  # what is refused leaves nothing behind  # fmt: skip
    kept = fields_of(reading, workers)
    columns, form = columns_of(kept.pop("column"), kept["numeric"], kept.pop("pair"))
    column, text = columns or ([] if reading.numeric else DEFAULT_COLUMN), not kept.pop("no_text")
    load = _loader(options, cache)
    try:
        made = slalom.corpus.run(
            source, out, load, text_column=column, form=form, text=text, command=options, learn=learn, **kept
        )
    except KeyboardInterrupt:
        complain(f"interrupted; {out!r} has the parts that were finished; run the same command to continue")
        return 130
    state = slalom.corpus.status(out)
    console().print(str(state), markup=False, soft_wrap=True)
    if not state.explained:  # a server that is down, a column of numbers: it is not the texts
        first = next(error for batch in made.batches(["error"]) for error in batch.column("error").to_pylist())
        raise ModelError(f"no text could be explained; the first one: {first}")
    return 0


@corpus.command
def status(out: Folder, /, *, as_json: Json = False) -> None:
    """Say how far a run is: texts done, failed and killed, rate, time left."""
    import slalom.corpus  # noqa: PLC0415

    found = slalom.corpus.status(out)
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        console().print(str(found), markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Confirmed(NamedLanguageModel):
    """What a manifest names and the command line confirms."""

    model: Annotated[str | None, Parameter(group=MODEL)] = None
    """Folder or hub name of a Hugging Face classifier (default: that of the run)."""


@corpus.command
def retry_failed(
    out: Folder,
    /,
    *,
    source: Annotated[str | None, Parameter(group=INPUT)] = None,
    workers: Workers = Workers(),
    confirmed: Confirmed = Confirmed(),
    prior: Annotated[str | None, Parameter(group=EXPLANATION)] = None,
    cache: Cache = None,
) -> int:
    """Try the texts of a run again that have failed or ended their process.

    The model and its options are those of the run. As OUT may come from someone else, a server must be named again, and so must
    a model's folder inside of OUT.

    Args:
        source: Where the texts are (default: the file on this machine that the run has read).
        prior: Lexicon of the run, where it was begun with one.
    """
    import slalom.corpus  # noqa: PLC0415

    named = replace(confirmed, model=_absolute(confirmed.model), lm=_absolute(confirmed.lm))
    options = confirmed_options(out, **asdict(named))
    if options is None:
        raise InputError(f"{out!r} was begun in Python; use slalom.corpus.retry_failed with its explainer")
    if options.get("prior") not in (None, "bundled", _absolute(prior)):
        named_file = shlex.quote(options["prior"])
        raise InputError(f"{out!r} was begun with the lexicon {named_file}; if you know that file, add --prior {named_file}")
    load = _loader(options, cache)
    try:
        tried = slalom.corpus.retry_failed(out, load, source=source, **fields_of(workers))
    except KeyboardInterrupt:
        complain("interrupted; run the same command to continue")
        return 130
    again = ", ".join(f"{number:,} {name}" for name, number in tried.items()) or "no text had failed"
    console().print(f"tried again: {again}", markup=False, soft_wrap=True)
    return 0


def _loader(options: dict[str, Any], cache: Path | None) -> Any:
    """Return the function that loads the model in each worker; say which one it is and where texts are sent."""
    options["cache"] = None if cache is None else str(cache.absolute())
    language_model = language_model_of(options)
    if options["model"] or language_model.is_named:  # of the bundled classifier there is nothing to say
        language_model.say_what_is_loaded([options["model"]])
    return partial(explainer_of, options)


def _absolute(model: str | None) -> str | None:
    """Return the absolute path of a model's folder, which holds in other processes too; a name on the hub as it is."""
    return model if model is None or not Path(model).exists() else str(Path(model).absolute())


def explainer_of(options: dict[str, Any]) -> Any:
    """Return the Explainer of the options of `slalom corpus run`; every worker calls it."""
    from slalom import Explainer  # noqa: PLC0415

    asked = language_model_of(options).load(options["model"], options["device"])
    prior = options.get("prior")  # commands before there were lexica have none
    passed = ("method", "unit", "queries", "tolerance", "max_queries", "seed", "long", "cache")
    device = None if options["lm"] else options["device"]
    removal = options.get("removal", "drop")  # likewise, before it could be chosen
    made = Explainer(asked, device=device, prior=prior, removal=removal, **{name: options[name] for name in passed})
    made.options = replace(made.options, target=class_of(options["target"], made.model.head.labels))
    return made
