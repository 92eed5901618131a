"""What an adapter is: it turns one kind of thing that people have into a `Model`.

matches(thing)           -> bool     from the names of its classes, so that nothing heavy is imported to find out
adapt(thing, options)    -> Model

An adapter declares which options it takes. The registry (`slalom.models.registry`) refuses the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from slalom.models.base import Model

Output = Literal["logits", "probabilities", "log_odds", "scores"]


@dataclass(frozen=True, eq=False)
class ModelOptions:
    """What can be said about a model besides the model itself. None stands for "not given" throughout.

    Attributes:
        tokenizer: The tokenizer of a torch module.
        output: What a callable returns.
        labels: Names of the classes, as `label_names` takes them.
        precision: "bfloat16" computes in half precision.
        device: The device to load a saved model to.
        batch_size: Strings per call.
    """

    tokenizer: Any = None
    output: Output | None = None
    labels: Iterable[object] | Mapping[Any, object] | None = None
    precision: Literal["bfloat16"] | None = None
    device: str | None = None
    batch_size: int | None = None

    def given(self) -> tuple[str, ...]:
        """Return the names of the options that are given."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)


class Adapter(ABC):
    """Turns one kind of thing into a `Model`. Concrete adapters are final frozen dataclasses.

    Attributes:
        name: What it is called; for a plugin, the name of its entry point.
        summary: One line on what it adapts.
        kind: The things that it adapts, in the plural, for messages: "scikit-learn classifiers".
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
        """Return whether this adapter is for a thing; it must be fast and import nothing (see `instance_of`).

        Args:
            model: Any object.
        """

    @abstractmethod
    def adapt(self, model: Any, options: ModelOptions) -> Model:
        """Return the model of a thing that matches.

        Args:
            model: The thing.
            options: All options; those that the adapter does not take are None.

        Raises:
            InputError: The thing or an option cannot be used; the message says what to do.
        """


def instance_of(thing: object, package: str, name: str) -> bool:
    """Return whether a thing is an instance of a class of a package, without importing the package.

    Args:
        thing: Any object.
        package: The top-level package that defines the class.
        name: The name of the class.

    Example:
        >>> from decimal import Decimal
        >>> instance_of(Decimal(1), "decimal", "Decimal"), instance_of(1.0, "decimal", "Decimal")
        (True, False)
    """
    return any(cls.__name__ == name and cls.__module__.split(".")[0] == package for cls in type(thing).__mro__)
