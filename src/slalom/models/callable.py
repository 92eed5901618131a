"""Any callable that turns a list of strings into scores.

    output              what a row of the answer holds                                    becomes
    "logits"            one logit per class                                               itself
    "probabilities"     one probability per class (or, a single column, that of class 1)  its logarithm
    "log_odds"          the log odds of class 1                                           itself
    "scores"            any number, or one per class: no probability is made of it        itself

An atom is a piece of the string. Removing it removes the white space after it too; where two words would then touch, a blank
is put between them. The whole text is passed on unchanged.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any, final, get_args

import numpy as np
import regex
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.models.adapter import Adapter, ModelOptions, Output
from slalom.models.base import InputGroup, Model, Reading
from slalom.models.head import Decision, Head, label_names

OUTPUTS: tuple[str, ...] = get_args(Output)
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD_CHARACTER = regex.compile(rf"(?![{_UNSPACED}])[\p{{L}}\p{{N}}\p{{M}}_]")  # two of these side by side make one word
_MIN_PROBABILITY = 1e-9  # probabilities are clipped to it
_BATCH_SIZE = 256  # strings per call


@final
class StringReading(Reading):
    """A text in pieces, for models that read strings.

    Args:
        spans: Spans of its units, (n, 2); atom i ends where the next one begins.
        empty: Whether the model accepts an empty string.
    """

    def __init__(self, text: str, spans: NDArray[np.int64], empty: bool) -> None:
        self.text, self.spans, self.cut, self.empty = text, spans, 0, empty
        self.names = tuple(text[a:b] for a, b in spans.tolist())
        self.types = np.unique(np.array(self.names, dtype=object), return_inverse=True)[1].astype(np.int64)
        starts = [0, *spans[1:, 0].tolist(), len(text)]
        self.pieces = [text[a:b] for a, b in pairwise(starts)] if len(spans) else []

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        texts = [self.text if row.all() else self._joined(np.flatnonzero(row).tolist()) for row in keep]
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        return [InputGroup(np.arange(len(keep)), 1, lambda: (texts, keys))]

    def _joined(self, numbers: list[int]) -> str:
        parts: list[str] = []
        for before, i in pairwise([-1, *numbers]):
            piece = self.pieces[i]
            if parts and i != before + 1 and all(map(_WORD_CHARACTER.match, (parts[-1][-1], piece.lstrip()[:1]))):
                parts.append(" ")
            parts.append(piece)
        return "".join(parts).strip()


@final
class Function(Model):
    """A callable ``list[str] -> (n, n_classes)`` as a model.

    Args:
        output: What it returns: "logits", "probabilities", "log_odds" or "scores".
        labels: Names of the classes, as `label_names` takes them. Default: their numbers.
        batch_size: Strings per call. Default: 256.
        independent: Whether the columns are independent labels instead of exclusive classes.
        name: What to call the model. Default: the callable's name.
        fingerprint: Returns a string that changes whenever the answers may. It is called only where a cache needs it.
        decide: Returns the decisions about whole texts. Default: they follow from the outputs.

    Example:
        >>> model = Function(lambda texts: [text.count("!") - 1.0 for text in texts], "log_odds")
        >>> model.head.labels, model.collect(model.submit(["Stop!", "Go!!"])).tolist()
        (('0', '1'), [[0.0], [1.0]])
    """

    costly_identity = True

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        output: Output,
        labels: Iterable[object] | Mapping[Any, object] | None = None,
        batch_size: int | None = None,
        independent: bool = False,
        name: str | None = None,
        fingerprint: Callable[[], str | None] | None = None,
        decide: Callable[[Sequence[str]], list[Decision]] | None = None,
    ) -> None:
        if output not in OUTPUTS:
            raise InputError(f"output must say what the callable returns, one of {', '.join(OUTPUTS)}; got {output!r}")
        self.function, self.output, self.independent = function, output, independent
        self.batch_tokens = _BATCH_SIZE if batch_size is None else whole_number("batch_size", batch_size, 1)
        self.variant = f"{output} independent" if independent else output
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.fingerprint, self.decide = fingerprint, decide
        self.head = Head("classes", ("0", "1"))  # until the first answer shows the number of columns
        n = self.collect(self.submit(["a"])).shape[1]
        self.empty = self._takes_empty()
        names = None if labels is None else label_names(labels)
        expected = n if n > 1 else 2 if output != "scores" or len(names or ()) == 2 else 1
        if names is None:
            names = tuple(map(str, range(expected))) if expected > 1 else ("output",)
        if len(names) != expected:
            raise InputError(f"labels must name the {expected} classes of {self.name}; got {len(names)}")
        if len(set(names)) != len(names):
            raise InputError(f"labels must differ from each other; got {', '.join(names)}")
        self.head = Head("labels" if independent else "score" if n == 1 else "classes", names, output != "scores")

    def _takes_empty(self) -> bool:
        try:
            return bool(np.isfinite(self.collect(self.submit([""]))).all())
        except ModelError:
            return False

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> StringReading:
        assert spans is not None  # it reads strings
        return StringReading(text, spans, self.empty)

    def identity(self) -> str | None:
        return None if self.fingerprint is None else self.fingerprint()

    def decisions(self, texts: Sequence[str], outputs: Floats) -> list[Decision]:
        return self.head.decide(outputs) if self.decide is None else self.decide(texts)

    def submit(self, inputs: list[str]) -> tuple[int, Any]:
        try:
            return len(inputs), self.function(list(inputs))
        except (SlalomError, MemoryError):
            raise
        except Exception as error:
            advice = "; it must take a list of strings" if isinstance(error, (TypeError, AttributeError)) else ""
            reason = f"{type(error).__name__}: {one_line(error)}{advice}"
            raise ModelError(f"{self.name} failed on {len(inputs)} strings: {reason}") from error

    def collect(self, handle: tuple[int, Any]) -> Floats:
        n, returned = handle
        try:
            answer = np.asarray(returned)
            if answer.dtype.kind == "c":
                raise TypeError("complex numbers")
            answer = answer.astype(np.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            reason = f"{type(returned).__name__} ({one_line(error)})"
            raise ModelError(f"{self.name} must return an array of numbers; got {reason}") from error
        if answer.ndim == 1:
            answer = answer[:, None]
        if answer.ndim != 2 or len(answer) != n or answer.shape[1] == 0:
            raise ModelError(f"{self.name} must return one row for each of {n} strings; got shape {np.shape(returned)}")
        if self.output == "log_odds" and answer.shape[1] != 1:
            raise ModelError(f'{self.name} must return one log odds a string for output="log_odds"; got {answer.shape}')
        if self.output == "logits" and answer.shape[1] == 1:
            raise ModelError(f'{self.name} returned one column: for one log odds per string pass output="log_odds"')
        return self._log_probabilities(answer) if self.output == "probabilities" else answer

    def _log_probabilities(self, answer: Floats) -> Floats:
        if np.isnan(answer).any() or answer.min() < -1e-6 or answer.max() > 1 + 1e-6:
            raise ModelError(
                f"{self.name} must return probabilities in [0, 1]; got {answer.min()} to {answer.max()}"
                ' (output="logits" for logits)'
            )
        if self.independent:
            clipped = answer.clip(_MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
            return np.asarray(np.log(clipped) - np.log1p(-clipped))
        single = answer.shape[1] == 1
        if single:
            answer = np.hstack([1.0 - answer, answer])
        off = np.abs(answer.sum(axis=1) - 1.0)
        if off.max() > 1e-2:
            row = answer[int(off.argmax())]
            raise ModelError(f"the probabilities of {self.name} must sum to 1; got {row.sum():.4g} in a row")
        low = int((answer < _MIN_PROBABILITY).any(axis=1).sum())
        if low:
            warnings.warn(
                f"{self.name} returned probabilities below {_MIN_PROBABILITY:g} in {low} of {len(answer)} rows; they are"
                " clipped, so its log odds are not known there (return logits, if the model has them)",
                UserWarning,
                stacklevel=2,
            )
        logs = np.log(np.clip(answer, _MIN_PROBABILITY, None))
        return np.asarray(logs[:, 1:] - logs[:, :1]) if single else logs


@final
@dataclass(frozen=True)
class CallableAdapter(Adapter):
    """Any callable; the registry tries it last."""

    name: str = "callable"
    summary: str = "a function list[str] -> (n, n_classes); output= says what it returns"
    kind: str = "callables"
    takes: tuple[str, ...] = ("output", "labels", "batch_size")

    def matches(self, model: object) -> bool:
        return callable(model)

    def adapt(self, model: Any, options: ModelOptions) -> Model:
        if options.output is None:
            raise InputError(f"a callable needs output, what it returns: {', '.join(map(repr, OUTPUTS))}", "output")
        return Function(model, options.output, options.labels, options.batch_size)
