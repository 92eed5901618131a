"""What the outputs of a model mean, and the scores that a surrogate is fitted to.

    head        outputs                           target      score
    classes     logits of exclusive classes       class c     log p_c - log(1 - p_c)
                                                  "all"       logits minus their mean, one column per class
    labels      one logit per label (sigmoid)     label c     its logit
    score       one number                                    the number

With two classes the score of class 1 is its logit minus that of class 0. A callable that returns log odds has one output and
two classes, and the score of class 0 is minus the output. A model with one logit and one label has that label alone.

A head without probabilities (a margin, a regression output) scores a class by its own output, and "all" by the outputs minus
their mean.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy.special import expit, logsumexp, softmax

from slalom.core.checks import Floats, centred
from slalom.errors import InputError, did_you_mean

Target: TypeAlias = int | str | None
Array = TypeVar("Array")  # of numpy or torch


class Decision(NamedTuple):
    """What a model decides about one text: a label or none, and the probabilities of all labels where it has them."""

    label: str | None
    probabilities: Floats | None


@dataclass(frozen=True)
class Head:
    """What the outputs of a model mean: exclusive classes, independent labels, or one number.

    Attributes:
        kind: "classes", "labels" or "score".
        labels: Names of the classes, in the order of the outputs.
        probabilistic: Whether the outputs represent probabilities (logits, log odds). Margins and regression outputs do not.
        measure: Name of the scale of the scores, where it is another one than these.
    """

    kind: Literal["classes", "labels", "score"]
    labels: tuple[str, ...]
    probabilistic: bool = True
    measure: str = ""

    @property
    def n_outputs(self) -> int:
        """Number of columns of the outputs."""
        return 1 if self.kind == "score" else len(self.labels)

    def resolve(self, target: Target, outputs: Floats) -> int | Literal["all"]:
        """Return the index of a target, or "all"; None: class 1 of two, else that with the highest output (n_outputs,)."""
        if target is None:
            return 1 if len(self.labels) == 2 and self.kind != "labels" else int(np.argmax(outputs))
        if isinstance(target, str) and target == "all" and "all" not in self.labels:
            if self.kind == "labels":
                raise InputError(
                    f'target="all" needs exclusive classes, these labels are independent; {_choices(self.labels, "")}'
                )
            return "all" if len(self.labels) > 2 else len(self.labels) - 1
        takes_all = self.kind == "classes" and len(self.labels) > 2 and "all" not in self.labels
        return class_index(self.labels, target, also=', or "all"' if takes_all else "")

    @property
    def scale(self) -> str:
        """Name of the scale of a score: "log odds", "decision value" or "output", or that of the model (`measure`)."""
        if self.measure:
            return self.measure
        return "log odds" if self.probabilistic else "decision value" if len(self.labels) > 1 else "output"

    def decide(self, outputs: Floats) -> list[Decision]:
        """Return the decisions for outputs (n, n_outputs): the label with the highest output, and all probabilities.

        A model with one number and one label makes no decision unless the number represents a probability.
        """
        shares = self.probabilities(outputs)
        best = outputs.argmax(axis=1)
        if self.kind == "score" and len(self.labels) == 2:
            best = (outputs[:, 0] > 0.0).astype(int)
        decided = len(self.labels) > 1 or self.probabilistic
        return [
            Decision(self.labels[k] if decided else None, None if shares is None else shares[row])
            for row, k in enumerate(best.tolist())
        ]

    def scores(self, outputs: Array, target: int | Literal["all"], logsumexp: Callable[[Any, int], Any] | None = None) -> Array:
        """Return the scores (n,) of one class, or (n, n_classes) of all (numpy only).

        Args:
            outputs: An array (n, n_outputs) of numpy, or of another library together with its `logsumexp`.
            logsumexp: ``logsumexp(array, axis)``, such as `torch.logsumexp`. Default: scipy's, for numpy arrays.

        Example:
            >>> Head("classes", ("a", "b", "c")).scores(np.log([[0.5, 0.25, 0.25]]), 0).round(6).tolist()
            [0.0]
        """
        columns: Any = outputs
        if self.kind == "score":
            score = columns[:, 0] if target == len(self.labels) - 1 else -columns[:, 0]
        elif target == "all":
            score = centred(columns)
        elif self.kind == "labels" or not self.probabilistic:
            score = columns[:, target]
        elif len(self.labels) == 2:
            score = columns[:, target] - columns[:, 1 - target]
        else:
            others = [i for i in range(len(self.labels)) if i != target]
            score = columns[:, target] - (logsumexp or _logsumexp)(columns[:, others], 1)
        return score  # type: ignore[no-any-return]

    def probabilities(self, outputs: Floats) -> Floats | None:
        """Return the probabilities (n, n_labels) of outputs (n, n_outputs); None where the outputs do not represent any.

        Example:
            >>> Head("score", ("no", "yes")).probabilities(np.array([[0.0], [np.log(3.0)]])).round(6).tolist()
            [[0.5, 0.5], [0.25, 0.75]]
        """
        if not self.probabilistic:
            return None
        if self.kind == "classes":
            return np.asarray(softmax(outputs, axis=1))
        both = self.kind == "score" and len(self.labels) == 2
        return np.asarray(expit(outputs * np.array([[-1.0, 1.0]]) if both else outputs))


def _logsumexp(array: Floats, axis: int) -> Floats:
    return np.asarray(logsumexp(np.ascontiguousarray(array), axis=axis))  # the order of summation depends on the layout


def label_names(labels: Iterable[object] | Mapping[Any, object]) -> tuple[str, ...]:
    """Return class labels as strings, in the order of the model's columns.

    Args:
        labels: A list, tuple or array of labels, or a mapping from column to label, such as ``id2label`` of a Hugging Face
            model.

    Example:
        >>> label_names({1: "pos", 0: "neg"}), label_names([-1, 1])
        (('neg', 'pos'), ('-1', '1'))
    """
    if isinstance(labels, Mapping):
        columns = {str(column): str(label) for column, label in labels.items()}
        order = [str(i) for i in range(len(columns))]
        if set(columns) != set(order):
            raise InputError(
                f"labels given as a mapping must go from the columns 0 to {len(columns) - 1} to names; got the keys"
                f" {', '.join(map(repr, list(labels)[:5]))}; pass a list of names in the order of the columns"
            )
        return tuple(columns[column] for column in order)
    if isinstance(labels, (str, bytes, set, frozenset)) or not isinstance(labels, Iterable):
        why = "a set has no order" if isinstance(labels, (set, frozenset)) else f"got {type(labels).__name__}"
        raise InputError(f"labels must be a list of names in the order of the model's columns; {why}")
    return tuple(str(label) for label in labels)


def class_index(labels: Sequence[str], target: object, also: str = "") -> int:
    """Return the position of a class that is given by its label or by its index.

    A label comes first: of the classes -1 and 1, the target 1 is the second. Where all labels are numbers, a number is always a
    label. `also` are further choices, for the error message.

    Example:
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
    choices = f"{_choices(labels, also)}{did_you_mean(target, labels)}"
    raise InputError(f"target {target!r} is not a class of this model; {choices}")


def _choices(labels: Sequence[str], also: str) -> str:
    shown = [f"{i} ({label})" if _numbers(labels) is None else label for i, label in enumerate(labels[:20])]
    more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    return f"choose one of {', '.join(shown)}{more}{also}"


def _numbers(labels: Sequence[str]) -> list[float] | None:
    try:
        return [float(label) for label in labels]
    except ValueError:
        return None
