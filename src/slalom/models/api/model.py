"""`Api`: a language model behind an OpenAI-compatible server as a classifier of texts.

One request per query (k for samples where the server gives one at a time), `concurrency` of them at a time. What the server
can do is found out at the first query (`slalom.models.api.probe`); what its answers say, in `slalom.models.api.answers`.

A query without an answer (refused, filtered, empty, malformed, no label) has the bounds -inf and inf, and in place of a score
the mean of the others, which only matters to methods that do not look at bounds.
"""

import asyncio
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, ModelError
from slalom.models.api.answers import (
    KNOWN,
    Columns,
    Mode,
    Outcome,
    Row,
    Unusable,
    choices,
    content,
    from_log_probabilities,
    from_samples,
    from_stated,
    missing,
    repeated,
)
from slalom.models.api.client import Client, Refused, is_number
from slalom.models.api.probe import PATHS, Capabilities, Probe, instruction, prompt, stated_tokens, with_instruction
from slalom.models.base import Model, Observed, Report
from slalom.models.callable import StringReading
from slalom.models.costs import Usage, about_tokens
from slalom.models.head import Head
from slalom.models.prompts import LOW_SHARE, LabelSet, Message, Template, label_set

ModeName = Literal["auto", "completions", "chat", "sample", "stated"]
_REPEATS = 3  # of a whole text, where equal requests get different answers
_OUTPUT_TOKENS = 8  # per answer, as long as the server was not asked
_MOST_WHOLE = 65_536  # texts that are known to be whole ones; a call reads its texts before it asks
_HOPELESS = 20  # queries without any answer at the beginning
_FILTERS = ("content_filter", "content_policy_violation")  # codes of errors that are about the text
_MISSING_ADVICE = {
    Outcome.REFUSED: "the model refuses to answer; word the template otherwise, or use another model",
    Outcome.FILTERED: "the server's content filter stops the answer; use another text or server",
    Outcome.EMPTY: "the model says nothing; word the template otherwise (models that reason first need tokens=2000 in Python)",
    Outcome.MALFORMED: "the answer is not what was asked for; use another mode=",
    Outcome.NO_LABEL: "no label is listed; ask for one in the template, add examples, set spellings=True or (in Python) top=",
}
_ENDINGS = {
    Mode.COMPLETIONS: "log-probabilities of completions, {size} per token",
    Mode.CHAT: "log-probabilities of chat answers, {size} per token",
    Mode.SAMPLE: "counts of labels among {size} samples, with their noise",
    Mode.STATED: "probabilities that the model states, not those that it answers with",
}


@final
class Api(Model):
    """A language model behind an OpenAI-compatible API, as a classifier: OpenAI, vLLM, llama.cpp, Ollama, LiteLLM, ...

    Nothing is asked before the first query. The key comes from the environment and is stored nowhere.

    Args:
        model: The name of the model, as the server knows it.
        template: The prompt: a string with ``{text}``, or chat messages.
        labels: The labels, or a mapping from labels to the answers that stand for them: ``{"spam": " A", "ham": " B"}``.
        base_url: Address of the server, with ``/v1``. Default: the environment variable OPENAI_BASE_URL, else OpenAI.
        mode: "completions" or "chat" (log-probabilities), "sample" (counts of samples), "stated" (the model states
            probabilities in JSON), or "auto": the first of completions, chat and sample that the server can do.
        spellings: Whether " positive", "positive", " Positive" and "Positive" are the same label. Default: in chat.
        samples: Samples per query, for "sample".
        top: Log-probabilities per token to ask for; fewer where the server refuses.
        tokens: Tokens that an answer may have, for "sample" and "stated"; a model that reasons first needs many. Default: 8,
            or what the JSON takes.
        repeats: How often a whole text is asked again, to measure noise. Default: 3 where equal requests get different
            answers, else 0.
        seed: Sent with every request, where the server takes it.
        max_missing: Largest share of queries without an answer.
        api_key_env: The environment variable that has the key. Default: OPENAI_API_KEY, if it is set.
        concurrency: Requests in flight.
        timeout: Seconds for one attempt.
        attempts: Attempts per request; a rate limit does not count.
        patience: Seconds without any answer after which a rate limit is an error.

    Raises:
        InputError: An argument is wrong.
        MissingExtra: The package openai is not installed.

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
        repeats: int | None = None,
        seed: int = 0,
        max_missing: float = 0.2,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
        attempts: int = 6,
        patience: float = 600.0,
    ) -> None:
        if not str(model or "").strip():
            raise InputError(f"model must be the name of a model on the server; got {model!r}")
        modes = ("auto", *(known.name.lower() for known in Mode))
        if mode not in modes:
            raise InputError(f"mode must be one of {', '.join(modes)}; got {mode!r}")
        if not is_number(max_missing) or not 0.0 <= max_missing < 1.0:
            raise InputError(f"max_missing must be a share of the queries from 0 to below 1; got {max_missing!r}")
        self.name, self.template = model, Template(template)
        self.mode = None if mode == "auto" else Mode[mode.upper()]
        self.labels, self._chat_labels = _continuations(labels, self.template, spellings)
        _check_apart(self.labels)
        self.samples, self.top = whole_number("samples", samples, 1), whole_number("top", top, 1)
        self.tokens = None if tokens is None else whole_number("tokens", tokens, 1)
        self.repeats = None if repeats is None else whole_number("repeats", repeats, 0)
        self.seed, self.max_missing = whole_number("seed", seed, 0), float(max_missing)
        self.client = Client(
            base_url,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout=timeout,
            attempts=attempts,
            patience=patience,
        )
        self.head = Head("classes", self.labels.names)
        self._columns = Columns(len(self.labels.names))
        self._found: Capabilities | None = None
        self._whole: dict[bytes, None] = {}  # digests of the texts that were read, the latest last
        self._answered, self._unanswered = 0, 0  # in this session

    def __repr__(self) -> str:
        return f"Api({self.name!r}, {self.client.address!r})"

    @property
    def capabilities(self) -> Capabilities:
        """What the server can do; it is asked where that is not known yet.

        Raises:
            ModelError: The server cannot be asked.
        """
        if self._found is None:
            probe = self._probe()
            self._found = self.client.run(lambda: probe.find(self.mode, self.repeats is None)).result()
            for label, first in self._found.first_tokens.items():
                warnings.warn(
                    f"the label {label!r} has several tokens; its probability is that of its beginning {first!r}",
                    UserWarning,
                    stacklevel=2,
                )
        return self._found

    def _probe(self) -> Probe:
        """Return what finds out what the server can do."""
        options = {"temperature": 0.0, "seed": self.seed}
        labels = self.labels, self._chat_labels
        return Probe(self.client, self.name, self.template, *labels, options, self.top, self.samples, self.tokens)

    @property
    def start_tokens(self) -> tuple[int, int]:
        return (0, 0) if self._found is not None else self._probe().most_tokens(self.mode)

    @property
    def usage(self) -> Usage:
        return self.client.usage

    def tokens_of(self, text: str) -> tuple[int, int]:
        given, found = self.template.content, self._found
        fixed = len(given) if isinstance(given, str) else sum(len(part) for message in given for part in message)
        mode = self.mode if found is None else found.mode
        times, written = self.samples if mode is Mode.SAMPLE else 1, _OUTPUT_TOKENS
        if mode is Mode.STATED:
            fixed, written = fixed + len(instruction(self.labels.names)), stated_tokens(self.labels.names)
        if self.tokens is not None and mode in (Mode.SAMPLE, Mode.STATED):
            written = self.tokens
        read = about_tokens(fixed + len(text)) * (1 if found is not None and found.several else times)
        return read, times * (written if found is None else found.tokens)

    def close(self) -> None:
        """Close the connections; a later query opens them again."""
        self.client.close()

    # --- the interface of models ---------------------------------------------------------------------------------------

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> StringReading:
        if spans is None:
            raise InputError("a model that reads strings needs the spans of the units")
        self._whole.pop(digest := _digest(text), None)
        self._whole[digest] = None
        if len(self._whole) > _MOST_WHOLE:
            del self._whole[next(iter(self._whole))]
        return StringReading(text, spans, empty=True)

    @property
    def n_columns(self) -> int:
        return self._columns.width

    def identity(self) -> str:
        parts = [
            self.client.address, self.name, self.template.content, self.labels.names, self.labels.continuations,
            self._chat_labels.continuations, None if self.mode is None else self.mode.name, self.samples, self.top,
            self.repeats, self.seed, self.tokens, *filter(None, [self.client.replaced]),
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
        found = self.capabilities

        async def rows() -> Floats:
            return np.stack(await asyncio.gather(*(self._outputs(text, found) for text in inputs)))

        return self.client.run(rows)

    def wait(self, handles: Sequence["Future[Floats]"]) -> int:
        wait(handles, return_when=FIRST_COMPLETED)
        return next(i for i, handle in enumerate(handles) if handle.done())

    def drain(self) -> None:
        self.client.drain()

    def collect(self, handle: "Future[Floats]") -> Floats:
        try:
            outputs = handle.result()
        except CancelledError:
            raise ModelError(f"the connection to {self.client.address} was closed while requests were in flight") from None
        answered = self._columns.last(outputs, 1) == Outcome.ANSWERED
        self._answered += int(answered.sum())
        self._unanswered += int((~answered).sum())
        if not self._answered and self._unanswered >= _HOPELESS:
            raise ModelError(
                f"{self.name} answered none of {self._unanswered} queries; {_MISSING_ADVICE[self._main_reason(outputs)]}"
            )
        return outputs

    # --- one query -----------------------------------------------------------------------------------------------------

    async def _outputs(self, text: str, found: Capabilities) -> Floats:
        """Ask about a text, and return its outputs (n_columns,)."""
        whole = _digest(text) in self._whole
        size = self.samples if found.mode is Mode.SAMPLE else found.top
        try:
            rows = [await self._row(text, found)]
            again = self.repeats if self.repeats is not None else _REPEATS * (found.deterministic is False)
            if whole and found.mode is not Mode.SAMPLE and again:
                rows += await asyncio.gather(*(self._row(text, found) for _ in range(again)))
        except Unusable as error:
            raise ModelError(f"{self.client.address} answered with {error}; check the server, or use another mode=") from None
        row = repeated(rows) if len(rows) > 1 else rows[0]
        return self._columns.packed(row, found.mode, size, whole, self.client.answering)

    async def _row(self, text: str, found: Capabilities) -> Row:
        """Ask about a text once; k times for samples."""
        body = {"model": self.name, **prompt(self.template, text, found.chat), **found.options, found.limit: found.tokens}
        path = PATHS[found.chat]
        try:
            return await self._asked(path, body, found)
        except Refused as error:
            if error.code not in _FILTERS:
                raise
            return missing(Outcome.FILTERED, len(self.labels.names))

    async def _asked(self, path: str, body: dict[str, Any], found: Capabilities) -> Row:
        """Send a request, and read the answer."""
        if found.mode is Mode.SAMPLE:
            return await self._sampled(path, body, found)
        if found.mode is Mode.STATED:
            body["messages"] = with_instruction(body["messages"], self.labels.names)
            return from_stated(*content(choices(await self.client.post(path, body))[0]), self.labels.names)
        body |= {"logprobs": True, "top_logprobs": found.top} if found.chat else {"logprobs": found.top}
        keys = found.keys
        if keys is None:
            raise ModelError(f"{self.client.address} was not asked how it spells the labels; this is a bug in slalom")
        return from_log_probabilities(choices(await self.client.post(path, body))[0], keys)

    async def _sampled(self, path: str, body: dict[str, Any], found: Capabilities) -> Row:
        """Return the counts of labels among samples; the seeds of single requests differ."""
        if found.several:
            answers = [await self.client.post(path, body | {"n": self.samples})]
        else:
            seeds = [{"seed": self.seed + i} if "seed" in found.options else {} for i in range(self.samples)]
            answers = list(await asyncio.gather(*(self.client.post(path, body | seed) for seed in seeds)))
        texts = [content(choice) for answer in answers for choice in choices(answer)]
        return from_samples(texts, self._chat_labels.continuations)

    # --- scores and report ---------------------------------------------------------------------------------------------

    def observe(self, outputs: Floats, target: int | Literal["all"]) -> Observed:
        columns = self._columns
        if len(np.unique(columns.last(outputs, 6))) > 1:
            raise ModelError(
                f"the answers about this text are of two models that the server calls {self.name}, some of them in the cache;"
                " use another cache= file, and name a model that does not change"
            )
        log_p, counts, spread = (columns.part(outputs, i) for i in (0, 3, 4))
        known = columns.last(outputs, 1) == Outcome.ANSWERED
        self._check_missing(outputs, known)
        scores = self.head.scores(log_p, target)
        if not known.all():
            scores = np.where(known if scores.ndim == 1 else known[:, None], scores, scores[known].mean(axis=0))
        variance = self._variance(counts, spread, target)
        low, high = self._bounds(outputs, target)
        sure = known & (columns.last(outputs, 5) == 0.0)
        close = (high - low < KNOWN) | (sure if scores.ndim == 1 else sure[:, None])
        low, high = np.where(close, scores, low), np.where(close, scores, high)
        bounds = (None, None) if close.all() else (low, high)
        samples = (None, None) if target == "all" or not counts.any() else (counts[:, target], counts.sum(axis=1))
        return Observed(scores, variance, *bounds, *samples)

    def _bounds(self, outputs: Floats, target: int | Literal["all"]) -> tuple[Floats, Floats]:
        """Return the least and the largest scores, of the shape of the scores, that the bounds of the probabilities allow."""
        low, high, n = self._columns.part(outputs, 1), self._columns.part(outputs, 2), len(self.labels.names)
        unknown = self._columns.last(outputs, 1) != Outcome.ANSWERED
        with np.errstate(divide="ignore"):
            if target == "all":
                logs = np.log(low), np.log(high)
                others = [np.stack([np.delete(part, c, axis=1).sum(axis=1) for c in range(n)], axis=1) for part in logs]
                least, most = (((n - 1) * logs[i] - others[1 - i]) / n for i in (0, 1))
                unknown = unknown[:, None]
            else:
                rest = [i for i in range(n) if i != target]
                least = np.log(low[:, target]) - np.log(high[:, rest].sum(axis=1))
                most = np.log(high[:, target]) - np.log(low[:, rest].sum(axis=1))
        return np.where(unknown, -np.inf, least), np.where(unknown, np.inf, most)

    def _variance(self, counts: Floats, spread: Floats, target: int | Literal["all"]) -> Floats | None:
        """Return the variances of scores (m,): of the counts of samples, and of repeats; None where scores are exact.

        Repeats have the variances of log odds. Scores of all labels are log-probabilities less their mean, which vary less:
        by (1 - 1/n)^2 for two labels, and for n equally probable ones.
        """
        if counts.any():
            inverse = 1.0 / (counts + 1.0)
            n = counts.shape[1]
            if target == "all":
                return np.asarray((1.0 - 1.0 / n) * inverse.mean(axis=1))
            rest = counts.sum(axis=1) - counts[:, target]
            return np.asarray(inverse[:, target] + 1.0 / (rest + n - 1.0))
        measured = spread[(spread >= 0.0).all(axis=1)]
        if not len(measured):
            return None
        noise = measured.mean(axis=0)
        one = noise.mean() * (1.0 - 1.0 / len(noise)) ** 2 if target == "all" else noise[target]
        return np.full(len(counts), float(one))

    def _check_missing(self, outputs: Floats, known: NDArray[np.bool_]) -> None:
        whole = self._columns.last(outputs, 4) == 1.0
        if (whole & ~known).any():
            kind = Outcome(int(self._columns.last(outputs, 1)[whole & ~known][0]))
            raise ModelError(f"{self.name} gives no answer about the whole text ({kind.title}); {_MISSING_ADVICE[kind]}")
        if len(known) and (~known).mean() > self.max_missing:
            raise ModelError(
                f"{self.name} gave no answer to {(~known).sum()} of {len(known)} queries ({self._why(outputs[~known])}), more"
                f" than max_missing={self.max_missing:g}; {_MISSING_ADVICE[self._main_reason(outputs)]}"
            )

    def _why(self, outputs: Floats) -> str:
        """Return how many queries were not answered, and why."""
        outcomes = self._columns.last(outputs, 1)
        return ", ".join(f"{kind.title}: {n}" for kind in Outcome if kind and (n := int((outcomes == kind).sum())))

    def _main_reason(self, outputs: Floats) -> Outcome:
        """Return why most of the missing answers are missing."""
        outcomes = self._columns.last(outputs, 1)
        return max((kind for kind in Outcome if kind), key=lambda kind: int((outcomes == kind).sum()))

    def report(self, outputs: Floats) -> Report:
        columns, figures, notes = self._columns, dict[str, float](), list[str]()
        share, outcomes, modes, sizes = (columns.last(outputs, i) for i in range(4))
        answered = outcomes == Outcome.ANSWERED
        mode, size = Mode(int(modes[0])), int(sizes[0])
        notes.append(f"The scores are {_ENDINGS[mode].format(size=size)}.")
        if (modes != modes[0]).any() or (sizes != sizes[0]).any():
            notes.append("Answers in the cache were asked for in different ways; use mode= and another cache file.")
        if answered.any() and mode is not Mode.STATED:
            figures["label share"] = float(share[answered].mean())
            if figures["label share"] < LOW_SHARE:
                notes.append(
                    f"Only {figures['label share']:.0%} of the probability is on the labels; ask for them in the template,"
                    " or add examples."
                )
        low, high = columns.part(outputs, 1)[answered], columns.part(outputs, 2)[answered]
        censored = columns.last(outputs, 5)[answered] == 1.0
        figures["censored"] = float(censored.mean()) if len(censored) else 0.0
        more = float((high[~censored] / low[~censored]).max(initial=1.0) - 1.0)
        if more > KNOWN:
            notes.append(
                f"Spellings that are not among the listed tokens could add at most {more:.0%} to a label's probability."
            )
        if censored.any():
            notes.append(
                f"In {censored.sum()} of {len(censored)} queries a label or a spelling of it is not among the listed"
                " tokens; the score has bounds."
            )
            if 2 * censored.sum() > len(censored):
                notes.append(
                    "Few or no queries are left to test it; ask for more log-probabilities (top= in Python) or spellings=False."
                )
        spread = columns.part(outputs, 4)
        measured = spread[(spread >= 0.0).all(axis=1)]
        if len(measured):
            figures["noise"] = float(np.sqrt(measured.mean()))
            notes.append(f"Equal requests get answers that differ by {figures['noise']:.2g} log odds (standard deviation).")
        figures |= {kind.title: float((outcomes == kind).mean()) for kind in Outcome if kind and (outcomes == kind).any()}
        if not answered.all():
            notes.append(f"{(~answered).sum()} of {len(answered)} queries have no answer and no weight ({self._why(outputs)}).")
        return Report(figures, tuple(notes))


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


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
