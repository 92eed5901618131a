"""Any callable that turns a list of strings into scores.

    output              what a row of the answer holds                                    becomes
    "logits"            one logit per class                                               itself
    "probabilities"     one probability per class (or, a single column, that of class 1)  its logarithm
    "log_odds"          the log odds of class 1                                           itself
    "scores"            any number, or one per class: no probability is made of it        itself

An atom is a piece of the string; taking it away takes the white space after it along, and where that would make one word of
two, a blank is put between them. The whole text is asked as it is.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal, final, get_args

import numpy as np
import regex
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.models.model import Decision, Group, Head, Model, Reading, label_names

Output = Literal["logits", "probabilities", "log_odds", "scores"]
OUTPUTS: tuple[str, ...] = get_args(Output)
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_OPEN = regex.compile(rf"(?![{_UNSPACED}])[\p{{L}}\p{{N}}\p{{M}}_]")  # two of these side by side make one word
_LEAST = 1e-9  # probabilities are clipped to this
_BATCH = 256  # strings in one call


@final
class StringReading(Reading):
    """A text in pieces: atom i begins where its span begins and ends where the next one begins."""

    def __init__(self, text: str, spans: NDArray[np.int64], empty: bool) -> None:
        self.text, self.spans, self.cut, self.empty = text, spans, 0, empty
        self.names = tuple(text[a:b] for a, b in spans.tolist())
        self.types = np.unique(np.array(self.names, dtype=object), return_inverse=True)[1].astype(np.int64)
        starts = [0, *spans[1:, 0].tolist(), len(text)]
        self.pieces = [text[a:b] for a, b in pairwise(starts)] if len(spans) else []

    def parts(self, keep: NDArray[np.bool_]) -> list[list[Group]]:
        """Return the strings for presence of pieces (m, n_atoms)."""
        texts = [self.text if row.all() else self._joined(np.flatnonzero(row).tolist()) for row in keep]
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        return [[Group(np.arange(len(keep)), 1, lambda: (texts, keys))]]

    def _joined(self, kept: list[int]) -> str:
        """Return the pieces with these numbers as one string."""
        parts: list[str] = []
        last = -1
        for i in kept:
            if parts and i != last + 1 and _OPEN.match(parts[-1][-1]) and _OPEN.match(self.pieces[i].lstrip()[:1]):
                parts.append(" ")
            parts.append(self.pieces[i])
            last = i
        return "".join(parts).strip()


@final
class Function(Model):
    """A callable list[str] -> (n, classes).

    Args:
        function: The callable.
        output: What it returns, one of `OUTPUTS`.
        labels: Names of the classes, as `label_names` takes them. Default: their numbers.
        batch_size: Strings in one call. Default: 256.
        empty: Whether the callable may be asked about an empty string. Default: it is tried.
        independent: Whether the columns are labels that exclude nothing.
        name: What to call the model. Default: the callable's own name.
        fingerprint: Gives a name that changes whenever the answers may. It is called only where a cache needs it.
        decide: Gives the labels and probabilities of whole texts. Default: they follow from the scores.
    """

    costly_identity = True

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        output: Output,
        labels: Iterable[object] | Mapping[Any, object] | None = None,
        batch_size: int | None = None,
        empty: bool | None = None,
        independent: bool = False,
        name: str | None = None,
        fingerprint: Callable[[], str | None] | None = None,
        decide: Callable[[Sequence[str]], list[Decision]] | None = None,
    ) -> None:
        if output not in OUTPUTS:
            raise InputError(f"output must say what the callable returns, one of {', '.join(OUTPUTS)}; got {output!r}")
        self.function, self.output, self.independent = function, output, independent
        self.batch_size = _BATCH if batch_size is None else whole_number("batch_size", batch_size, 1)
        self.form = f"{output} independent" if independent else output
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.fingerprint, self.decide = fingerprint, decide
        given = None if labels is None else label_names(labels)
        self.head = Head("classes", ("0", "1"))  # until the first answer tells the number of columns
        n = self.finish(self.start(["a"])).shape[1]
        self.empty = self._takes_empty() if empty is None else empty
        probabilistic = output != "scores"
        expected = n if n > 1 else 2 if probabilistic or (given is not None and len(given) == 2) else 1
        if given is not None and len(given) != expected:
            raise InputError(f"labels must name the {expected} classes of {self.name}; got {len(given)}")
        if given is not None and len(set(given)) != len(given):
            raise InputError(f"labels must differ from each other; got {', '.join(given)}")
        named = given or (tuple(str(i) for i in range(expected)) if expected > 1 else ("output",))
        self.head = Head("labels" if independent else "score" if n == 1 else "classes", named, probabilistic)

    def _takes_empty(self) -> bool:
        """Whether an empty string gets an answer."""
        try:
            return bool(np.isfinite(self.finish(self.start([""]))).all())
        except ModelError:
            return False

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> StringReading:
        """Return the text in the pieces of its units."""
        if spans is None:
            raise InputError("a model that reads strings needs the spans of the units")
        return StringReading(text, spans, self.empty)

    def identity(self) -> str | None:
        """Return a fingerprint where there is one."""
        return None if self.fingerprint is None else self.fingerprint()

    def decisions(self, texts: Sequence[str], outputs: Floats) -> list[Decision]:
        """Return what the model decides about whole texts."""
        return self.head.decide(outputs) if self.decide is None else self.decide(texts)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Change nothing."""
        yield

    def rows(self, length: int) -> int:
        """Return how many strings go into one call."""
        return self.batch_size

    def shrink(self) -> None:
        """Halve the batches."""
        self.batch_size = max(self.batch_size // 2, 1)

    def start(self, inputs: list[str]) -> tuple[int, Any]:
        """Call the function."""
        try:
            return len(inputs), self.function(list(inputs))
        except (SlalomError, MemoryError):
            raise
        except Exception as error:
            reason = one_line(error)
            advice = "; it must take a list of strings" if isinstance(error, (TypeError, AttributeError)) else ""
            raise ModelError(
                f"{self.name} failed on {len(inputs)} strings: {type(error).__name__}: {reason}{advice}"
            ) from error

    def finish(self, started: tuple[int, Any]) -> Floats:
        """Return logits (n, classes), or log odds (n, 1)."""
        n, given = started
        try:
            answer = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{self.name} must return an array of numbers; got {type(given).__name__} ({error})") from error
        if answer.ndim == 1:
            answer = answer[:, None]
        if answer.ndim != 2 or len(answer) != n or answer.shape[1] == 0:
            raise ModelError(f"{self.name} must return one row for each of {n} strings; got shape {np.shape(given)}")
        if self.output == "log_odds":
            if answer.shape[1] != 1:
                raise ModelError(f'{self.name} must return one log odds a string for output="log_odds"; got {answer.shape}')
            return answer
        if self.output == "logits" and answer.shape[1] == 1:
            raise ModelError(f'{self.name} returned one column: for one log odds a string say output="log_odds"')
        if self.output in ("logits", "scores"):
            return answer
        return self._log_probabilities(answer)

    def _log_probabilities(self, answer: Floats) -> Floats:
        if np.isnan(answer).any() or answer.min() < -1e-6 or answer.max() > 1 + 1e-6:
            raise ModelError(
                f"{self.name} must return probabilities in [0, 1]; got {answer.min()} to {answer.max()}"
                ' (output="logits" for logits)'
            )
        if self.independent:
            clipped = answer.clip(_LEAST, 1.0 - _LEAST)
            return np.asarray(np.log(clipped) - np.log1p(-clipped))
        single = answer.shape[1] == 1
        if single:
            answer = np.hstack([1.0 - answer, answer])
        off = np.abs(answer.sum(axis=1) - 1.0)
        if off.max() > 1e-2:
            row = answer[int(off.argmax())]
            raise ModelError(f"the probabilities of {self.name} must sum to 1; got {row.sum():.4g} in a row")
        low = int((answer < _LEAST).any(axis=1).sum())
        if low:
            warnings.warn(
                f"{self.name} returned probabilities below {_LEAST:g} in {low} of {len(answer)} rows; they are clipped,"
                " so its log odds are not known there (return logits, if the model has them)",
                UserWarning,
                stacklevel=2,
            )
        logs = np.log(np.clip(answer, _LEAST, None))
        return np.asarray(logs[:, 1:] - logs[:, :1]) if single else logs
