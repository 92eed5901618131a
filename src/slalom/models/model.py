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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from slalom.core.checks import Floats
from slalom.core.surrogate import centred
from slalom.errors import InputError, ModelError

Target: TypeAlias = int | str | None


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
        if not isinstance(target, (int, str, np.integer)):
            raise InputError(f"target must be an index or a label; got {type(target).__name__}; {self._choices()}")
        if target == "all":
            if self.kind == "labels":
                raise InputError(f'target="all" needs exclusive classes, these labels are independent; {self._choices()}')
            return "all" if len(self.labels) > 2 else len(self.labels) - 1
        if isinstance(target, str) and target in self.labels:
            return self.labels.index(target)
        if isinstance(target, (int, np.integer)) and not isinstance(target, bool) and 0 <= target < len(self.labels):
            return int(target)
        raise InputError(f"target {target!r} is no class of this model; {self._choices()}")

    def _choices(self) -> str:
        shown = [f"{i} ({label})" for i, label in enumerate(self.labels[:20])]
        more = f" and {len(self.labels) - 20} more" if len(self.labels) > 20 else ""
        every = ', or "all"' if self.kind == "classes" and len(self.labels) > 2 else ""
        return f"choose one of {', '.join(shown)}{more}{every}"

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

    @abstractmethod
    def read(self, text: str, long: str, spans: NDArray[np.int64] | None) -> Reading:
        """Return a text as atoms; `spans` (n, 2) are those of the units, for a model that reads strings."""

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


def label_names(given: Sequence[object]) -> tuple[str, ...]:
    """Return class labels as strings."""
    return tuple(str(label) for label in given)
