"""Language models on the command line: `--api`, with a template and labels."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.errors import InputError
from slalom.files import read_text

ApiName = Annotated[
    str | None,
    typer.Option("--api", help="Model behind an OpenAI-compatible API; the key is in OPENAI_API_KEY.", metavar="MODEL"),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="Address of the server of `--api`, with /v1.", show_default="OPENAI_BASE_URL, else OpenAI"),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        help="Prompt of a language model, with {text} where the text goes (\\n is a new line); chat messages as JSON; or @FILE."
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Labels of a language model, with commas: negative,positive; or label=answer: spam=A,ham=B."),
]
Mode = Annotated[
    Literal["auto", "completions", "chat", "sample", "stated"],
    typer.Option(
        metavar="<mode>",
        help="How `--api` is asked: completions or chat (log-probabilities), sample, stated; auto: what the server can do.",
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests of `--api` at the same time.")]


def classifier(
    model: str | None,
    *,
    api: str | None,
    base_url: str | None,
    template: str | None,
    labels: str | None,
    mode: Literal["auto", "completions", "chat", "sample", "stated"],
    concurrency: int,
) -> Any:
    """Return the model that the options name: what `--model` says, or a language model.

    Raises:
        BadParameter: Options do not fit together.
    """
    if api is None:
        given = {"--base-url": base_url, "--template": template, "--labels": labels}
        name = next((option for option, value in given.items() if value is not None), None)
        if name is not None:
            raise typer.BadParameter(f"{name} is for a language model; name one with --api MODEL")
        return model
    if model is not None:
        raise typer.BadParameter("give --model or --api; got both")
    if template is None or labels is None:
        raise typer.BadParameter(
            "--api needs --template and --labels: --template '{text} Sentiment:' --labels negative,positive"
        )
    from slalom.models import Api  # noqa: PLC0415

    return Api(api, template_of(template), labels_of(labels), base_url, mode=mode, concurrency=concurrency)


def template_of(option: str) -> Any:
    """Return a template: a string, chat messages, or the content of a file.

    Args:
        option: What the user wrote.

    Example:
        >>> template_of("Review: {text}\\\\nSentiment:")
        'Review: {text}\\nSentiment:'
        >>> template_of('[{"role": "user", "content": "{text}"}]')
        [{'role': 'user', 'content': '{text}'}]
    """
    content = read_text(Path(option[1:])) if option.startswith("@") else option
    if not content.lstrip().startswith("[{"):
        return content if option.startswith("@") else content.replace("\\n", "\n")
    try:
        return json.loads(content)
    except ValueError as error:
        raise InputError(f"a template that begins with [{{ must be chat messages as JSON; {error}") from error


def labels_of(option: str) -> list[str] | dict[str, str]:
    """Return labels, or a mapping from labels to answers.

    Args:
        option: What the user wrote.

    Example:
        >>> labels_of("bad, good"), labels_of("spam=A,ham=B")
        (['bad', 'good'], {'spam': 'A', 'ham': 'B'})
    """
    parts = [part.strip() for part in option.split(",") if part.strip()]
    if parts and all("=" in part for part in parts):
        return {name.strip(): answer for name, _, answer in (part.partition("=") for part in parts)}
    return parts
