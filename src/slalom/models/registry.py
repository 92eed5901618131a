"""From a user object to a `Model`: the first adapter that matches, ours, then plugins of other packages, callables last.

A plugin is a package with an entry point in the group ``slalom.models``: it has the adapter's name, and leads to an `Adapter`
or to a callable that returns one.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from slalom.errors import InputError, one_line
from slalom.models.adapter import Adapter, ModelOptions, Output
from slalom.models.base import Model
from slalom.models.callable import CallableAdapter
from slalom.models.huggingface.adapters import PipelineAdapter, SavedAdapter, TorchAdapter
from slalom.models.sklearn import ScikitLearnAdapter
from slalom.plugins import load_plugins, table

GROUP = "slalom.models"
BUILT_IN: tuple[Adapter, ...] = (SavedAdapter(), PipelineAdapter(), TorchAdapter(), ScikitLearnAdapter())
LAST = CallableAdapter()
_ADVICE = {"device": "move the model itself before explaining it"}


class AdapterTable(dict[str, Adapter]):
    """Adapters by name, in the order in which they are tried. Its repr is a table of what each takes and needs."""

    def __repr__(self) -> str:
        rows = [(a.name, ", ".join(a.takes) or "-", a.extra or "-", a.summary) for a in self.values()]
        return table(("adapter", "options", "extra", "what it adapts"), rows)


@cache
def adapters() -> AdapterTable:
    """Return every adapter that is installed; a plugin that cannot be used is left out with a warning.

    Example:
        >>> list(adapters())[0], list(adapters())[-1]
        ('saved', 'callable')
        >>> adapters()["callable"].takes
        ('output', 'labels', 'batch_size', 'background')
    """
    first = {adapter.name: adapter for adapter in BUILT_IN}
    last = {LAST.name: LAST}
    return AdapterTable(first | load_plugins(GROUP, Adapter, first | last) | last)  # type: ignore[type-abstract]


def model_of(
    model: Any,
    tokenizer: Any = None,
    *,
    output: Output | None = None,
    labels: Iterable[object] | Mapping[Any, object] | None = None,
    precision: Literal["bfloat16"] | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    trust_remote_code: bool = False,
    background: Any = None,
) -> Model:
    """Return the `Model` of a user object.

    Args:
        model: Anything that an adapter matches; a `Model` is returned as it is. The options are those of `ModelOptions`.

    Raises:
        InputError: No adapter matches, or the one that does does not take an option or returns something else than a Model.

    Example:
        >>> model_of(lambda texts: [len(text) - 5.0 for text in texts], output="log_odds").head.labels
        ('0', '1')
    """
    options = ModelOptions(tokenizer, output, labels, precision, device, batch_size, trust_remote_code or None, background)
    if isinstance(model, Model):
        _refuse(options.specified(), "a Model, which has its options already")
        return model
    adapter = _adapter_of(model)
    _refuse([option for option in options.specified() if option not in adapter.takes], adapter.kind)
    adapted: object = adapter.adapt(model, options)  # of a plugin, it may be anything
    if not isinstance(adapted, Model):
        raise InputError(
            f"the adapter {adapter.name!r} must return a Model; got {type(adapted).__name__}; this is a bug in its package"
        )
    return adapted


def _refuse(options: Sequence[str], kind: str) -> None:
    """Raise where options are given that a kind of model does not take."""
    if options:
        takers = [adapter.kind for adapter in adapters().values() if options[0] in adapter.takes]
        raise InputError(
            f"{options[0]}= is for {' and '.join(takers)}, not for {kind}; {_ADVICE.get(options[0], 'leave it out')}",
            options[0],
        )


def _adapter_of(model: object) -> Adapter:
    """Return the first adapter that matches; plugins are loaded only where none of ours does."""
    for adapter in BUILT_IN:
        if adapter.matches(model):
            return adapter
    for adapter in adapters().values():
        try:
            if adapter.matches(model):
                return adapter
        except Exception as error:  # plugins may raise anything
            reason = f"{type(error).__name__}: {one_line(error)}"
            warnings.warn(f"the adapter {adapter.name!r} failed: {reason}; it is left out", UserWarning, stacklevel=4)
    raise InputError(
        "model must be a Hugging Face classifier with its tokenizer, a pipeline, a path, a scikit-learn classifier or a"
        f" callable; got {type(model).__name__}; slalom.models.adapters() lists what is installed"
    )
