"""`slalom explain`: why a classifier decided as it did, for one text or many."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.cli.inputs import texts_of_file, texts_of_standard_input
from slalom.cli.language_models import (
    ApiName,
    BaseUrl,
    Chat,
    Concurrency,
    Labels,
    LanguageModel,
    Mode,
    Spellings,
    TemplateOption,
    classifier,
)
from slalom.cli.options import (
    Column,
    Device,
    DryRun,
    MaxCost,
    MaxQueries,
    Model,
    PriceTable,
    Queries,
    Target,
    Tolerance,
    UnitName,
)
from slalom.cli.printing import check_outputs, complain, console, print_estimate
from slalom.errors import InputError, count, plural, require
from slalom.files import drop_partial_line, read_complete_lines, write_text

_BATCH = 16  # texts explained together; results are written after each batch


def explain(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Text to explain; - reads texts from standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="File with one text per line, or rows (.jsonl, .json, .csv, .tsv; --column names the field); also .gz."
        ),
    ] = None,
    column: Column = None,
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
    method: Annotated[str, typer.Option(help="Explanation method; `slalom methods` lists them.")] = "joint",
    queries: Queries = None,
    tolerance: Tolerance = None,
    max_queries: MaxQueries = None,
    unit: Annotated[
        UnitName | None,
        typer.Option(help="Unit of the explanation.", show_default="that of the method"),
    ] = None,
    target: Target = None,
    long: Annotated[
        Literal["cut", "window"],
        typer.Option(help="Texts longer than the model's context: cut them, or explain overlapping windows."),
    ] = "cut",
    device: Device = None,
    seed: Annotated[int, typer.Option(help="Seed of the queries and the fit.")] = 0,
    cache: Annotated[Path | None, typer.Option(help="SQLite file that keeps the model's answers.")] = None,
    flip: Annotated[
        bool | None,
        typer.Option(
            "--flip/--no-flip",
            help="Find units without which the model decides otherwise, with at most 50 more queries; --json has them"
            " as `flip`.",
            show_default="where no single unit decides",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of units in the table.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only, one line per text.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            help="Plot value against importance, or bars where effects are additive (.png, .svg, .pdf); several texts are"
            " numbered."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the explanations as JSON lines; an incomplete file is continued.")
    ] = None,
    dry_run: DryRun = False,
    prices: PriceTable = None,
    max_cost: MaxCost = None,
) -> None:
    """Explain why a classifier decided as it did.

    Every unit of the text gets a value (what it says) and an importance (how loudly). The last line says how well they
    predict the model's answers when parts of the text are removed.
    """
    from slalom import Explainer, Explanation, Explanations  # noqa: PLC0415
    from slalom.render.terminal import show  # noqa: PLC0415
    from slalom.result import Failure  # noqa: PLC0415

    texts = _texts(text, file, column)
    _check_outputs(file, html, png, out)
    done = _resumed(out, texts) if out else []
    asked = classifier(
        model, lm=lm, spellings=spellings, chat=chat, device=device,
        api=api, base_url=base_url, template=template, labels=labels, mode=mode, concurrency=concurrency,
    )  # fmt: skip
    explainer = Explainer(
        asked, method=method, unit=unit, queries=queries, tolerance=tolerance, max_queries=max_queries, seed=seed, long=long,
        device=None if lm else device, cache=cache, prices=prices, max_cost=max_cost,
    )  # fmt: skip
    names = explainer.model.head.labels
    if flip and not explainer.options.method.signed:
        raise InputError(f"--flip needs scores with a sign, which {method} does not give; use a method such as joint")
    chosen = int(target) if target is not None and target.isdecimal() and target not in names else target
    if _is_dry(explainer, texts, len(done), chosen, dry_run, as_json, max_cost):
        return
    screen = console()
    explanations: list[Explanation] = []
    failures: list[Failure] = []
    drawn: list[Path] = []
    try:
        for e in _explained(explainer, texts, chosen, done, out):
            if isinstance(e, Failure):
                failures.append(e)
                complain(f"text {e.number + 1} of {len(texts)} failed: {e.error}")
                continue
            explanations.append(e)
            if as_json:
                sys.stdout.write(_json(explainer, e, flip) + "\n")
            else:
                place = f"{len(explanations) + len(failures)} of {len(texts)}" if len(texts) > 1 else ""
                show(e, screen, top, place, _flip(explainer, e, flip))
            if png:
                drawn.append(_draw(e, png, len(explanations) + len(failures) if len(texts) > 1 else 0))
    except KeyboardInterrupt as stop:
        place = f"{len(explanations) + len(failures)} of {len(texts)}"
        complain(f"interrupted after {place} {plural(len(texts), 'text')}; {_kept(out, cache)}")
        raise typer.Exit(130) from stop
    if html and explanations:
        Explanations(explanations).to_html(html)
    pictures = f"{drawn[0]} to {drawn[-1].name}" if len(drawn) > 1 else drawn[0] if drawn else None
    for written in (html if explanations else None, pictures, out):
        if written and not as_json:
            screen.print(f"written: {written}", markup=False, soft_wrap=True)
    if failures:
        numbers = ", ".join(str(failure.number + 1) for failure in failures[:20]) + (", ..." if len(failures) > 20 else "")
        others = "; the others were explained" if explanations else ""
        complain(f"{len(failures)} of {count(len(texts), 'text')} failed: {numbers}{others}")
        raise typer.Exit(1)


def _kept(out: Path | None, cache: Path | None) -> str:
    """Return what an interruption leaves, and what to do."""
    if not (out or cache):
        return "use --out FILE to keep results, and --cache FILE to keep the model's answers"
    kept = ((out, "results"), (cache, "model's answers"))
    files = [f"{str(path)!r} has the {what}" for path, what in kept if path and path.exists()]
    if not files:
        return "nothing is written yet; the same command begins again"
    return f"{' and '.join(files)} so far; run the same command to continue"


def _is_dry(
    explainer: Any,
    texts: Sequence[str],
    done: int,
    target: str | int | None,
    dry_run: bool,
    as_json: bool,
    max_cost: float | None,
) -> bool:
    """Print what texts will cost where that is all; where there is a limit, fail before the first batch of texts.

    Of several texts, those that cannot be explained cost nothing: the run names them.
    """
    if not dry_run and max_cost is None:
        return False
    estimate = explainer.estimate(texts[done:], target=target, errors="raise" if len(texts) == 1 else "keep")
    if dry_run:
        print_estimate(estimate, as_json)
    else:
        explainer.engine.spending.check(estimate.cost or 0.0, f"this run ({estimate})")
    return dry_run


def _explained(
    explainer: Any, texts: Sequence[str], target: str | int | None, done: Sequence[Any], out: Path | None
) -> Iterator[Any]:
    """Yield an explanation or a Failure for every text, beginning with the results in the file; failures are retried."""
    from slalom.result import Failure  # noqa: PLC0415

    options = replace(explainer.options, target=target)
    if not all(isinstance(e, Failure) or explainer.pipeline.matches(e, options) for e in done):
        raise InputError(
            f"{str(out)!r} was started with another model or other options; use the same ones, name another file, or delete it"
        )
    failed = [i for i, e in enumerate(done) if isinstance(e, Failure)]
    if failed and out:
        retried = dict(zip(failed, _batch(explainer, [(i, texts[i]) for i in failed], target), strict=True))
        done = [retried.get(i, e) for i, e in enumerate(done)]
        fresh = out.with_name(out.name + ".new")
        write_text(fresh, "".join(e.to_json() + "\n" for e in done))
        fresh.replace(out)
    yield from done
    for start in range(len(done), len(texts), _BATCH):
        numbered = list(enumerate(texts[start : start + _BATCH], start))
        batch = [explainer(texts[0], target=target)] if len(texts) == 1 else _batch(explainer, numbered, target)
        if out:
            write_text(out, "".join(e.to_json() + "\n" for e in batch), append=True)
        yield from batch


def _batch(explainer: Any, numbered: Sequence[tuple[int, str]], target: str | int | None) -> list[Any]:
    """Explain texts with their numbers: explanations and failures, in the same order."""
    results = explainer([text for _, text in numbered], target=target, errors="keep")
    failed = {failure.number: failure for failure in results.failures}
    explained = iter(results)
    return [replace(failed[i], number=number) if i in failed else next(explained) for i, (number, _) in enumerate(numbered)]


def _flip(explainer: Any, e: Any, wanted: bool | None) -> Any:
    """Return the flip of a text or why there is none, where it is wanted; by default where no single unit decides."""
    from slalom.result.flip import sentence  # noqa: PLC0415

    if _wants_flip(e, wanted):
        with _affordable(explainer):
            return explainer.flip(e) or sentence(e, None)
    return None


def _wants_flip(e: Any, wanted: bool | None) -> bool:
    """Return whether to look for a flip: as wanted, or where no single unit decides."""
    return bool(e.saturated and e.scale != "output") if wanted is None else wanted


@contextmanager
def _affordable(explainer: Any) -> Iterator[None]:
    """Say so where a flip costs more than is left, and go on: the explanation is paid."""
    try:
        yield
    except InputError as error:
        if explainer.engine.spending.max_cost is None:
            raise
        complain(f"no flip was looked for: {error}")


def _json(explainer: Any, e: Any, flip: bool | None) -> str:
    """Return an explanation as a line of JSON, with its flip where that is wanted or no single unit decides."""
    if not _wants_flip(e, flip):
        return str(e.to_json())
    found = None
    with _affordable(explainer):
        found = explainer.flip(e)
    return json.dumps(e.to_dict() | {"flip": None if found is None else found.to_dict()}, ensure_ascii=False)


def _texts(text: str | None, file: Path | None, column: str | None) -> list[str]:
    if (text is None) == (file is None):
        got = "both" if text is not None else "neither"
        raise typer.BadParameter(f"give a TEXT, - for standard input, or --file FILE; got {got}")
    if text is not None and text != "-":
        if column is not None:
            raise typer.BadParameter("--column is for the rows of a file or of standard input; got a TEXT")
        return [text]
    return texts_of_standard_input(column) if file is None or str(file) == "-" else texts_of_file(file, column)


def _check_outputs(file: Path | None, html: Path | None, png: Path | None, out: Path | None) -> None:
    """Fail before the work, not after it, where an output cannot be written."""
    check_outputs(file, html, png, out)
    if png is not None and png.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"a picture must be a .png, .svg or .pdf file; got {str(png)!r}")
    if png is not None:
        with require("drawing pictures", "plots"):
            import matplotlib  # noqa: F401, PLC0415
    if out is not None and out.suffix.lower() != ".jsonl":
        raise InputError(f"--out must be a .jsonl file, one explanation per line; got {str(out)!r}")


def _resumed(out: Path, texts: Sequence[str]) -> list[Any]:
    """Return the results that an interrupted run has written for the first of these texts.

    A partial last line is removed, but only from a file that this command has written.
    """
    from slalom.result import restored  # noqa: PLC0415

    lines, partial = read_complete_lines(out)
    foreign = InputError(
        f"{str(out)!r} holds something other than explanations of these texts; name another file, or delete it"
    )
    try:
        results = [restored(json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise foreign from error
    openings = [f'{{"format": "slalom {kind}"'.encode() for kind in ("explanation", "failure")]
    ours = any(partial.startswith(opening) or opening.startswith(partial) for opening in openings)
    if [e.text for e in results] != list(texts[: len(results)]) or not ours:
        raise foreign
    drop_partial_line(out, partial)
    return results


def _draw(e: Any, path: Path, number: int) -> Path:
    picture = e.plot.bar() if e.additive else e.plot.scatter()
    numbered = path.with_stem(f"{path.stem}-{number}") if number else path
    picture.savefig(numbered)
    return numbered
