"""Which source made a language model say this: sources are the units, the log probability of the answer is the score.

Where a language model gives no log probabilities, the score says how samples agree with the answer (`slalom.models.sampled`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from typing import Any, Literal, Unpack, final

import numpy as np
from numpy.typing import ArrayLike

from slalom.contexts.inputs import language_model_of, sources_of
from slalom.contexts.zoom import QUERIES, ZoomPipeline, zooms
from slalom.core.checks import Floats, check_choice, whole_number
from slalom.errors import InputError, ModelError
from slalom.explainer import CallOptions, Explainer
from slalom.methods import Method
from slalom.methods import method as find_method
from slalom.models import Estimate, Prices
from slalom.models.continuation import ANSWER, SENTENCE, WORD, AnswerModel, Continuation, prompt_tokens
from slalom.models.costs import Spending, about_tokens
from slalom.models.judges import Score
from slalom.models.sampled import SampledAnswer, Sampling
from slalom.models.sources import CHAT, PLAIN, Prompt, SourceReading, SourceTemplate
from slalom.pipeline import Step
from slalom.result import Answer, Explanation, Flip
from slalom.text import UnitFunction, sentences

_LEAST_QUERIES = 64


@final
class ContextExplainer:
    """Explains which sources make a language model say something: any number of questions and answers about one context.

    Args:
        model: A causal language model of Hugging Face, its folder or name on the hub, or a `LanguageModel` such as a server.
        tokenizer: Its tokenizer; a folder has its own.
        context: The sources: a text, a list of documents, or a list of chat messages such as
            ``{"role": "user", "content": "..."}``. System messages are no sources; they stay.
        unit: "word", "sentence", "paragraph", "document", "turn", or a function as in `Explainer`. Default: the documents of a
            list, the turns of a chat, the sentences of a text. More than 100 are explained by `joint` from coarse to fine:
            units are then single sources (`sizes` is 1) where the answer depends on them, and elsewhere runs of neighbours.
        template: The prompt: a string with {context} and {question}, or chat messages. Default: one message of a user where
            the tokenizer has a chat template, else "{context}\\n\\nQuestion: {question}\\nAnswer:". A chat has none.
        method: As in `Explainer`. With at most 12 sources `joint` fits its deletions like all other subsets.
        queries: Query budget, or "auto". Default: eight per source, between 64 and 1000; from coarse to fine 256.
        max_answer_tokens: Most tokens of an answer that the model writes.
        mode: "logprobs" (the score is the log probability of the answer), or "sample" for models that give none.
        samples: Samples per query, for "sample".
        score: "agree" (the score is the log odds that a sample agrees with the answer) or "similarity" (the mean similarity of
            samples to it), for "sample".
        judge: What compares samples with the answer, for "sample": a function ``(answer, sample) -> bool or number``, a
            sentence encoder with a method `encode`, or "model": the language model is asked. Default: their words.
        temperature: Temperature of samples, for "sample".
        words: Whether each word of a sentence of an answer has its sources too, from the same queries; not for "sample".
        device: Device for a model given by its folder.
        chat_options: Further arguments for the tokenizer's `apply_chat_template`, such as ``{"enable_thinking": False}``.
        trust_remote_code: Whether a model given by its folder may run Python modules of its own.
        max_cost: Most dollars that all calls may spend, as in `Explainer`. With a cache file a server may be asked how it reads
            the answer before the estimate.
        cache: As in `Explainer`.
        progress: As in `Explainer`.
        prices: As in `Explainer`.
        **options: Options of `Explainer` that a call may replace: tolerance, max_queries, check, seed and pairs.

    Example:
        >>> explainer = ContextExplainer(model, tokenizer, ["Ada lives in Graz.", "It rains."])  # doctest: +SKIP
        >>> e = explainer("Where does Ada live?", "In Graz.")  # doctest: +SKIP
        >>> e.units[e.strongest(1)[0]]  # doctest: +SKIP
        'Ada lives in Graz.'
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        context: str | Sequence[str] | Sequence[Mapping[str, str]] = "",
        *,
        unit: str | UnitFunction | None = None,
        template: "str | Sequence[Mapping[str, str]] | SourceTemplate | None" = None,
        method: str | Method = "joint",
        queries: int | Literal["auto"] | None = None,
        max_answer_tokens: int = 64,
        mode: Literal["logprobs", "sample"] = "logprobs",
        samples: int = 8,
        score: Score = "agree",
        judge: Any = None,
        temperature: float = 1.0,
        words: bool = False,
        device: str | None = None,
        chat_options: Mapping[str, Any] | None = None,
        trust_remote_code: bool = False,
        cache: str | Path | None = None,
        progress: bool | None = None,
        prices: Mapping[str, Any] | Prices | str | Path | None = None,
        max_cost: float | None = None,
        **options: Any,
    ) -> None:
        self.sources = sources_of(context, unit)
        self.max_answer_tokens = whole_number("max_answer_tokens", max_answer_tokens, 1)
        if template is not None and self.sources.turns:
            raise InputError("a chat is its own prompt; leave template= out, or pass the sources as a list of strings")
        check_choice("mode", mode, ("logprobs", "sample"))
        how = {"samples": samples, "score": score, "judge": judge, "temperature": temperature}
        seed = options.get("seed", 0)
        self.sampling = Sampling(**how, seed=randbits(32) if seed is None else seed) if mode == "sample" else None
        if self.sampling is None and Sampling(**how) != Sampling():
            raise InputError('samples=, score=, judge= and temperature= are for mode="sample"; leave them out')
        if words and mode == "sample":
            raise InputError('words= needs log probabilities; leave it out with mode="sample"')
        self.words = words
        self.language_model = language_model_of(model, tokenizer, device, chat_options, trust_remote_code)
        self.spending = Spending(self.language_model, prices, max_cost)
        chats = self.language_model.chats if self.sampling is None else self.language_model.samples_chats
        if not chats and (self.sources.turns or (template is not None and not isinstance(template, (str, SourceTemplate)))):
            also = ', or mode="sample"' if self.language_model.samples_chats else ""
            raise InputError(f"{self.language_model.name} has no chat template; pass strings, and template= as a string{also}")
        self.template = SourceTemplate(template if template is not None else CHAT if chats else PLAIN)
        n = len(self.sources.spans)
        if queries is None and options.get("tolerance") is None:
            queries = QUERIES if zooms(n, find_method(method)) else min(max(8 * n, _LEAST_QUERIES), 1000)
        unknown = sorted(options.keys() - (CallOptions.__annotations__.keys() - {"unit", "target", "long"}))
        if unknown:
            raise TypeError(f"ContextExplainer has no option {unknown[0]!r}")
        self._options = {"method": method, "queries": queries, "cache": cache, "progress": progress, **options}
        self._explainers: dict[tuple[str, str], Explainer] = {}
        self._generated: dict[str, str] = {}

    def __call__(
        self,
        question: str = "",
        answer: str | None = None,
        *,
        part: int | str | None = None,
        span: tuple[int, int] | None = None,
        **options: Unpack[CallOptions],
    ) -> Explanation:
        """Explain an answer, or a part of it.

        The language model is asked once about the same sources: further parts of an answer need no further queries.
        """
        explainer, options, finished = self._prepared(question, answer, part, span, options)
        return finished(explainer(self.sources.text, **options))

    def steps(
        self,
        question: str = "",
        answer: str | None = None,
        *,
        first: int = 32,
        seconds: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Step]:
        """Explain an answer in rounds, the first of few queries and the last as a call does; see `Explainer.steps`.

        Many sources are explained from coarse to fine: the units of an explanation are then the runs of sources that its round
        asks about, and those of the next round are parts of them.
        """
        explainer, options, finished = self._prepared(question, answer, None, None, options)
        if self.language_model.usage is None:  # requests to a server are given up by themselves, and sent many at a time
            explainer.engine.turn_seconds = seconds
        for step in explainer.steps(self.sources.text, first=first, seconds=seconds, **options):
            yield step if step.explanation is None else step._replace(explanation=finished(step.explanation))

    def _prepared(
        self, question: str, answer: str | None, part: int | str | None, span: tuple[int, int] | None, options: CallOptions
    ) -> tuple[Explainer, CallOptions, Callable[[Explanation], Explanation]]:
        """Return the explainer of an answer, the options of its call, and what adds the answer to its explanation."""
        if part is not None and span is not None:
            raise InputError("give part= or span=, not both")
        if self.spending.max_cost is not None and self._options["cache"] is None:
            estimate = self.estimate(question, answer, **options)
            self.spending.check(estimate.cost or 0.0, f"this call ({estimate})")
        options = self._checked(options, answer)
        question, generated = self._question(question), answer is None
        said = self.answer(question) if answer is None else answer
        explainer, model = self._explainer(question, said)
        target = ANSWER if part is None and span is None else _selected(model, part, span)
        options["target"] = target
        explainer.engine.turn_seconds = None  # those of steps

        def about(e: Explanation) -> Explanation:
            part, tokens = model.parts[e.target], model.parts[e.target].n_tokens
            figures = {"answer tokens": float(tokens), "log probability per token": float(e.score) / tokens} if tokens else {}
            return replace(
                e,
                answer=Answer(question, said, part.start, part.stop, generated, tokens),
                figures={**e.figures, **figures},
                details=tuple(map(about, e.details)),
                words=tuple(map(about, e.words)),
            )

        return explainer, options, about

    def estimate(self, question: str = "", answer: str | None = None, **options: Unpack[CallOptions]) -> Estimate:
        """Return what a call will ask and cost; the model is asked nothing.

        An answer that the model has yet to write counts with `max_answer_tokens`. Of a server that was not asked about the
        answer before, answers in a cache file count as queries.
        """
        options, question = self._checked(options, answer), self._question(question)
        said = self._generated.get(question) if answer is None else answer
        if said is not None and (self.language_model.usage is None or (question, said) in self._explainers):
            return self._explainer(question, said)[0].estimate(self.sources.text, **options)
        guess = "some" * self.max_answer_tokens if said is None else said
        estimate = self._made(question, guess, guess=True).estimate(self.sources.text, **options)
        if said is not None:
            return estimate
        read, written = prompt_tokens(self._prompt(question)), self.max_answer_tokens
        cost = None if estimate.cost is None else estimate.cost + self.spending.cost(read, written)
        return estimate._replace(tokens=estimate.tokens + read, output_tokens=estimate.output_tokens + written, cost=cost)

    def answer(self, question: str = "", on_text: Callable[[str], None] | None = None) -> str:
        """Return the answer that the language model gives to a question from all sources: the most probable, token by token.

        Args:
            question: The question.
            on_text: Is called with what is written so far, again and again while the model writes, where that can be known.
        """
        if on_text is not None and not callable(on_text):
            raise InputError(f"on_text must be a function of what is written so far; got {type(on_text).__name__}")
        question = self._question(question)
        if question not in self._generated:
            prompt = self._prompt(question)
            cost = self.spending.cost(prompt_tokens(prompt), self.max_answer_tokens)
            self.spending.check(cost, "writing the answer")
            try:
                answer = self.language_model.write(prompt, self.max_answer_tokens, on_text or (lambda _: None))
            except (InputError, ModelError):  # nothing was written
                cost = 0.0
                raise
            finally:
                self.spending.received(cost)
            if not answer:
                raise InputError(f"{self.language_model.name} says nothing to this question; pass answer=")
            self._generated[question] = answer
        return self._generated[question]

    def ask(self, explanation: Explanation, keep: ArrayLike) -> Floats:
        """Return the model's own scores (m,) for sources (m, n) that are kept, as `Explainer.ask` does."""
        return self._explainer_of(explanation).ask(explanation, keep)

    def flip(self, explanation: Explanation, threshold: float, *, max_queries: int = 50) -> Flip | None:
        """Return a small set of sources without which the log probability crosses a threshold, as `Explainer.flip` does."""
        return self._explainer_of(explanation).flip(explanation, threshold=threshold, max_queries=max_queries)

    def _prompt(self, question: str) -> Prompt:
        reading = SourceReading(self.sources, self.template, question)
        return reading.prompts(np.ones((1, len(self.sources.spans)), dtype=bool))[0]

    def _checked(self, options: CallOptions, answer: str | None) -> CallOptions:
        """Check an answer, and return the options of a call, with the method that suits the sources."""
        if not isinstance(answer, (str, type(None))):
            raise InputError(f"an answer must be a string; got {type(answer).__name__}")
        unknown = sorted(options.keys() & {"target", "long"})
        if unknown:
            raise InputError(f"an answer is explained as a whole, by part= or by span=; leave {unknown[0]}= out")
        return options

    def _question(self, question: str) -> str:
        if not isinstance(question, str):
            raise InputError(f"a question must be a string; got {type(question).__name__}")
        last = self.sources.question
        if last and question not in ("", last):
            raise InputError("the chat ends with a question already; leave question= out, or the last turn")
        if self.sources.turns:
            if not (question or last):
                raise InputError("a chat must end with a turn of the user, or question= must be given")
            return last or question
        if not question and self.template.asks:
            raise InputError("a question is missing; pass question=, or a template without {question}")
        if question and not self.template.asks:
            raise InputError("the template has no place for a question; add {question} to it")
        return question

    def _explainer(self, question: str, answer: str) -> tuple[Explainer, AnswerModel]:
        """Return the explainer of an answer, with all sentences of the answer as labels."""
        if (question, answer) not in self._explainers:
            self._explainers[question, answer] = self._made(question, answer)
        explainer = self._explainers[question, answer]
        assert isinstance(explainer.model, AnswerModel)
        return explainer, explainer.model

    def _made(self, question: str, answer: str, guess: bool = False) -> Explainer:
        """Return a new explainer of an answer; all of them share what may be spent."""
        asked, most = (self.language_model, self.sources, self.template, question, answer), self.max_answer_tokens
        if not guess and self._generated.get(question) != answer:  # samples may be as long as an answer that is given
            most = max(most, 2 * about_tokens(len(answer)))
        model = Continuation(*asked, guess) if self.sampling is None else SampledAnswer(*asked, self.sampling, most)
        spans = sentences(answer)
        for number, (start, stop) in enumerate(spans.tolist() if len(spans) > 1 else [], 1):
            model.select(start, stop, f"{SENTENCE}{number}")
        if self.words and isinstance(model, Continuation) and not guess:
            model.word_labels = model.select_words()
        explainer = Explainer(model, unit=self.sources.kind, **self._options)
        explainer.engine.spending = self.spending
        explainer.pipeline = ZoomPipeline(model, explainer.engine)
        return explainer

    def _explainer_of(self, explanation: Explanation) -> Explainer:
        about = explanation.answer
        if about is None or explanation.text != self.sources.text:
            raise InputError("this explanation is of other sources; ask the explainer that made it")
        explainer, model = self._explainer(about.question, about.text)
        if isinstance(model, Continuation) and str(explanation.target).startswith(WORD):
            model.select_words()  # tokens of white space belong to words, too
        if explanation.target not in model.parts:
            model.select(about.start, about.stop, explanation.target)
        return explainer


def context(
    model: Any,
    tokenizer: Any = None,
    context: str | Sequence[str] | Sequence[Mapping[str, str]] = "",
    question: str = "",
    answer: str | None = None,
    *,
    part: int | str | None = None,
    span: tuple[int, int] | None = None,
    **options: Any,
) -> Explanation:
    """Explain which sources make a language model give an answer.

    For several questions or parts of an answer, and for `ask` and `flip`, use `ContextExplainer`.

    Args:
        model: As in `ContextExplainer`.
        tokenizer: As in `ContextExplainer`.
        context: As in `ContextExplainer`.
        answer: Default: the most probable one, written by the model from all sources.
        part: The number of a sentence of the answer, beginning with 1. Default: all of it.
        span: First character of a part of the answer, and the character after its last one.
        **options: Options of `ContextExplainer`: unit, template, method, queries, max_answer_tokens, mode, cache, seed, ...

    Returns:
        An explanation whose units are the sources, and whose score is the log probability of the answer in nats; with
        ``mode="sample"`` the log odds that a sample agrees with it, or their mean similarity.

    Example:
        >>> e = slalom.context(model, tokenizer, ["Ada lives in Graz.", "It rains."], "Where does Ada live?")  # doctest: +SKIP
        >>> e.answer.text, e.strongest(1)  # doctest: +SKIP
        ('Ada lives in Graz.', [0])
    """
    return ContextExplainer(model, tokenizer, context, **options)(question, answer, part=part, span=span)


def _selected(model: AnswerModel, part: int | str | None, span: tuple[int, int] | None) -> str:
    """Return the label of a part of the answer."""
    if span is None:
        name = f"{SENTENCE}{part}" if isinstance(part, int) else str(part)
        if name == f"{SENTENCE}1" and not model.details:
            return ANSWER
        if name not in model.parts:
            listed = ", ".join(map(repr, list(model.parts)[:8]))
            raise InputError(f"part must be one of {listed}; got {part!r}; span= takes characters of the answer")
        return name
    start, stop = (whole_number("span", end, 0) for end in span)
    return model.select(start, stop, f"characters {start} to {stop}")
