"""Language models on the command line: `--lm` and `--api`, with a template and labels."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slalom.cli.printing import complain
from slalom.errors import InputError, require
from slalom.files import read_text

LanguageModel = Annotated[
    str | None,
    typer.Option("--lm", help="Language model as a classifier: a folder, a GGUF file or a name on the hub.", metavar="MODEL"),
]
Spellings = Annotated[
    bool,
    typer.Option("--spellings", help="Add labels without their space and with a capital letter; default in chats of `--api`."),
]
Chat = Annotated[
    bool, typer.Option("--chat", help="With `--lm`: send the template as a user's message, by the tokenizer's chat template.")
]
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
    Literal["auto", "logprobs", "sample"],
    typer.Option(
        metavar="<mode>",
        help="How `--api` is asked: logprobs, or sample; auto: samples where the server gives no log-probabilities.",
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests of `--api` at the same time.")]


# The options of `classifier` beside the model and the device, as a manifest keeps them.
NAMES = ("lm", "spellings", "chat", "api", "base_url", "template", "labels", "mode", "concurrency")


def classifier(
    model: str | None,
    *,
    lm: str | None = None,
    spellings: bool = False,
    chat: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
    api: str | None,
    base_url: str | None,
    template: str | None,
    labels: str | None,
    mode: Literal["auto", "logprobs", "sample"],
    concurrency: int,
) -> Any:
    """Return the model that the options name: what `--model` says, or a language model."""
    check_options(model, lm, spellings, chat, api, base_url, template, labels, mode)
    if lm is None and api is None:
        return model
    prompt, answers = template_of(template or ""), labels_of(labels or "")
    if lm is not None:
        return _prompted(lm, prompt, answers, spellings, chat, device, trust_remote_code)
    from slalom.models import Api  # noqa: PLC0415

    return Api(str(api), prompt, answers, base_url, mode=mode, spellings=spellings or None, concurrency=concurrency)


def say_what_is_loaded(models: Sequence[str | None], lm: str | None, api: str | None, base_url: str | None) -> None:
    """Say which models are loaded, which may take a while, and where texts are sent."""
    named = [lm or api] if lm or api else models
    kind = "classifier" if named is models else "language model"
    listed = ", ".join(f"the bundled {kind}" if name is None else f"the {kind} {name!r}" for name in named)
    if api is None:
        complain(f"loading {listed}")
        return
    from slalom.models.api.client import server_address  # noqa: PLC0415

    complain(f"starting with {listed} at {server_address(base_url)[0]}")


def check_options(
    model: str | None,
    lm: str | None,
    spellings: bool,
    chat: bool,
    api: str | None,
    base_url: str | None,
    template: str | None,
    labels: str | None,
    mode: str,
) -> None:
    """Check that options of `classifier` fit together, before anything is loaded."""
    named = [name for name, value in (("--model", model), ("--lm", lm), ("--api", api)) if value is not None]
    if len(named) > 1:
        raise typer.BadParameter(f"give one of --model, --lm and --api; got {' and '.join(named)}")
    if lm is None and chat:
        raise typer.BadParameter("--chat is for a local language model; name one with --lm")
    if api is None and (base_url is not None or mode != "auto"):
        option = "--mode" if base_url is None else "--base-url"
        raise typer.BadParameter(f"{option} is for a model behind an API; name one with --api MODEL")
    if api is None and lm is None:
        given = {"--template": template, "--labels": labels, "--spellings": spellings or None}
        name = next((option for option, value in given.items() if value is not None), None)
        if name is not None:
            raise typer.BadParameter(f"{name} is for a language model; name one with --lm MODEL or --api MODEL")
    elif template is None or labels is None:
        raise typer.BadParameter(
            f"{named[0]} needs --template and --labels: --template '{{text}} Sentiment:' --labels negative,positive"
        )


def _prompted(
    path: str, template: Any, labels: Any, spellings: bool, chat: bool, device: str | None, trust_remote_code: bool
) -> Any:
    """Load a language model and return it as a classifier."""
    from slalom.models import Template, label_set  # noqa: PLC0415

    if chat and not isinstance(template, str):
        raise typer.BadParameter("--chat makes a message of a string; the template has its messages already")
    made = Template([{"role": "user", "content": template}] if chat else template)
    if isinstance(labels, dict):
        labels = {name: made.lead + answer for name, answer in labels.items()}
    label_set(labels)  # fails before the model is loaded

    with require("--lm", "hf"):
        from slalom.models.huggingface.saved import load_language_model  # noqa: PLC0415
        from slalom.models.prompted import Prompted  # noqa: PLC0415
    network, tokenizer = load_language_model(path, device, trust_remote_code)
    return Prompted(network, tokenizer, made, labels, spellings=spellings, name=Path(path).name)


def template_of(option: str) -> Any:
    """Return a template: a string, chat messages, or the content of a file.

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

    Example:
        >>> labels_of("bad, good"), labels_of("spam=A,ham=B")
        (['bad', 'good'], {'spam': 'A', 'ham': 'B'})
    """
    parts = [part.strip() for part in option.split(",") if part.strip()]
    if parts and all("=" in part for part in parts):
        return {name.strip(): answer for name, _, answer in (part.partition("=") for part in parts)}
    return parts
