"""`slalom explain`: why a classifier decided as it did, for one text or many."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slalom.cli.inputs import STANDARD_INPUT, examples_of
from slalom.cli.language_models import LanguageModel
from slalom.cli.options import BUDGET, OUTPUT, Budget, Cost, Explaining, Html, Json, Out, Rows, Top, class_of, fields_of
from slalom.cli.printing import UsageError, check_outputs, complain, console, print_estimate
from slalom.cli.user_code import AnyClassifier
from slalom.errors import InputError, count, plural, require
from slalom.files import drop_partial_line, read_complete_lines, write_text
from slalom.progress import progress_bar

_BATCH = 16  # texts that share batches of the model


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class Output:
    """What is shown and written."""

    top: Top = 10
    flip: Annotated[bool | None, Parameter(negative="--no-flip")] = None
    """Find units without which the decision changes."""
    as_json: Json = False
    html: Html = None
    png: Path | None = None
    """Plot value against importance, or bars (.png, .svg, .pdf)."""
    out: Out = None
    certify: Annotated[int | None, Parameter(group=BUDGET, metavar="N")] = None
    """Further queries per text, at least 12, for Shapley values of the model with 95% intervals: printed, and in --json. They
    are not in --out and not counted by --dry-run and --max-cost."""


def explain(
    text: Annotated[str | None, Parameter(allow_leading_hyphen=False)] = None,
    /,
    *,
    rows: Rows = Rows(),
    model: AnyClassifier = AnyClassifier(),
    language_model: LanguageModel = LanguageModel(),
    explaining: Explaining = Explaining(),
    budget: Budget = Budget(),
    cost: Cost = Cost(),
    output: Output = Output(),
) -> int:
    """Explain why a classifier decided as it did.

    Every unit of the text gets a value (what it says) and an importance (how loudly). The last line says how well they
    predict the model's answers when parts of the text are removed.

    Args:
        text: Text to explain; - reads texts from standard input.
    """
    from slalom import Explainer, Explanation, Explanations  # noqa: PLC0415
    from slalom.render.terminal import show  # noqa: PLC0415
    from slalom.result import Failure  # noqa: PLC0415
    from slalom.result.flip import sentence  # noqa: PLC0415

    texts, out = _texts(text, rows), output.out
    _check_outputs(rows.file, output)
    done = _resumed(out, texts) if out else []
    asked, about_model = model.load(language_model, rows)
    explainer = Explainer(
        asked, method=explaining.method, unit=explaining.unit, seed=explaining.seed, long=explaining.long,
        prior=explaining.prior, removal=explaining.removal, cache=cost.cache, prices=cost.prices, max_cost=cost.max_cost,
        **fields_of(budget), **about_model,
    )  # fmt: skip
    if output.flip and not explainer.options.method.signed:
        raise InputError(
            f"--flip needs scores with a sign, which {explaining.method} does not give; use a method such as joint"
        )
    target = class_of(explaining.target, explainer.model.head.labels)
    if _is_dry(explainer, texts, len(done), target, cost, output.as_json):
        return 0
    screen = console()
    explanations: list[Explanation] = []
    failures: list[Failure] = []
    drawn: list[Path] = []
    try:
        for e in _explained(explainer, texts, target, done, out):
            if isinstance(e, Failure):
                failures.append(e)
                complain(f"text {e.number + 1} of {len(texts)} failed: {e.error}")
                continue
            explanations.append(e)
            number = len(explanations) + len(failures) if len(texts) > 1 else 0
            sought, flip = _flip(explainer, e, output.flip)
            if output.as_json:
                found = {"flip": None if flip is None else flip.to_dict()} if sought else {}
                found |= _certified(explainer, e, output, explaining.seed)
                sys.stdout.write(json.dumps(e.to_dict() | found, ensure_ascii=False) + "\n")
            else:
                place = f"{number} of {len(texts)}" if number else ""
                show(e, screen, output.top, place, flip or (sentence(e, None) if sought else None))
                _certified(explainer, e, output, explaining.seed, screen)
            if output.png:
                drawn.append(_draw(e, output.png, number))
    except KeyboardInterrupt:
        place = f"{len(explanations) + len(failures)} of {len(texts)}"
        complain(f"interrupted after {place} {plural(len(texts), 'text')}; {_kept(out, cost.cache)}")
        return 130
    html = output.html if explanations else None
    if html:
        Explanations(explanations).to_html(html)
    pictures = f"{drawn[0]} to {drawn[-1].name}" if len(drawn) > 1 else drawn[0] if drawn else None
    for written in (html, pictures, out):
        if written and not output.as_json:
            screen.print(f"written: {written}", markup=False, soft_wrap=True)
    if not failures:
        return 0
    numbers = ", ".join(str(failure.number + 1) for failure in failures[:20]) + (", ..." if len(failures) > 20 else "")
    others = "; the others were explained" if explanations else ""
    complain(f"{len(failures)} of {count(len(texts), 'text')} failed: {numbers}{others}")
    return 1


def _kept(out: Path | None, cache: Path | None) -> str:
    """Return what an interruption leaves, and what to do."""
    files = [
        f"{str(path)!r} has the {what}"
        for path, what in ((out, "results"), (cache, "model's answers"))
        if path and path.exists()
    ]
    kept = f"{' and '.join(files)} so far; " if files else ""
    return kept + ("run the same command to continue" if out or cache else "use --out FILE to keep results")


def _is_dry(explainer: Any, texts: Sequence[str], done: int, target: str | int | None, cost: Cost, as_json: bool) -> bool:
    """Print what texts will cost where that is all; where there is a limit, fail before the first batch of texts.

    Of several texts, those that cannot be explained cost nothing: the run names them.
    """
    if not cost.dry_run and cost.max_cost is None:
        return False
    estimate = explainer.estimate(texts[done:], target=target, errors="raise" if len(texts) == 1 else "keep")
    if cost.dry_run:
        print_estimate(estimate, as_json)
    else:
        explainer.engine.spending.reserve(estimate.cost or 0.0, f"this run ({estimate})", run=True)
    return cost.dry_run


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
    results, failed = list(done), [i for i, e in enumerate(done) if isinstance(e, Failure)]
    if failed and out:
        try:
            for i, e in _numbered(explainer, texts, failed, target):
                results[i] = e
        finally:  # also what an interruption has left
            fresh = out.with_name(out.name + ".new")
            write_text(fresh, "".join(e.to_json() + "\n" for e in results))
            fresh.replace(out)
    yield from results
    shown = False if sys.stderr.isatty() else None  # a terminal has the results, and bars of the model
    with progress_bar(shown, total=len(texts), initial=len(done), unit="text", desc="explaining") as bar:
        for _, e in _numbered(explainer, texts, range(len(done), len(texts)), target):
            if out:
                write_text(out, e.to_json() + "\n", append=True)
            bar.update()
            yield e


def _numbered(
    explainer: Any, texts: Sequence[str], numbers: Sequence[int], target: str | int | None
) -> Iterator[tuple[int, Any]]:
    """Explain some of the texts; yield the number of each with its explanation or Failure as soon as it is finished."""
    from slalom.result import Failure  # noqa: PLC0415

    errors = "raise" if len(texts) == 1 else "keep"
    for start in range(0, len(numbers), _BATCH):
        batch = numbers[start : start + _BATCH]
        for i, e in zip(batch, explainer.stream([texts[i] for i in batch], target=target, errors=errors), strict=True):
            yield i, replace(e, number=i) if isinstance(e, Failure) else e


def _flip(explainer: Any, e: Any, wanted: bool | None) -> tuple[bool, Any]:
    """Return whether a flip was looked for, by default where no single unit decides, and the flip; what it found is paid."""
    if not (e.saturated and e.scale != "output" if wanted is None else wanted):
        return False, None
    try:
        return True, explainer.flip(e)
    except InputError as error:
        if explainer.engine.spending.max_cost is None:
            raise
        complain(f"no flip was looked for: {error}")
        return False, None


def _certified(explainer: Any, e: Any, output: Output, seed: int, screen: Any = None) -> dict[str, Any]:
    """Return the Shapley values of the model by their key, where they are wanted; print them on a screen."""
    if output.certify is None:
        return {}
    try:
        values = explainer.shapley(e, queries=output.certify, seed=seed)
    except InputError as error:  # the explanation is paid for, and other texts follow
        complain(f"no Shapley values of the model: {error}")
        return {"certified": None}
    if screen is not None:
        screen.print(values.table(output.top), markup=False, highlight=False, soft_wrap=True)
    return {"certified": values.to_dict()}


def _texts(text: str | None, rows: Rows) -> list[str]:
    if (text is None) == (rows.file is None):
        got = "both" if text is not None else "neither"
        raise UsageError(f"give a TEXT, - for standard input, or --file FILE; got {got}")
    if text is not None and text != STANDARD_INPUT:
        if rows.given:
            raise UsageError("--column, --numeric and --pair are for the rows of a file or of standard input; got a TEXT")
        return [text]
    return examples_of(rows)


def _check_outputs(file: Path | None, output: Output) -> None:
    from slalom.pipeline.certifying import LEAST_PAIRED  # noqa: PLC0415

    check_outputs(file, output.html, output.png, output.out)
    if output.certify is not None and output.certify < LEAST_PAIRED:
        raise InputError(f"--certify must be at least {LEAST_PAIRED}; got {output.certify}")
    if output.png is not None and output.png.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"a picture must be a .png, .svg or .pdf file; got {str(output.png)!r}")
    if output.png is not None:
        with require("drawing pictures", "plots"):
            import matplotlib  # noqa: F401, PLC0415
    if output.out is not None and output.out.suffix.lower() != ".jsonl":
        raise InputError(f"--out must be a .jsonl file, one explanation per line; got {str(output.out)!r}")


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
    except (ValueError, TypeError, RecursionError) as error:
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
