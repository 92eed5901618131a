"""`slalom context`: which source made a language model say this."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.cli.language_models import BaseUrl, template_of
from slalom.cli.options import Device, DryRun, MaxCost, PriceTable, budget
from slalom.cli.printing import check_outputs, console, print_estimate
from slalom.errors import InputError
from slalom.files import read_text


def context(
    sources: Annotated[
        list[Path],
        typer.Option(
            "--context", metavar="FILE", help="Text file with the context, - for standard input; several are documents."
        ),
    ],
    question: Annotated[str, typer.Option(help="The question.")],
    lm: Annotated[
        str | None, typer.Option("--lm", help="Language model: a folder, a GGUF file or a name on the hub.", metavar="MODEL")
    ] = None,
    api: Annotated[
        str | None, typer.Option(help="Model behind a server of vLLM or llama.cpp, in place of `--lm`.", metavar="MODEL")
    ] = None,
    base_url: BaseUrl = None,
    answer: Annotated[
        str | None, typer.Option(help="The answer to explain.", show_default="the most probable one, by the model")
    ] = None,
    part: Annotated[
        int | None, typer.Option(min=1, help="Number of the sentence of the answer to explain.", show_default="all of it")
    ] = None,
    span: Annotated[
        str | None,
        typer.Option(
            metavar="START:STOP",
            help="Characters of the answer to explain: the first one, and the one after the last, beginning with 0.",
        ),
    ] = None,
    unit: Annotated[
        Literal["sentence", "paragraph", "document"] | None,
        typer.Option(help="What a source is.", show_default="a sentence of one file, each of several files"),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="The prompt, with {context} and {question} (\\n is a new line); chat messages as JSON; or @FILE.",
            show_default="by the chat template of the model",
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="Explanation method; `slalom methods` lists them.")] = "joint",
    queries: Annotated[
        Any,
        typer.Option(
            parser=budget,
            metavar="<int|auto>",
            help="Budget of queries; `auto`: rounds until the error on held-out queries no longer falls.",
            show_default="eight per source, between 64 and 1000",
        ),
    ] = None,
    max_answer_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of an answer that the model writes.")] = 64,
    device: Device = None,
    seed: Annotated[int, typer.Option(help="Seed of the queries and the fit.")] = 0,
    cache: Annotated[Path | None, typer.Option(help="SQLite file that keeps the model's answers.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of sources in the table.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    dry_run: DryRun = False,
    prices: PriceTable = None,
    max_cost: MaxCost = None,
) -> None:
    """Explain which source made a language model say something.

    The score is the log probability of the answer. Every source gets the change of it that its removal makes.
    """
    from slalom import ContextExplainer, Explanations  # noqa: PLC0415
    from slalom.models import AnswerServer  # noqa: PLC0415
    from slalom.render.terminal import show  # noqa: PLC0415

    check_outputs(None, html)
    texts = [_text(path) for path in sources]
    if (lm is None) == (api is None):
        raise typer.BadParameter(f"give --lm MODEL or --api MODEL; got {'both' if lm else 'neither'}")
    if api is None and base_url is not None:
        raise typer.BadParameter("--base-url is for a model behind a server; name one with --api MODEL")
    if part is not None and span is not None:
        raise typer.BadParameter("give --part or --span, not both")
    characters = None if span is None else _characters(span)
    explainer = ContextExplainer(
        lm if api is None else AnswerServer(api, base_url),
        context=texts[0] if len(texts) == 1 and unit != "document" else texts,
        unit=unit, template=None if template is None else template_of(template), method=method, queries=queries,
        max_answer_tokens=max_answer_tokens, device=device, seed=seed, cache=cache,
        prices=prices, max_cost=max_cost,
    )  # fmt: skip
    if dry_run:
        print_estimate(explainer.estimate(question, answer), as_json)
        return
    screen = console()
    e = explainer(question, answer, part=part, span=characters)
    if as_json:
        sys.stdout.write(e.to_json() + "\n")
    else:
        show(e, screen, top)
    if html:
        Explanations([e]).to_html(html)
        if not as_json:
            screen.print(f"written: {html}", markup=False, soft_wrap=True)


def _characters(span: str) -> tuple[int, int]:
    """Return the two numbers of a span."""
    numbers = span.split(":")
    if len(numbers) != 2 or not all(number.strip().isdecimal() for number in numbers):
        raise typer.BadParameter(f"--span must be two whole numbers such as 12:19; got {span!r}")
    return int(numbers[0]), int(numbers[1])


def _text(path: Path) -> str:
    """Return the text of a file, or of standard input for -."""
    if str(path) != "-":
        text = read_text(path)
    else:
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"standard input must be text in UTF-8; {error}") from error
    if not text.strip():
        raise InputError(f"{'standard input' if str(path) == '-' else repr(str(path))} is empty; a context needs text")
    return text
