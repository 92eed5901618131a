"""The language model behind the server that answers from sources, and which of them its answers rest on."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, final

from slalom.contexts import ContextExplainer
from slalom.errors import InputError
from slalom.explainer import CallOptions
from slalom.pipeline import Step
from slalom.render.page.content import content
from slalom.web.access import Limits
from slalom.web.schema import ContextQuestion
from slalom.web.served import dumps, step_event
from slalom.web.work import Queue, send_now

_STEP = 0.5  # seconds that a step with queries should take
_KEPT = 16  # explainers, which hold the model's answers


@final
@dataclass(eq=False)
class ServedSources:
    """A language model, its queue, and explainers of what it was asked last."""

    name: str
    model: Any  # what `ContextExplainer` takes
    limits: Limits
    remote: bool = False  # whether sources leave this server
    cache: Path | None = None  # file of the model's answers
    mode: Literal["logprobs", "sample"] = "logprobs"

    def __post_init__(self) -> None:
        self.queue = Queue("slalom sources", 1, self.limits.waiting)  # one thread: explainers share the model
        self._explainer = lru_cache(_KEPT)(self._made)

    def _made(self, sources: tuple[str, ...], unit: str, *_: str | None) -> ContextExplainer:
        explainer = ContextExplainer(self.model, context=sources, unit=unit, cache=self.cache, mode=self.mode, progress=False)
        if (n := len(explainer.sources.spans)) > self.limits.sources:
            most = f"{self.limits.sources:,}"
            raise InputError(f"there must be at most {most} sources; got {n:,}; choose unit 'paragraph' or 'document'")
        return explainer

    def _rounds(self, asked: ContextQuestion) -> Iterator[str | Step]:
        """Write the answer, unless it is given, and explain it in steps."""
        one_text = isinstance(asked.sources, str)
        sources, unit = (asked.sources,) if one_text else tuple(asked.sources), "sentence" if one_text else "document"
        explainer = self._explainer(sources, asked.unit or unit, asked.question, asked.answer)
        if (answer := asked.answer) is None:
            answer = explainer.answer(asked.question, lambda said: send_now(("writing", dumps({"answer": said}))))
        yield answer
        options = CallOptions(seed=asked.seed)
        if asked.queries is not None:
            options["queries"] = asked.queries
        yield from explainer.steps(asked.question, asked.answer, seconds=_STEP, **options)

    def events(self, asked: ContextQuestion) -> Iterator[tuple[str, str]]:
        for step in self._rounds(asked):
            if isinstance(step, str):
                yield "answer", dumps({"answer": step, "generated": asked.answer is None})
            else:
                yield step_event(step)

    def explained(self, asked: ContextQuestion) -> Iterator[str | None]:
        """Explain an answer, and yield the explanation at last."""
        for step in self._rounds(asked):
            e = step.explanation if isinstance(step, Step) and step.final else None
            yield None if e is None else dumps({"content": content(e), "explanation": e.to_dict(), "final": True})
