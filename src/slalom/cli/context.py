"""`slalom context`: which source made a language model say this."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from slalom.cli.inputs import STANDARD_INPUT, read_standard_input
from slalom.cli.language_models import NamedLanguageModel, template_of
from slalom.cli.options import EXPLANATION, INPUT, Cost, Device, Html, Json, Method, Positive, Queries, Seed, Top, TrustCode
from slalom.cli.printing import UsageError, check_outputs, console, print_estimate
from slalom.errors import InputError
from slalom.files import read_text


@dataclass(frozen=True)
class Writer(NamedLanguageModel):
    """The language model that writes answers."""

    api: str | None = None
    """Model behind a server (vLLM, llama.cpp; others: --mode sample)."""
    template: str | None = None
    """Prompt with {context} and {question}; or chat messages as JSON; or @FILE."""
    max_answer_tokens: Positive = 64
    """Most tokens of an answer that the model writes (default: 64)."""
    mode: Literal["logprobs", "sample"] = "logprobs"
    """sample: for models that give no log probabilities (any --api)."""
    samples: Positive = 8
    """Samples per query, with --mode sample (default: 8)."""
    score: Literal["agree", "similarity"] = "agree"
    """What samples are counted by, with --mode sample."""
    judge: Literal["model"] | None = None
    """model: it is asked whether a sample says the answer."""
    device: Device = None
    trust_remote_code: TrustCode = False


@Parameter(name="*", group=EXPLANATION)
@dataclass(frozen=True)
class Explaining:
    """What is explained, and how."""

    part: Positive | None = None
    """Number of the sentence of the answer to explain (default: all of it)."""
    span: str | None = None
    """START:STOP, characters of the answer to explain, from 0; STOP is not in it."""
    words: bool = False
    """Sources of each word of the answer, too; not with --mode sample."""
    unit: Literal["word", "sentence", "paragraph", "document"] | None = None
    """What a source is (default: a sentence of one file, each of several files)."""
    method: Method = "joint"
    seed: Seed = 0


def context(
    *,
    file: Annotated[list[Path], Parameter(name=["--file", "--context"], group=INPUT, metavar="FILE")],
    question: Annotated[str, Parameter(group=INPUT)],
    answer: Annotated[str | None, Parameter(group=INPUT)] = None,
    writer: Writer = Writer(),
    explaining: Explaining = Explaining(),
    queries: Queries = None,
    cost: Cost = Cost(),
    top: Top = 10,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Explain which source made a language model say something.

    The score is the log probability of the answer, or with --mode sample the log odds that a sample agrees with it (--score
    similarity: how similar they are). Every source gets the change of it that its removal makes.

    Args:
        file: Text file with the context, - is stdin; several are documents.
        question: The question.
        answer: The answer to explain (default: the most probable one, by the model).
        queries: Queries (default: 8 per source, at least 64; 256 above 100); auto: until done.
    """
    from slalom import ContextExplainer, Explanations  # noqa: PLC0415
    from slalom.models import AnswerServer  # noqa: PLC0415
    from slalom.render.terminal import show  # noqa: PLC0415

    check_outputs(None, html)
    texts = [_text(path) for path in file]
    lm, api, template = writer.lm, writer.api, writer.template
    if (lm is None) == (api is None):
        raise UsageError(f"give --lm MODEL or --api MODEL; got {'both' if lm else 'neither'}")
    if api is None and writer.base_url is not None:
        raise UsageError("--base-url is for a model behind a server; name one with --api MODEL")
    if explaining.part is not None and explaining.span is not None:
        raise UsageError("give --part or --span, not both")
    characters = None if explaining.span is None else _characters(explaining.span)
    explainer = ContextExplainer(
        lm if api is None else AnswerServer(api, writer.base_url),
        context=texts[0] if len(texts) == 1 and explaining.unit != "document" else texts,
        unit=explaining.unit, template=None if template is None else template_of(template), method=explaining.method,
        queries=queries, max_answer_tokens=writer.max_answer_tokens, mode=writer.mode, samples=writer.samples,
        score=writer.score, judge=writer.judge, words=explaining.words, device=writer.device,
        trust_remote_code=writer.trust_remote_code, seed=explaining.seed, cache=cost.cache, prices=cost.prices,
        max_cost=cost.max_cost,
    )  # fmt: skip
    if cost.dry_run:
        print_estimate(explainer.estimate(question, answer), as_json)
        return
    screen = console()
    e = explainer(question, answer, part=explaining.part, span=characters)
    if as_json:
        sys.stdout.write(e.to_json() + "\n")
    else:
        show(e, screen, top)
    if html:
        Explanations([e]).to_html(html)
        if not as_json:
            screen.print(f"written: {html}", markup=False, soft_wrap=True)


def _characters(span: str) -> tuple[int, int]:
    numbers = span.split(":")
    if len(numbers) != 2 or not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(f"--span must be two whole numbers such as 12:19; got {span!r}")
    return int(numbers[0]), int(numbers[1])


def _text(path: Path) -> str:
    from_file = path != Path(STANDARD_INPUT)
    text = read_text(path) if from_file else read_standard_input()
    if not text.strip():
        raise InputError(f"{repr(str(path)) if from_file else 'standard input'} is empty; a context needs text")
    return text
