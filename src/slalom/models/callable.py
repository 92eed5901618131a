"""Any callable that turns a list of strings into scores.

    output              what a row of the answer holds                                    becomes
    "logits"            one logit per class                                               itself
    "probabilities"     one probability per class (or, a single column, that of class 1)  its logarithm
    "log_odds"          the log odds of class 1                                           itself
    "scores"            any number, or one per class: no probability is made of it        itself

It is given strings (`slalom.models.strings`), or records of fields as tuples, dictionaries or a data frame, as they were given.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final, get_args

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, ModelError, SlalomError, did_you_mean, one_line, require
from slalom.models.adapter import Adapter, ModelOptions, Output
from slalom.models.base import Model, Reading
from slalom.models.head import Decision, Head, label_names
from slalom.models.strings import Background, RecordReading, StringReading, background_rows
from slalom.text import Record
from slalom.text.record import Row, is_missing

OUTPUTS: tuple[str, ...] = get_args(Output)
_MIN_PROBABILITY = 1e-9  # probabilities are clipped to it
_BATCH_SIZE = 256  # strings per call
# of a function of records that is given a string
_OTHER_INPUT = TypeError, KeyError, IndexError, AttributeError, ValueError, AssertionError


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
        background: What replaces removed fields of records that are no texts.

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
        decide: Callable[[Sequence[Any]], list[Decision]] | None = None,
        background: Background = Background(),  # noqa: B008  # it is never changed
    ) -> None:
        if output not in OUTPUTS:
            raise InputError(f"output must say what the callable returns, one of {', '.join(OUTPUTS)}; got {output!r}")
        self.function, self.output, self.independent = function, output, independent
        self.batch_tokens = _BATCH_SIZE if batch_size is None else whole_number("batch_size", batch_size, 1)
        self.variant = f"{output} independent" if independent else output
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.fingerprint, self.decide, self.background, self.fields = fingerprint, decide, background, background.fields
        self.head = Head("classes", ("0", "1"))  # until the first answer shows the number of columns
        names = None if labels is None else label_names(labels)
        self.takes_pairs = False
        n, self.no_strings = self._columns(names)
        self.reads_records = self.no_strings is not None or bool(background.fields)
        if self.reads_records and not background.rows:
            self.nan_advice = "where removed numbers are missing (NaN), give background=, rows of their values"
        self.empty = self.reads_records or self._takes_empty()
        expected = n if n > 1 else 2 if output != "scores" or len(names or ()) == 2 else 1
        if names is None:
            names = tuple(map(str, range(expected))) if expected > 1 else ("output",)
        if len(names) != expected:
            raise InputError(f"labels must name the {expected} classes of {self.name}; got {len(names)}")
        if len(set(names)) != len(names):
            raise InputError(f"labels must differ from each other; got {', '.join(names)}")
        self.head = Head("labels" if independent else "score" if n == 1 else "classes", names, output != "scores")

    def _columns(self, names: Sequence[str] | None) -> tuple[int, ModelError | None]:
        """Return the number of columns, and why it does not take strings.

        The columns are those of the answer to a string, or to a pair; else those of the labels.
        """
        if self.background.fields:
            return self._width(self.background.example()), None
        try:
            return self._width("a"), None
        except ModelError as error:
            if not isinstance(error.__cause__, _OTHER_INPUT) or not self._may_take_records(names):
                raise
            refused = error
        try:
            n = self._width(("a", "a"))
        except ModelError:
            return 1 if self.output == "log_odds" or names is None else len(names), refused
        self.takes_pairs = True
        return n, refused

    def _width(self, example: Any) -> int:
        return int(self.collect(self.submit([example])).shape[1])

    def _may_take_records(self, names: Sequence[str] | None) -> bool:
        return names is not None or self.output in ("log_odds", "scores")

    def _takes_empty(self) -> bool:
        try:
            return bool(np.isfinite(self.collect(self.submit([""]))).all())
        except ModelError:
            return False

    def whole_fields(self, record: Record) -> frozenset[str]:
        return self.background.whole(record)

    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> Reading:
        assert spans is not None  # it reads strings
        if not isinstance(text, Record):
            if self.background.fields:
                raise InputError(
                    f"{self.name} reads the fields {listed(self.background.fields)}; got a text: give a dictionary"
                )
            if self.no_strings is not None:
                raise self.no_strings
            return StringReading(text, spans, self.empty, self.removal)
        if not self.reads_records:
            raise InputError(
                f"{self.name} answers strings, so it takes one text; got the fields {listed(text.names)}: give several texts as"
                " a list; a function of records must fail for a string"
            )
        if self.takes_pairs and text.form != "tuple":
            raise InputError(f"{self.name} takes tuples; got the fields {listed(text.names)}: give their values as a tuple")
        self._check_fields(text)
        return RecordReading(text, spans, self.background, self.removal)

    def _check_fields(self, record: Record) -> None:
        known = self.background.fields
        for name in known:
            if name not in record.names:
                raise InputError(
                    f"the field {name!r} is missing: {self.name} reads {listed(known)}; got {listed(record.names)}"
                )
        if self.background.rows and not known:
            names = self.background.rows[0].keys()
            lacking = [field.name for field in record.fields if field.name not in names and not isinstance(field.value, str)]
            if lacking := lacking or ([] if names & set(record.names) else list(record.names)):
                near = did_you_mean(lacking[0], names)
                raise InputError(f"background lacks the field {lacking[0]!r}{near}; it has {listed(names)}", "background")
        for field in record.fields if known else ():
            if field.name not in known:
                near = did_you_mean(field.name, known)
                raise InputError(f"{self.name} does not know the field {field.name!r}{near}; it reads {listed(known)}")
            if field.name in self.background.texts and not isinstance(field.value, str):
                raise InputError(f"the field {field.name!r} of {self.name} must be a text; got {field.value!r}")

    def identity(self) -> str | None:
        return None if self.fingerprint is None else self.fingerprint()

    def decisions(self, texts: Sequence[str], outputs: Floats) -> list[Decision]:
        if self.decide is None:
            return self.head.decide(outputs)
        return self.decide(given([text.example() if isinstance(text, Record) else text for text in texts]))

    def submit(self, inputs: list[Any]) -> tuple[int, Any]:
        try:
            return len(inputs), self._asked(inputs)
        except (SlalomError, MemoryError):
            raise
        except Exception as error:
            what = "strings" if all(isinstance(one, str) for one in inputs) else "records"
            strings = what == "strings" and isinstance(error, (TypeError, AttributeError))
            advice = "; it must take a list of strings" if strings else ""
            if what == "records" and any(value != value for one in inputs for value in _values(one)):  # noqa: PLR0124  # NaN
                advice = "; removed fields that are no texts are missing (NaN): give background=, rows of their values"
            reason = f"{type(error).__name__}: {one_line(error)}{advice}"
            raise ModelError(f"{self.name} failed on {len(inputs)} {what}: {reason}") from error

    def _asked(self, inputs: list[Any]) -> Any:
        """Call the function; rows of a table that lack other values come in frames of their own, as that changes types."""
        frames: dict[tuple[bool, ...], list[int]] = {}
        for i, row in enumerate(inputs if isinstance(inputs[0], Row) or self.background.fields else ()):
            frames.setdefault(tuple(map(is_missing, row.values())), []).append(i)
        if len(frames) < 2:
            return self.function(given(inputs))
        answers = [np.asarray(self.function(given([inputs[i] for i in rows]))) for rows in frames.values()]
        return np.concatenate(answers)[np.argsort([i for rows in frames.values() for i in rows])]

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
    takes: tuple[str, ...] = ("output", "labels", "batch_size", "background")

    def matches(self, model: object) -> bool:
        return callable(model)

    def adapt(self, model: Any, options: ModelOptions) -> Model:
        if options.output is None:
            raise InputError(f"a callable needs output, what it returns: {', '.join(map(repr, OUTPUTS))}", "output")
        background = Background(rows=background_rows(options.background))
        return Function(model, options.output, options.labels, options.batch_size, background=background)


def given(inputs: Sequence[Any]) -> Any:
    """Return inputs as a callable is given them: a list of strings, tuples or dictionaries, or a data frame of rows."""
    if not inputs or not isinstance(inputs[0], Row):
        return list(inputs)
    with require("a data frame", "pandas"):
        import pandas  # noqa: PLC0415
    return pandas.DataFrame(list(inputs))


def _values(example: Any) -> Iterable[Any]:
    return example.values() if isinstance(example, Mapping) else example


def listed(names: Iterable[str]) -> str:
    """Return names of fields for a message."""
    return ", ".join(map(repr, names))
