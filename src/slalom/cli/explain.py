"""`slalom explain`: why a classifier decided as it did, for one text or many."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.cli.printing import check_places, complain, console
from slalom.errors import InputError, require
from slalom.files import begun_lines, drop_rest, has_rows, json_rows, read_rows, read_text, texts_of, write_text

_AT_ONCE = 16  # texts that share their batches; what is done is written after each lot


def explain(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to explain; - reads texts from standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="A file with one text a line, or rows (.jsonl, .json, .csv, .tsv; --column names the field); also .gz."
        ),
    ] = None,
    column: Annotated[str | None, typer.Option(help="The field of the rows that holds the texts.", show_default="text")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The folder or hub name of a Hugging Face classifier; the sentiment model of slalom unless told."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="How to ask and to fit; `slalom methods` lists them.", show_default=True)
    ] = "joint",
    queries: Annotated[int | None, typer.Option(help="How many parts of a text the model is asked about, at most.")] = None,
    unit: Annotated[
        Literal["token", "type", "word", "sentence"] | None,
        typer.Option(help="What the text is made of; the method's own unless told."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The class to explain, by label or number, or `all`.")] = None,
    long: Annotated[
        Literal["cut", "window"], typer.Option(help="What becomes of texts that are too long for the model.")
    ] = "cut",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU if there is one, unless told.")] = None,
    seed: Annotated[int, typer.Option(help="Of the queries and the fit.")] = 0,
    cache: Annotated[Path | None, typer.Option(help="An SQLite file that keeps all answers of the model.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many units the table shows.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line a text, and nothing else.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at in a browser.")] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            help="Draw value against importance, or bars where effects add up (.png, .svg, .pdf); several texts get numbers."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the explanations as JSON lines; a file that was begun is continued.")
    ] = None,
) -> None:
    """Explain why a classifier decided as it did.

    Every unit of the text gets a value (what it says) and an importance (how loudly); the last line says how well these
    predict what the model answers when parts of the text are taken away.
    """
    from slalom import Explainer, Explanation, Explanations  # noqa: PLC0415
    from slalom.render.terminal import show  # noqa: PLC0415
    from slalom.result import Failure  # noqa: PLC0415

    texts = _texts(text, file, column)
    _check_places(file, html, png, out)
    done = _begun(out, texts) if out else []
    explainer = Explainer(
        model, method=method, unit=unit, queries=queries, seed=seed, long=long, device=device, cache=cache
    )  # fmt: skip
    labels = explainer.model.head.labels
    chosen = int(target) if target is not None and target.isdecimal() and target not in labels else target
    screen = console()
    every: list[Explanation] = []
    failures: list[Failure] = []
    try:
        for e in _explained(explainer, texts, chosen, done, out):
            if isinstance(e, Failure):
                failures.append(e)
                complain(f"text {e.number + 1} of {len(texts)} failed: {e.error}")
                continue
            every.append(e)
            if as_json:
                sys.stdout.write(e.to_json() + "\n")
            else:
                show(e, screen, top, f"{len(every) + len(failures)} of {len(texts)}" if len(texts) > 1 else "")
            if png:
                _draw(e, png, len(every) + len(failures) if len(texts) > 1 else 0)
    except KeyboardInterrupt as stop:
        kept = f"{str(out)!r} has what is done; the same command goes on" if out else "with --out FILE what is done is kept"
        complain(f"interrupted after {len(every) + len(failures)} of {len(texts)} texts; {kept}")
        raise typer.Exit(130) from stop
    if html and every:
        Explanations(every).to_html(html)
    for path in (html if every else None, png if len(texts) == 1 else None, out):
        if path and not as_json:
            screen.print(f"written: {path}", markup=False, soft_wrap=True)
    if failures:
        numbers = ", ".join(str(failure.number + 1) for failure in failures[:20]) + (", ..." if len(failures) > 20 else "")
        others = "; the others were explained" if every else ""
        complain(f"{len(failures)} of {len(texts)} texts failed: {numbers}{others}")
        raise typer.Exit(1)


def _explained(
    explainer: Any, texts: Sequence[str], target: str | int | None, done: Sequence[Any], out: Path | None
) -> Iterator[Any]:
    """Give the explanations of all texts, lot by lot, and the failures of several; what the file has already comes first."""
    from slalom.result import Failure  # noqa: PLC0415

    options = replace(explainer.options, target=target)
    if not all(isinstance(e, Failure) or explainer.pipeline.matches(e, options) for e in done):
        raise InputError(
            f"{str(out)!r} was begun with another model or other options; give the same ones, name another file, or delete it"
        )
    failed = [i for i, e in enumerate(done) if isinstance(e, Failure)]
    if failed and out:  # what failed before is tried again
        again = dict(zip(failed, _lot(explainer, [(i, texts[i]) for i in failed], target), strict=True))
        done = [again.get(i, e) for i, e in enumerate(done)]
        fresh = out.with_name(out.name + ".new")
        write_text(fresh, "".join(e.to_json() + "\n" for e in done))
        fresh.replace(out)
    yield from done
    for start in range(len(done), len(texts), _AT_ONCE):
        numbered = list(enumerate(texts[start : start + _AT_ONCE], start))
        lot = [explainer(texts[0], target=target)] if len(texts) == 1 else _lot(explainer, numbered, target)
        if out:
            write_text(out, "".join(e.to_json() + "\n" for e in lot), append=True)
        yield from lot


def _lot(explainer: Any, numbered: Sequence[tuple[int, str]], target: str | int | None) -> list[Any]:
    """Explain some texts, each with its number: explanations and failures, in their order."""
    found = explainer([text for _, text in numbered], target=target, errors="keep")
    failed = {failure.number: failure for failure in found.failures}
    explained = iter(found)
    return [replace(failed[i], number=number) if i in failed else next(explained) for i, (number, _) in enumerate(numbered)]


def _texts(text: str | None, file: Path | None, column: str | None) -> list[str]:
    if (text is None) == (file is None):
        got = "both" if text is not None else "neither"
        raise typer.BadParameter(f"give a TEXT, - for standard input, or --file FILE; got {got}")
    if text is not None and text != "-":
        if column is not None:
            raise typer.BadParameter("--column is for the rows of a file or of standard input; got a TEXT")
        return [text]
    if file is not None and str(file) != "-":
        if has_rows(file):
            return texts_of(read_rows(file), "text" if column is None else column, str(file))
        return _lines(read_text(file), str(file), column)
    try:
        content = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input must be text in UTF-8; {error}") from error
    first = next((line for line in content.split("\n") if line.strip()), "")
    if _object(first) is None and not re.match(r"\s*\[\s*\{", content):
        return _lines(content, "standard input", column)
    return texts_of(json_rows(content, "standard input"), "text" if column is None else column, "standard input")


def _lines(content: str, where: str, column: str | None) -> list[str]:
    """Return the texts of a file with one a line."""
    if column is not None:
        raise InputError(f"--column is for rows (.jsonl, .json, .csv, .tsv); {where} has one text a line and no columns")
    texts = [line for line in re.split(r"\r\n|\r|\n", content) if line.strip()]
    if not texts:
        raise InputError(f"{where} must have at least one line with a text; it is empty")
    return texts


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _check_places(file: Path | None, html: Path | None, png: Path | None, out: Path | None) -> None:
    """Say before the work, not after it, that a file cannot be written."""
    check_places(file, html, png, out)
    if png is not None and png.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"a picture must be a .png, .svg or .pdf file; got {str(png)!r}")
    if png is not None:
        with require("drawing pictures", "plots"):
            import matplotlib  # noqa: F401, PLC0415
    if out is not None and out.suffix.lower() != ".jsonl":
        raise InputError(f"--out must be a .jsonl file, one explanation a line; got {str(out)!r}")


def _begun(out: Path, texts: Sequence[str]) -> list[Any]:
    """Return the explanations that an earlier, interrupted run has written for the first of these texts.

    A last line that was cut off is taken away, once it is clear that the file is ours.
    """
    from slalom.result import restored  # noqa: PLC0415

    whole, rest = begun_lines(out)
    other = InputError(f"{str(out)!r} holds something that is no explanation of these texts; name another file, or delete it")
    try:
        found = [restored(json.loads(line)) for line in whole]
    except (ValueError, TypeError) as error:
        raise other from error
    openings = [f'{{"format": "slalom {kind}"'.encode() for kind in ("explanation", "failure")]
    cut = any(rest.startswith(opening) or opening.startswith(rest) for opening in openings)
    if [e.text for e in found] != list(texts[: len(found)]) or not cut:
        raise other
    drop_rest(out, rest)
    return found


def _draw(e: Any, path: Path, number: int) -> None:
    picture = e.plot.bar() if e.additive else e.plot.scatter()
    picture.savefig(path.with_stem(f"{path.stem}-{number}") if number else path)
