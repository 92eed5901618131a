"""The interface of adapters, which turn a classifier of some library into a `Model`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from slalom.models.base import Model

Output = Literal["logits", "probabilities", "log_odds", "scores"]


@dataclass(frozen=True, eq=False)
class ModelOptions:
    """Options that describe a model. None means that an option is not set.

    Attributes:
        tokenizer: The tokenizer of a torch module.
        output: What a callable returns.
        labels: Names of the classes, as `label_names` takes them.
        precision: "bfloat16" computes in half precision.
        device: The device to load a saved model to.
        batch_size: Strings per call.
        trust_remote_code: True lets a saved model run Python modules of its own.
        background: Rows of values that replace removed fields which are no texts.
    """

    tokenizer: Any = None
    output: Output | None = None
    labels: Iterable[object] | Mapping[Any, object] | None = None
    precision: Literal["bfloat16"] | None = None
    device: str | None = None
    batch_size: int | None = None
    trust_remote_code: bool | None = None
    background: Any = None

    def specified(self) -> tuple[str, ...]:
        """Return the names of the options that are set."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)


class Adapter(ABC):
    """Turns objects of one kind into a `Model`. Concrete adapters are final frozen dataclasses.

    Attributes:
        name: What it is called; for a plugin, the name of its entry point.
        summary: One line on what it adapts.
        kind: The objects that it adapts, in the plural, for messages: "scikit-learn classifiers".
        takes: The options that it takes, by their names in `ModelOptions`.
        extra: The optional dependencies that it needs, by the name of the extra; None where it needs none.
    """

    name: str
    summary: str
    kind: str
    takes: tuple[str, ...] = ()
    extra: str | None = None

    @abstractmethod
    def matches(self, model: object) -> bool:
        """Return whether this adapter is for an object; it must be fast and import nothing (see `instance_of`)."""

    @abstractmethod
    def adapt(self, model: Any, options: ModelOptions) -> Model:
        """Return the model of an object that matches; options that the adapter does not take are None.

        Raises:
            InputError: The object or an option cannot be used; the message says what to do.
        """


def instance_of(instance: object, package: str, name: str) -> bool:
    """Return whether an object is an instance of a class of a top-level package, by its name, without importing the package.

    Example:
        >>> from decimal import Decimal
        >>> instance_of(Decimal(1), "decimal", "Decimal"), instance_of(1.0, "decimal", "Decimal")
        (True, False)
    """
    return any(cls.__name__ == name and cls.__module__.split(".")[0] == package for cls in type(instance).__mro__)
