"""Language models on the command line: `--lm` and `--api`, with a template and labels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from slalom.cli.options import LANGUAGE_MODEL, Positive, one_of
from slalom.cli.printing import UsageError, complain
from slalom.errors import InputError, require
from slalom.files import read_text


@Parameter(name="*", group=LANGUAGE_MODEL)
@dataclass(frozen=True)
class NamedLanguageModel:
    """Which language model, and its prompt."""

    lm: str | None = None
    """Language model: folder, GGUF file or name on the hub."""
    api: str | None = None
    """Model behind an OpenAI-like API; key in OPENAI_API_KEY."""
    base_url: str | None = None
    """Server URL, with /v1 (default: OPENAI_BASE_URL or OpenAI)."""
    template: str | None = None
    """Prompt with {text}; or chat messages as JSON; or @FILE."""


@dataclass(frozen=True)
class LanguageModel(NamedLanguageModel):
    """A language model as a classifier."""

    labels: str | None = None
    """Labels: negative,positive; or label=answer: spam=A,ham=B."""
    spellings: bool = False
    """Count labels without space and capitalised too."""
    chat: bool = False
    """With --lm: send the prompt as a message of a chat."""
    mode: Literal["auto", "logprobs", "sample"] = "auto"
    """How --api is asked: logprobs, sample; auto: what it can do."""
    concurrency: Positive = 8
    """Requests of --api at the same time (default: 8)."""

    @property
    def is_named(self) -> bool:
        """Whether there is one."""
        return self.lm is not None or self.api is not None

    @property
    def writes_only(self) -> bool:
        """Whether there is one without a prompt and labels, which classifies nothing."""
        plain = LanguageModel(mode=self.mode, concurrency=self.concurrency)
        return self.is_named and replace(self, lm=None, api=None, base_url=None) == plain

    def check(self, model: str | None, classifies: bool = True) -> None:
        """Check that the options fit together, and that no classifier is named besides, before anything is loaded."""
        named = one_of(model=model, lm=self.lm, api=self.api)
        if self.lm is None and self.chat:
            raise UsageError("--chat is for a local language model; name one with --lm")
        if self.api is None and (self.base_url is not None or self.mode != "auto"):
            option = "--mode" if self.base_url is None else "--base-url"
            raise UsageError(f"{option} is for a model behind an API; name one with --api MODEL")
        if self.is_named and (self.template is None or self.labels is None) and (classifies or not self.writes_only):
            raise UsageError(
                f"{named} needs --template and --labels: --template '{{text}} Sentiment:' --labels negative,positive"
            )
        for option in ("template", "labels", "spellings"):
            if not self.is_named and getattr(self, option):
                raise UsageError(f"--{option} is for a language model; name one with --lm MODEL or --api MODEL")

    def load(self, model: str | None = None, device: str | None = None, trust_remote_code: bool = False) -> Any:
        """Return the model that the options name: a language model, or the classifier."""
        self.check(model)
        if not self.is_named:
            return model
        template, labels = template_of(self.template or ""), labels_of(self.labels or "")
        if self.lm is not None:
            return self._local(template, labels, device, trust_remote_code)
        from slalom.models import Api  # noqa: PLC0415

        return Api(
            str(self.api), template, labels, self.base_url, mode=self.mode, spellings=self.spellings or None,
            concurrency=self.concurrency,
        )  # fmt: skip

    def _local(self, template: Any, labels: Any, device: str | None, trust_remote_code: bool) -> Any:
        from slalom.models import Template, label_set  # noqa: PLC0415

        if self.chat and not isinstance(template, str):
            raise UsageError("--chat makes a message of a string; the template has its messages already")
        made = Template([{"role": "user", "content": template}] if self.chat else template)
        if isinstance(labels, dict):
            labels = {name: made.lead + answer for name, answer in labels.items()}
        label_set(labels)  # fails before the model is loaded

        with require("--lm", "hf"):
            from slalom.models.huggingface.saved import load_language_model  # noqa: PLC0415
            from slalom.models.prompted import Prompted  # noqa: PLC0415
        path = str(self.lm)
        network, tokenizer = load_language_model(path, device, trust_remote_code)
        return Prompted(network, tokenizer, made, labels, spellings=self.spellings, name=Path(path).name)

    def say_what_is_loaded(self, models: Sequence[str | None]) -> None:
        """Say which models are loaded, which may take a while, and where texts are sent."""
        kind = "language model" if self.is_named else "classifier"
        named = [self.lm or self.api] if self.is_named else models
        listed = ", ".join(f"the bundled {kind}" if name is None else f"the {kind} {name!r}" for name in named)
        if self.api is None:
            complain(f"loading {listed}")
            return
        from slalom.models.api.client import server_address  # noqa: PLC0415

        complain(f"starting with {listed} at {server_address(self.base_url)[0]}")


NAMES = tuple(field.name for field in fields(LanguageModel))


def language_model_of(options: Mapping[str, Any]) -> LanguageModel:
    """Return the language model that the options of a run name."""
    return LanguageModel(**{name: options[name] for name in NAMES})


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
