"""`Api`: a language model behind an OpenAI-compatible server as a classifier of texts.

One request per query (k for samples where the server gives one at a time), `concurrency` of them at a time. What the server
can do is found out at the first query (`slalom.models.api.probe`).
"""

import asyncio
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed
from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, ModelError
from slalom.models.api import scores
from slalom.models.api.answers import Outcome, Row, Rows, choices, content, from_log_probabilities, from_samples, missing
from slalom.models.api.client import FILTERS, Client, Refused, is_number
from slalom.models.api.probe import SPELLED, Capabilities, Probe
from slalom.models.base import Model, Reading, Report
from slalom.models.costs import Usage, about_tokens
from slalom.models.head import Head
from slalom.models.prompts import LabelSet, Message, Template, label_set
from slalom.models.strings import Background, RecordReading, StringReading
from slalom.text import Record

ModeName = Literal["auto", "logprobs", "sample"]
_MODES = ("auto", "logprobs", "sample")
_OUTPUT_TOKENS = 8  # per answer, as long as the server was not asked
_HOPELESS = 20  # queries without any answer at the beginning


@final
class Api(Model):
    """A language model behind an OpenAI-compatible API, as a classifier: OpenAI, vLLM, llama.cpp, Ollama, LiteLLM, ...

    Nothing is asked before the first query. The key comes from the environment and is stored nowhere.

    Args:
        model: The name of the model, as the server knows it.
        template: The prompt: a string with ``{text}``, or chat messages.
        labels: The labels, or a mapping from labels to the answers that stand for them: ``{"spam": " A", "ham": " B"}``.
        base_url: Address of the server, with ``/v1``. Default: the environment variable OPENAI_BASE_URL, else OpenAI.
        mode: "logprobs" (log-probabilities of the labels), "sample" (counts of labels among samples), or "auto": samples where
            the server gives no log-probabilities.
        spellings: Whether " positive", "positive", " Positive" and "Positive" are the same label. Default: in chat.
        samples: Samples per query, for "sample".
        top: Log-probabilities per token to ask for; fewer where the server refuses.
        tokens: Tokens that a sample may have; a model that reasons first needs many. Default: 8.
        max_missing: Largest share of queries without an answer.
        api_key_env: The environment variable that has the key. Default: OPENAI_API_KEY, if it is set.
        concurrency: Requests in flight.
        timeout: Seconds for one attempt.
        attempts: Attempts per request.

    Example:
        >>> model = Api("smollm2", "Review: {text}\\nSentiment:", ["negative", "positive"], "http://localhost:8080/v1")
        >>> model
        Api('smollm2', 'localhost:8080/v1')
        >>> model.head.labels
        ('negative', 'positive')
    """

    def __init__(
        self,
        model: str,
        template: str | Sequence[Message] | Template,
        labels: Iterable[str] | Mapping[str, str | Iterable[str]] | LabelSet,
        base_url: str | None = None,
        *,
        mode: ModeName = "auto",
        spellings: bool | None = None,
        samples: int = 16,
        top: int = 20,
        tokens: int | None = None,
        max_missing: float = 0.2,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
        attempts: int = 8,
    ) -> None:
        if not str(model or "").strip():
            raise InputError(f"model must be the name of a model on the server; got {model!r}")
        if mode not in _MODES:
            raise InputError(f"mode must be one of {', '.join(_MODES)}; got {mode!r}")
        if not is_number(max_missing) or not 0.0 <= max_missing < 1.0:
            raise InputError(f"max_missing must be a share of the queries from 0 to below 1; got {max_missing!r}")
        self.name, self.template, self.mode, self.max_missing = model, Template(template), mode, float(max_missing)
        self.fields = self.template.fields
        self.reads_records = bool(self.fields)
        self.labels, self._chat_labels = _continuations(labels, self.template, spellings)
        _check_apart(self.labels)
        self.samples, self.top = whole_number("samples", samples, 1), whole_number("top", top, 1)
        self.tokens = SPELLED if tokens is None else whole_number("tokens", tokens, 1)
        self.client = Client(base_url, api_key_env=api_key_env, concurrency=concurrency, timeout=timeout, attempts=attempts)
        self.head = Head("classes", self.labels.names)
        names = self.name, self.template, self.labels, self._chat_labels
        self._probe = Probe(self.client, *names, self.top, self.samples, self.tokens)
        self._capabilities: Capabilities | None = None
        self._answered, self._unanswered = 0, 0  # in this session

    def __repr__(self) -> str:
        return f"Api({self.name!r}, {self.client.address!r})"

    @property
    def capabilities(self) -> Capabilities:
        """What the server can do; it is asked where that is not known yet."""
        if self._capabilities is None:
            capabilities: Capabilities = self.client.run(self._probe.find(self.mode)).result()
            self._capabilities = capabilities
            for label, first in capabilities.first_tokens.items():
                warnings.warn(
                    f"the label {label!r} has several tokens; its probability is that of its beginning {first!r}",
                    UserWarning,
                    stacklevel=2,
                )
        return self._capabilities

    @property
    def start_tokens(self) -> tuple[int, int]:
        return (0, 0) if self._capabilities is not None else self._probe.most_tokens(self.mode)

    @property
    def usage(self) -> Usage:
        return self.client.usage

    def tokens_of(self, text: Any) -> tuple[int, int]:
        characters = sum(map(len, self.template.values(text).values()))
        way, read = self._capabilities, about_tokens(len(self.template.characters) + characters)
        if self.mode == "sample" if way is None else way.sampled:
            return read * (self.samples if way is None else self.samples // way.size), self.samples * self.tokens
        return read, _OUTPUT_TOKENS if way is None else way.tokens

    def close(self) -> None:
        """Close the connections; a later query opens them again."""
        self.client.close()

    def whole_fields(self, record: Record) -> frozenset[str]:
        self.template.values(record)
        return super().whole_fields(record)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> Reading:
        assert spans is not None  # it reads strings
        if isinstance(text, Record):
            return RecordReading(text, spans, Background(), self.removal)
        self.template.values(text)
        return StringReading(text, spans, True, self.removal)

    @property
    def n_columns(self) -> int:
        return Rows.width(len(self.labels.names))

    def identity(self) -> str:
        parts = [
            self.client.address, self.name, self.template.content, self.labels.names, self.labels.continuations,
            self._chat_labels.continuations, self.mode, self.samples, self.top, self.tokens, self.client.replaced,
        ]  # fmt: skip
        digest = blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
        return f"api {self.client.address} {self.name} {digest}"

    @contextmanager
    def session(self) -> Iterator[None]:
        self.client.resume()
        self._answered = self._unanswered = 0
        _ = self.capabilities
        yield

    @property
    def max_in_flight(self) -> int:
        return 2 * self.client.concurrency

    def batch_rows(self, length: int) -> int:
        return 1

    def shrink(self) -> None: ...

    def submit(self, inputs: list[str]) -> "Future[Floats]":
        way = self.capabilities

        async def rows() -> Floats:
            return np.stack(await asyncio.gather(*(self._outputs(text, way) for text in inputs)))

        return self.client.run(rows())

    def wait(self, handles: Sequence["Future[Floats]"]) -> int:
        wait(handles, return_when=FIRST_COMPLETED)
        return next(i for i, handle in enumerate(handles) if handle.done())

    def cancel(self, handle: "Future[Floats]") -> None:
        handle.cancel()

    def collect(self, handle: "Future[Floats]") -> Floats:
        outputs = handle.result()
        outcomes = self._rows(outputs).outcome
        self._answered += int((outcomes == Outcome.ANSWERED).sum())
        self._unanswered += int((outcomes != Outcome.ANSWERED).sum())
        if not self._answered and self._unanswered >= _HOPELESS:
            raise ModelError(f"{self.name} answered none of {self._unanswered} queries; {scores.why_missing(outcomes)[1]}")
        return outputs

    async def _outputs(self, text: str, way: Capabilities) -> Floats:
        """Ask about a text, and return its outputs (n_columns,)."""
        try:
            row = await self._row(text, way)
        except Refused as error:
            if error.code not in FILTERS:
                raise
            row = missing(Outcome.FILTERED, len(self.labels.names))
        return row.packed(-self.samples if way.sampled else way.size, way.noise, self.client.answering)

    async def _row(self, text: str, way: Capabilities) -> Row:
        """Ask about a text once; several times for samples where the server gives one at a time."""
        if not way.sampled:
            return from_log_probabilities(choices(await self._probe.ask(way, text))[0], way.keys)
        answers = await asyncio.gather(*(self._probe.ask(way, text) for _ in range(self.samples // way.size)))
        texts = [content(choice) for answer in answers for choice in choices(answer)]
        return from_samples(texts, self._chat_labels.continuations)

    def observe(self, outputs: Floats, target: int | Literal["all"]) -> Observed:
        rows = self._rows(outputs)
        if len(np.unique(rows.model)) > 1:
            raise ModelError(
                f"the answers about this text are of two models that the server calls {self.name}, some of them in the cache;"
                " use another cache= file, and name a model that does not change"
            )
        unanswered = rows.outcome != Outcome.ANSWERED
        if unanswered.any() and (unanswered.all() or unanswered.mean() > self.max_missing):
            why, advice = scores.why_missing(rows.outcome)
            most = "" if unanswered.all() else f", more than max_missing={self.max_missing:g}"
            raise ModelError(
                f"{self.name} gave no answer to {unanswered.sum()} of {len(outputs)} queries ({why}){most}; {advice}"
            )
        return scores.observed(rows, self.head, target)

    def report(self, outputs: Floats) -> Report:
        return scores.report(self._rows(outputs))

    def _rows(self, outputs: Floats) -> Rows:
        return Rows.of(outputs, len(self.labels.names))


def _continuations(
    labels: Iterable[str] | Mapping[str, str | Iterable[str]] | LabelSet, template: Template, spellings: bool | None
) -> tuple[LabelSet, LabelSet]:
    """Return the labels with the continuations of a completion, and with those of a chat answer."""
    if not isinstance(labels, (str, Mapping, LabelSet)) and isinstance(labels, Iterable):
        labels = list(labels)
    plain = label_set(labels, template.lead, bool(spellings))
    if isinstance(labels, (Mapping, LabelSet)):  # a chat answer begins without the blank of a completion
        both = tuple(tuple(dict.fromkeys([*known, *(k.strip() for k in known)])) for known in plain.continuations)
        return plain, LabelSet(plain.names, both if spellings is not False else plain.continuations)
    begins = template.lead if template.is_chat else ""  # a string is a message of the user, which an answer does not continue
    return plain, label_set(labels, begins if spellings is False else " ", spellings is not False)


def _check_apart(labels: LabelSet) -> None:
    """Raise where the answer that stands for a label begins that of another one."""
    spelled = [(name, part.strip()) for name, parts in zip(labels.names, labels.continuations, strict=True) for part in parts]
    for name, part in spelled:
        for other, longer in spelled:
            if name != other and longer.casefold().startswith(part.casefold()):
                raise InputError(
                    f"the label {name!r} ({part!r}) is the beginning of {other!r} ({longer!r}), so that answers are not told"
                    ' apart; map them to other answers, such as labels={"low": " A", "high": " B"}'
                )
