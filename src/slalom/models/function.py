"""Any callable that turns a list of strings into scores, and scikit-learn classifiers.

    output              what a row of the answer holds                                  becomes
    "logits"            one logit a class                                               itself
    "probabilities"     one probability a class (or, a single column, that of class 1)  its logarithm
    "log_odds"          the log odds of class 1                                         itself

An atom is a piece of the string; taking it away takes the white space after it along, and where that would make one word of
two, a blank is put between them. The whole text is asked as it is.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal, final

import numpy as np
import regex
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError, SlalomError
from slalom.models.model import Group, Head, Model, Reading, label_names

Output = Literal["logits", "probabilities", "log_odds"]
OUTPUTS = ("logits", "probabilities", "log_odds")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_OPEN = regex.compile(rf"(?![{_UNSPACED}])[\p{{L}}\p{{N}}\p{{M}}_]")  # two of these side by side make one word
_LEAST = 1e-9  # probabilities are clipped to this


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

    labels: names of the classes. batch: strings in one call. empty: whether the callable may be asked about an empty string;
    None tries. independent: the columns are labels that exclude nothing.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        output: Output,
        labels: Sequence[object] | None = None,
        batch: int = 256,
        empty: bool | None = None,
        independent: bool = False,
        name: str | None = None,
        fingerprint: Callable[[], str | None] | None = None,
    ) -> None:
        if output not in OUTPUTS:
            raise InputError(f"output must say what the callable returns, one of {', '.join(OUTPUTS)}; got {output!r}")
        self.function, self.output, self.batch, self.independent = function, output, batch, independent
        self.form = f"{output} independent" if independent else output
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.fingerprint = fingerprint
        self.head = Head("classes", ("0", "1"))  # until the first answer tells the number of columns
        n = self.finish(self.start(["a"])).shape[1]
        self.empty = self._takes_empty() if empty is None else empty
        given = None if labels is None else label_names(labels)
        expected = 2 if n == 1 else n
        if given is not None and len(given) != expected:
            raise InputError(f"labels must name the {expected} classes of {self.name}; got {len(given)}")
        if given is not None and len(set(given)) != len(given):
            raise InputError(f"labels must differ from each other; got {', '.join(given)}")
        named = given or tuple(str(i) for i in range(expected))
        self.head = Head("labels" if independent else "score" if n == 1 else "classes", named)

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

    @contextmanager
    def session(self) -> Iterator[None]:
        """Change nothing."""
        yield

    def rows(self, length: int) -> int:
        """Return how many strings go into one call."""
        return self.batch

    def shrink(self) -> None:
        """Halve the batches."""
        self.batch = max(self.batch // 2, 1)

    def start(self, inputs: list[str]) -> tuple[int, Any]:
        """Call the function."""
        try:
            return len(inputs), self.function(list(inputs))
        except (SlalomError, MemoryError):
            raise
        except Exception as error:
            raise ModelError(
                f"{self.name} failed on {len(inputs)} strings: {type(error).__name__}: {error}; it must take a list of strings"
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
        if self.output == "logits":
            if answer.shape[1] == 1:
                raise ModelError(f'{self.name} returned one column: for one log odds a string say output="log_odds"')
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


def scikit_learn(estimator: Any) -> Function:
    """Return the model of a fitted scikit-learn classifier or pipeline that takes strings.

    Its decision function where it has one (the log odds of a logistic regression, the margin of a linear SVM), else the
    logarithm of its probabilities.
    """
    import joblib  # noqa: PLC0415
    from sklearn.base import is_classifier  # noqa: PLC0415
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415
    from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415

    name = type(estimator).__name__
    if not is_classifier(estimator):
        raise InputError(f"{name} is no classifier; give a scikit-learn classifier or a pipeline that ends with one")
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise InputError(f"{name} is not fitted; call fit before explaining it") from error
    labels = label_names(estimator.classes_)
    decides = getattr(estimator, "decision_function", None)
    independent = np.ndim(_asked(name, estimator.predict)) == 2
    if any(key.endswith("decision_function_shape") and value == "ovo" for key, value in estimator.get_params().items()):
        decides = None  # its columns are pairs of classes
        if getattr(estimator, "predict_proba", None) is None:
            raise InputError(f'{name} decides between pairs of classes; set decision_function_shape="ovr"')
    width = 0 if decides is None else np.asarray(_asked(name, decides)).size  # columns for one string
    output: Output
    if decides is not None and width in (1, len(labels)):
        function, output = decides, "log_odds" if width == 1 else "logits"
    else:
        function, output = estimator.predict_proba, "probabilities"
    return Function(function, output, labels, 1024, None, independent, name, fingerprint=lambda: str(joblib.hash(estimator)))


def _asked(name: str, function: Callable[[list[str]], Any]) -> Any:
    """Ask about one word, to see the shape of the answer."""
    try:
        return function(["a"])
    except Exception as error:
        raise ModelError(
            f"{name} does not take strings ({type(error).__name__}: {error}); put it into a pipeline after a vectorizer"
        ) from error
