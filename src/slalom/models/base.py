"""The interface of models: a text becomes atoms, subsets of the atoms become inputs, a batch of inputs becomes outputs.

read(text)                  -> Reading     its atoms
reading.groups(keep)        -> inputs      for presence of atoms (m, n_atoms)
collect(submit(inputs))     -> outputs     (n_inputs, n_columns)
observe(outputs, target)    -> Observed    scores, and how well they are known
report(outputs)             -> Report      what a reader must know of the answers
head                        what the outputs mean (`slalom.models.head`)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed
from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError
from slalom.models.costs import Charged, about_tokens
from slalom.models.head import Decision, Head
from slalom.models.removal import Removal, check_removal, removal_name
from slalom.text import Record

PADDING = -1  # in the place of a token id
_LARGEST = 1e100  # squares of scores are summed


@dataclass(frozen=True, eq=False)
class InputGroup:
    """Inputs of equal length that belong to one text.

    Attributes:
        rows: Which rows of `keep` they answer, (k,).
        length: Their length in tokens; 1 for strings.
        build: Returns the inputs, an array (k, ...) or a list of k strings, and a key per input, equal only for equal inputs.
            The engine calls it as late as possible, while the model computes other batches.
    """

    rows: NDArray[np.int64]
    length: int
    build: Callable[[], tuple[Any, list[bytes]]]


class Reading(ABC):
    """A text as a model reads it: a sequence of atoms that can be removed. Concrete readings are final.

    Attributes:
        text: The text.
        names: The atoms as they are shown, (n_atoms,).
        spans: Where they are in the text, (n_atoms, 2).
        types: Equal numbers where the model sees the same thing, (n_atoms,).
        cut: Number of tokens that do not fit into the model.
        cut_from: " of" the fields that they are of; empty for a text.
        empty: Whether the model accepts an input without any atom.
        per_row: Inputs that a row may have, at most, where that is known.
        notes: Sentences about the text that are shown with its explanation.
    """

    text: str
    names: tuple[str, ...]
    spans: NDArray[np.int64]
    types: NDArray[np.int64]
    cut: int
    empty: bool
    cut_from: str = ""
    per_row: int = 1
    notes: tuple[str, ...] = ()

    @abstractmethod
    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        """Return the inputs for subsets of the atoms, given their presence (m, n_atoms), in groups of equal length.

        Every row is in at least one group; the answer to a row that is in several (a text read in windows) is their mean.
        """


class Report(NamedTuple):
    """What a reader must know of the answers about one text.

    Attributes:
        figures: Numbers with their names: {"label share": 0.92}.
        notes: Sentences that are shown with the explanation.
    """

    figures: Mapping[str, float]
    notes: tuple[str, ...] = ()


class Model(Charged, ABC):
    """A batch callable with the metadata that the engine needs. Concrete models are final.

    Attributes:
        head: What the outputs mean.
        name: Name of the model in messages and results.
        tokenized: Whether atoms are tokens of the model; else it reads strings, and atoms are the user's units.
        twin: The identity of another model whose answers differ by rounding, and its own identity when that was found.
        removal: How units are removed from inputs.
        reads_records: Whether it reads records of fields.
        fields: The names of these, where they are known.
        nan_advice: What to do where it answers with NaN.
        variant: A setting that changes the outputs beside the model's identity, for the cache.
        costly_identity: Whether `identity` is slow, so that it is computed only where a cache file needs it.
        batch_tokens: Tokens of a batch at most; of a model that reads strings, their number.
        batch_overhead: Tokens that could be computed in the time that a batch takes besides its inputs. Where it is positive,
            inputs of different lengths share batches: their ids (k, planes, length) are padded on the right with PADDING.
        max_in_flight: How many batches may be submitted before the first is collected.
    """

    head: Head
    name: str
    tokenized: bool = False
    twin: tuple[str, str] | None = None
    removal: Removal = "drop"
    reads_records: bool = False
    fields: tuple[str, ...] = ()
    nan_advice: str = "check its weights and its precision"
    variant: str = ""
    costly_identity: bool = False
    batch_tokens: int = 4096  # what stays in the caches of a core
    batch_overhead: int = 0

    @abstractmethod
    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> Reading:
        """Return a text as atoms.

        Args:
            long: "cut" or "window": what to do with a text that does not fit into the model.
            spans: Spans of the units, (n, 2), for a model that reads strings; None for a tokenized model.
        """

    def given_units(self, text: str, kind: str) -> NDArray[np.int64] | None:
        """Return the spans (n, 2) of units of some kind that the model knows itself; None: they follow from the text.

        Raises:
            InputError: The model has no such units.
        """
        return None

    @property
    def details(self) -> tuple[str, ...]:
        """Labels that are explained beside the first one, from the same answers; by default none."""
        return ()

    def words(self, label: str) -> tuple[str, ...]:
        """Return labels that are explained with a label, from its fit: their scores add up to its; by default none."""
        return ()

    def whole_fields(self, record: Record) -> frozenset[str]:
        """Return the names of the fields of a record that are one unit; by default none may be.

        Raises:
            InputError: The model takes one text, or a field is no text.
        """
        if not self.reads_records:
            fields = ", ".join(map(repr, record.names))
            raise InputError(f"{self.name} takes one text; got the fields {fields}: give one of them, several texts as a list")
        for field in record.fields:
            if not isinstance(field.value, str):
                raise InputError(f"the field {field.name!r} of {self.name} must be a text; got {field.value!r}")
        return frozenset()

    def removing(self, removal: Removal) -> "Model":
        """Return the same model, from whose inputs units are removed in another way.

        Raises:
            InputError: It cannot remove them so.
        """
        check_removal(removal)
        if removal == self.removal:
            return self
        other = copy(self)
        other.removal = removal
        other.variant = f"{self.variant} {removal_name(removal)}".strip()
        return other

    @property
    def n_columns(self) -> int:
        """Number of columns of the outputs: those of the head, and after them what `observe` and `report` need besides."""
        return self.head.n_outputs

    def observe(self, outputs: Floats, target: int | Literal["all"]) -> Observed:
        """Return the scores of a target from outputs (m, n_columns), and how well they are known."""
        return Observed(self.head.scores(outputs[:, : self.head.n_outputs], target))

    def report(self, outputs: Floats) -> Report:
        """Return what a reader must know of all answers about one text, (m, n_columns), that of the whole text first."""
        return Report({})

    def tokens_of(self, text: Any) -> tuple[int, int]:
        """Return about how many tokens are read and written, at most, to answer one input; for models that read strings."""
        parts = [text] if isinstance(text, str) else text.values() if isinstance(text, Mapping) else text
        return about_tokens(sum(len(str(part)) for part in parts)), 0

    def unwrap(self, reading: Reading) -> "tuple[Model, Reading]":
        """Return the model that computes, and a text as that one reads it: itself, unless it wraps another model."""
        return self, reading

    def decisions(self, texts: Sequence[str], outputs: Floats) -> list[Decision]:
        """Return what the model decides about whole texts (n,), given its outputs for them (n, n_columns)."""
        return self.head.decide(outputs[:, : self.head.n_outputs])

    @abstractmethod
    def identity(self) -> str | None:
        """Return a string that changes whenever the outputs may change; None where that is unknown."""

    def session(self) -> AbstractContextManager[None]:
        """Return a context for queries: `submit` and `collect` are called inside it."""
        return nullcontext()

    @property
    def max_in_flight(self) -> int:
        return 1

    def batch_rows(self, length: int) -> int:
        """Return how many inputs of a length in tokens (1 for strings) go into a batch."""
        return max(self.batch_tokens // max(length, 1), 1)

    def shrink(self) -> None:
        """Halve the batches after memory ran out."""
        self.batch_tokens = max(self.batch_tokens // 2, 1)

    @abstractmethod
    def submit(self, inputs: Any) -> Any:
        """Start to compute a batch, and return a handle for `collect`.

        Args:
            inputs: What `InputGroup.build` returned, or a part of it.

        Raises:
            MemoryError: The batch is too large.
        """

    @abstractmethod
    def collect(self, handle: Any) -> NDArray[Any]:
        """Return the outputs (n_inputs, n_columns) of a submitted batch, in host memory.

        Raises:
            ModelError: The computation failed.
        """

    def wait(self, handles: Sequence[Any]) -> int:
        """Return the position of the batch in flight to collect next, after waiting for it. Default: the first, the oldest."""
        return 0

    def cancel(self, handle: Any) -> None:
        """Give up a submitted batch after an error or an interruption, where the model can; it is collected all the same."""

    def checked(self, outputs: Any, n_inputs: int) -> Floats:
        """Return what `collect` returned as floats (n_inputs, n_columns).

        Raises:
            ModelError: The shape is another one, or a number is not finite or beyond 1e100.
        """
        answers = np.asarray(outputs, dtype=np.float64)
        if answers.shape != (n_inputs, self.n_columns):
            raise ModelError(
                f"{self.name} must answer {n_inputs} inputs with an array of shape {(n_inputs, self.n_columns)};"
                f" got {answers.shape}"
            )
        if not np.isfinite(answers).all():
            row = int(np.flatnonzero(~np.isfinite(answers).all(axis=1))[0])
            raise ModelError(f"{self.name} answered with {answers[row].tolist()} (NaN or infinite); {self.nan_advice}")
        if answers.size and np.abs(answers).max() > _LARGEST:
            raise ModelError(
                f"{self.name} must answer with numbers up to {_LARGEST:g}; got {np.abs(answers).max():.3g}: divide them by a"
                " constant"
            )
        return answers
