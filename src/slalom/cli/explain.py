"""`slalom explain`: why a classifier decided as it did, for one text or many."""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.cli.printing import complain, console
from slalom.errors import InputError

_AT_ONCE = 16  # texts that share their batches; what is done is written after each lot


def explain(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to explain; - reads texts from standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file with one text a line, or JSON lines (.jsonl) with a field `text`; also .gz.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The folder or hub name of a Hugging Face classifier; the sentiment model of slalom unless told."),
    ] = None,
    method: Annotated[Literal["joint", "local", "eff", "fidel"], typer.Option(help="How to ask and to fit.")] = "joint",
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
    from slalom.cli.terminal import show  # noqa: PLC0415

    texts = _texts(text, file)
    _check_places(html, png, out)
    done = _begun(out, texts) if out else []
    explainer = Explainer(
        model, method=method, unit=unit, queries=queries, seed=seed, long=long, device=device, cache=cache
    )  # fmt: skip
    labels = explainer.model.head.labels
    chosen = int(target) if target is not None and target.isdecimal() and target not in labels else target
    _check_same(done, out, method, seed, explainer)
    screen = console()
    every: list[Explanation] = []
    try:
        for e in _explained(explainer, texts, chosen, done, out):
            every.append(e)
            if as_json:
                sys.stdout.write(e.to_json() + "\n")
            else:
                show(e, screen, top, f"{len(every)} of {len(texts)}" if len(texts) > 1 else "")
            if png:
                _draw(e, png, len(every) if len(texts) > 1 else 0)
    except KeyboardInterrupt as stop:
        kept = f"{str(out)!r} has what is done; the same command goes on" if out else "with --out FILE what is done is kept"
        complain(f"interrupted after {len(every)} of {len(texts)} texts; {kept}")
        raise typer.Exit(130) from stop
    if html:
        Explanations(every).to_html(html)
    for path in (html, png if len(texts) == 1 else None, out):
        if path and not as_json:
            screen.print(f"written: {path}", markup=False, soft_wrap=True)


def _explained(
    explainer: Any, texts: Sequence[str], target: str | int | None, done: Sequence[Any], out: Path | None
) -> Iterator[Any]:
    """Give the explanations of all texts, lot by lot; those that the file has already come first."""
    yield from done
    for start in range(len(done), len(texts), _AT_ONCE):
        lot = explainer(texts[start : start + _AT_ONCE], target=target)
        if out:
            with out.open("a", encoding="utf-8", errors="surrogatepass") as lines:
                lines.writelines(e.to_json() + "\n" for e in lot)
        yield from lot


def _texts(text: str | None, file: Path | None) -> list[str]:
    if (text is None) == (file is None):
        got = "both" if text is not None else "neither"
        raise typer.BadParameter(f"give a TEXT, - for standard input, or --file FILE; got {got}")
    if text is not None and text != "-":
        return [text]
    piped = file is None or str(file) == "-"
    where = "standard input" if piped else str(file)
    try:
        raw = sys.stdin.buffer.read() if piped or file is None else file.read_bytes()
        content = (gzip.decompress(raw) if not piped and where.endswith(".gz") else raw).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"could not read {where!r}: {reason}; name a text file in UTF-8") from error
    return _lines(content, where)


def _lines(content: str, where: str) -> list[str]:
    """Return the texts of a file: one a line, or the field `text` of JSON objects, one a line."""
    every = (line.removesuffix("\r") for line in content.split("\n"))
    lines = [(number, line) for number, line in enumerate(every, start=1) if line.strip()]
    if not lines:
        raise InputError(f"{where} must have at least one line with a text; it is empty")
    if not (lines[0][1].lstrip().startswith("{") and _object(lines[0][1]) is not None):
        return [line for _, line in lines]
    texts = []
    for number, line in lines:
        row = _object(line)
        if row is None or not isinstance(row.get("text"), str):
            raise InputError(f'line {number} of {where} must be a JSON object with a field "text"; got {line[:40]}')
        texts.append(row["text"])
    return texts


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _check_places(html: Path | None, png: Path | None, out: Path | None) -> None:
    """Say before the work, not after it, that a file cannot be written."""
    for path in (html, png, out):
        if path is not None and (path.is_dir() or not path.resolve().parent.is_dir()):
            raise InputError(f"could not write {str(path)!r}; name a file in a folder that exists")
    if png is not None and png.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"a picture must be a .png, .svg or .pdf file; got {str(png)!r}")


def _begun(out: Path, texts: Sequence[str]) -> list[Any]:
    """Return the explanations that an earlier, interrupted run has written for the first of these texts."""
    from slalom import load  # noqa: PLC0415

    if not out.exists() or not out.stat().st_size:
        return []
    whole = out.read_bytes()
    if not whole.endswith(b"\n"):  # the last line was cut off
        out.write_bytes(whole[: whole.rfind(b"\n") + 1])
    found: list[Any] = [*load(out)] if out.stat().st_size else []  # type: ignore[misc]
    if [e.text for e in found] != list(texts[: len(found)]):
        raise InputError(f"{str(out)!r} already has explanations of other texts; name another file, or delete it")
    return found


def _check_same(done: Sequence[Any], out: Path | None, method: str, seed: int, explainer: Any) -> None:
    mine = (method, seed, explainer.options.unit or explainer.options.method.unit, explainer.model.name)
    if any((e.method, e.seed, e.unit, e.model) != mine for e in done):
        raise InputError(f"{str(out)!r} was begun with another method, seed, unit or model; name another file, or delete it")


def _draw(e: Any, path: Path, number: int) -> None:
    picture = e.plot.bar() if e.additive else e.plot.scatter()
    picture.savefig(path.with_stem(f"{path.stem}-{number}") if number else path)
