"""What is explained: a model that answers a batch of inputs with one row of scores each.

    inputs -> outputs (n_inputs, n_outputs)

`Head` says what the outputs mean and turns them into what a surrogate is fitted to:

    head        outputs                         target                    score
    classes     logits of exclusive classes     class c                   log p_c - log(1 - p_c)
                                                "all"                     logits less their mean, one column a class
    labels      one logit a label (sigmoid)     label c                   its logit
    score       one number                                                the number

With two classes the score of class 1 is its logit less that of class 0. A callable that answers with log odds has one output
and two classes, and the score of class 0 is minus the output. A model with one logit and one label has that label alone.

A head without probabilities (a margin, a regression output) scores a class by its own output, and "all" by the outputs less
their mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from slalom.core.checks import Floats, centred
from slalom.errors import InputError, ModelError

Target: TypeAlias = int | str | None


class Decision(NamedTuple):
    """The label that it gives, and the probabilities (n_labels,) of all; None where there is none."""

    label: str | None
    probabilities: Floats | None


@dataclass(frozen=True)
class Head:
    """What the outputs of a model mean: exclusive classes, independent labels, or one number.

    probabilistic: whether the outputs stand for probabilities (logits, log odds). Margins and regression outputs do not.
    """

    kind: Literal["classes", "labels", "score"]
    labels: tuple[str, ...]
    probabilistic: bool = True

    @property
    def n_outputs(self) -> int:
        """How many columns the outputs have."""
        return 1 if self.kind == "score" else len(self.labels)

    def resolve(self, target: Target, outputs: Floats) -> int | Literal["all"]:
        """Return the index of a target given by index or label, or "all".

        Without a target it is class 1 of two classes, else the class with the highest of these outputs (n_outputs,).
        """
        if target is None:
            return 1 if len(self.labels) == 2 and self.kind != "labels" else int(np.argmax(outputs))
        if isinstance(target, str) and target == "all" and "all" not in self.labels:
            if self.kind == "labels":
                raise InputError(
                    f'target="all" needs exclusive classes, these labels are independent; {_choices(self.labels, "")}'
                )
            return "all" if len(self.labels) > 2 else len(self.labels) - 1
        every = self.kind == "classes" and len(self.labels) > 2 and "all" not in self.labels
        return class_index(self.labels, target, also=', or "all"' if every else "")

    @property
    def scale(self) -> str:
        """What the score of one target is called."""
        return "log odds" if self.probabilistic else "decision value" if len(self.labels) > 1 else "output"

    def decide(self, outputs: Floats) -> list[Decision]:
        """Return what the outputs (n, n_outputs) decide: the label with the highest, and all probabilities.

        A model with one number and one label decides nothing unless the number stands for a probability.
        """
        shares = self.probabilities(outputs)
        if self.kind == "score":
            best = (outputs[:, 0] > 0.0).astype(int) if len(self.labels) == 2 else np.zeros(len(outputs), dtype=int)
        else:
            best = outputs.argmax(axis=1)
        decided = len(self.labels) > 1 or self.probabilistic
        return [
            Decision(self.labels[k] if decided else None, None if shares is None else shares[row])
            for row, k in enumerate(best.tolist())
        ]

    def scores(self, outputs: Floats, target: int | Literal["all"]) -> Floats:
        """Return the scores (n,) of one target, or (n, n_classes) of all, for outputs (n, n_outputs)."""
        if self.kind == "score":
            return outputs[:, 0] if target == len(self.labels) - 1 else -outputs[:, 0]
        if target == "all":
            return centred(outputs)
        if self.kind == "labels":
            return outputs[:, target]
        if not self.probabilistic:
            return outputs[:, target]
        if len(self.labels) == 2:
            return np.asarray(outputs[:, target] - outputs[:, 1 - target])
        return np.asarray(outputs[:, target] - logsumexp(np.delete(outputs, target, axis=1), axis=1))

    def probabilities(self, outputs: Floats) -> Floats | None:
        """Return the probabilities (n, n_labels) that the outputs (n, n_outputs) stand for; None where they stand for none.

        Independent labels have one of their own each.

        >>> Head("score", ("no", "yes")).probabilities(np.array([[0.0], [np.log(3.0)]])).round(6).tolist()
        [[0.5, 0.5], [0.25, 0.75]]
        """
        if not self.probabilistic:
            return None
        if self.kind == "classes":
            return np.asarray(softmax(outputs, axis=1))
        if self.kind == "score" and len(self.labels) == 2:
            return np.asarray(expit(outputs * np.array([[-1.0, 1.0]])))
        return np.asarray(expit(outputs))


@dataclass(frozen=True, eq=False)
class Group:
    """Inputs of one length: which rows (k,) they answer.

    make: gives the inputs, an array (k, ...) or a list of strings, and a short name for each, equal only for equal inputs. It
    is called when their turn comes, while the model works on others.
    """

    rows: NDArray[np.int64]
    length: int
    make: Callable[[], tuple[Any, list[bytes]]]


class Reading(ABC):
    """A text as a model reads it: atoms that can be taken away, with names and character spans (n_atoms, 2).

    types (n_atoms,): equal numbers where the model sees the same thing. cut: tokens that the model cannot see.
    empty: whether the model can be asked about no atom at all.
    """

    text: str
    names: tuple[str, ...]
    spans: NDArray[np.int64]
    types: NDArray[np.int64]
    cut: int
    empty: bool

    @abstractmethod
    def parts(self, keep: NDArray[np.bool_]) -> "list[list[Group]]":
        """Return the inputs for presence of atoms (m, n_atoms): one list of groups a window; most texts have one window.

        The answer to a row is the mean over the windows that have it in a group.
        """


class Model(ABC):
    """A batch callable with what the engine must know about it. Concrete models are final."""

    head: Head
    name: str
    tokenized: bool = False
    form: str = ""  # what was done to the answers of the model, where that can be chosen
    costly_identity: bool = False  # whether `identity` is asked for only where a cache file needs it

    @abstractmethod
    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> Reading:
        """Return a text as atoms; `spans` (n, 2) are those of the units, for a model that reads strings."""

    def decisions(self, texts: Sequence[str], outputs: Floats) -> list[Decision]:
        """Return what the model decides about whole texts, given its outputs for them (n, n_outputs)."""
        return self.head.decide(outputs)

    @abstractmethod
    def identity(self) -> str | None:
        """Return a name that changes whenever the answers may; None where nothing is known about that."""

    @abstractmethod
    def session(self) -> AbstractContextManager[None]:
        """Bring the model into the state in which it is asked, and back."""

    @property
    def ahead(self) -> int:
        """How many batches are begun before the first must be finished."""
        return 1

    @abstractmethod
    def rows(self, length: int) -> int:
        """Return how many inputs of one length go into a batch."""

    @abstractmethod
    def shrink(self) -> None:
        """Halve the batches after memory ran out."""

    @abstractmethod
    def start(self, inputs: Any) -> Any:
        """Begin to answer a batch; what is returned goes to `finish`. MemoryError where the batch is too large."""

    @abstractmethod
    def finish(self, started: Any) -> NDArray[Any]:
        """Return the answers (n_inputs, n_outputs) as an array in the memory of the host."""

    def checked(self, outputs: Any, n_inputs: int) -> Floats:
        """Return answers as floats (n_inputs, n_outputs); ModelError where they are not that, or not finite."""
        answers = np.asarray(outputs, dtype=np.float64)
        if answers.shape != (n_inputs, self.head.n_outputs):
            raise ModelError(
                f"{self.name} must answer {n_inputs} inputs with an array of shape {(n_inputs, self.head.n_outputs)};"
                f" got {answers.shape}"
            )
        if not np.isfinite(answers).all():
            row = int(np.flatnonzero(~np.isfinite(answers).all(axis=1))[0])
            raise ModelError(
                f"{self.name} answered with {answers[row].tolist()} (NaN or infinite); check its weights and its precision"
            )
        return answers


def label_names(given: Iterable[object] | Mapping[Any, object]) -> tuple[str, ...]:
    """Return class labels as strings, in the order of the model's columns.

    given: a list, tuple or array of labels, or a mapping from column to label, such as ``id2label`` of a Hugging Face model.

    >>> label_names({1: "pos", 0: "neg"}), label_names([-1, 1])
    (('neg', 'pos'), ('-1', '1'))
    """
    if isinstance(given, Mapping):
        columns = {str(column): str(label) for column, label in given.items()}
        order = [str(i) for i in range(len(columns))]
        if sorted(columns) != sorted(order):
            raise InputError(
                f"labels given as a mapping must go from the columns 0 to {len(columns) - 1} to names; got the keys"
                f" {', '.join(map(repr, list(given)[:5]))}; pass a list of names in the order of the columns"
            )
        return tuple(columns[column] for column in order)
    if isinstance(given, (str, bytes, set, frozenset)) or not isinstance(given, Iterable):
        why = "a set has no order" if isinstance(given, (set, frozenset)) else f"got {type(given).__name__}"
        raise InputError(f"labels must be a list of names in the order of the model's columns; {why}")
    return tuple(str(label) for label in given)


def class_index(labels: Sequence[str], target: object, also: str = "") -> int:
    """Return the position of a class that is named by its label or by its index.

    A label comes first: of the classes -1 and 1, the target 1 is the second. Where all labels are numbers, a number is always a
    label. also: further choices, for the message.

    >>> class_index(("-1", "1"), 1), class_index(("neg", "pos"), 1)
    (1, 1)
    """
    if not isinstance(target, (str, int, float, np.generic)):
        raise InputError(f"target must be a label or an index; got {type(target).__name__}; {_choices(labels, also)}")
    if str(target) in labels:
        return labels.index(str(target))
    numbers = _numbers(labels)
    if isinstance(target, (int, float, np.number)) and not isinstance(target, bool):
        if numbers is not None and float(target) in numbers:
            return numbers.index(float(target))
        if numbers is None and isinstance(target, (int, np.integer)) and 0 <= target < len(labels):
            return int(target)
    raise InputError(f"target {target!r} is no class of this model; {_choices(labels, also)}")


def _choices(labels: Sequence[str], also: str) -> str:
    shown = [f"{i} ({label})" if _numbers(labels) is None else label for i, label in enumerate(labels[:20])]
    more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    return f"choose one of {', '.join(shown)}{more}{also}"


def _numbers(labels: Sequence[str]) -> list[float] | None:
    """Return labels as numbers; None where one is none."""
    try:
        return [float(label) for label in labels]
    except ValueError:
        return None
