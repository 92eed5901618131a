"""Modules around a model: PEFT adapters, torch.compile, DataParallel, DistributedDataParallel, and any of them nested.

A wrapper passes its inputs on to the model inside, which alone has the configuration and the names of the arguments. The
forward pass goes through the wrapper; everything else is read from the model inside.
"""

import inspect

import torch
from transformers import PreTrainedModel

_NAMES = ("_orig_mod", "module", "_fsdp_wrapped_module")  # torch.compile; DataParallel and similar; FSDP
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Return the innermost model; the module itself where it is not a wrapper.

    Example:
        >>> linear = torch.nn.Linear(2, 3)
        >>> unwrapped(torch.nn.DataParallel(torch.nn.DataParallel(linear))) is linear
        True
    """
    while (inside := _inside(model)) is not None:
        model = inside
    return model


def arguments(model: torch.nn.Module) -> dict[str, inspect.Parameter]:
    """Return the parameters of `forward`; a wrapper that passes on any keyword takes those of the model inside as well."""
    try:
        parameters = dict(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):  # compiled code has no signature
        return {}
    inside = _inside(model)
    if inside is None or all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return parameters
    named = {name: parameter for name, parameter in parameters.items() if parameter.kind not in _ANY_NUMBER}
    return arguments(inside) | named


def ids_by_keyword(parameters: dict[str, inspect.Parameter]) -> bool:
    """Return whether token ids are passed as `input_ids=`: they are called so, or nothing has a position."""
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return "input_ids" in parameters or (bool(parameters) and all(p.kind in by_name for p in parameters.values()))


def _inside(model: torch.nn.Module) -> torch.nn.Module | None:
    """Return the module that a wrapper passes its inputs to; None where the module is not a wrapper."""
    if isinstance(model, PreTrainedModel):
        return None
    # Wrappers forward attribute access to the model inside, so look at the children instead.
    children = dict(model.named_children())
    if any(kind.__module__.split(".")[0] == "peft" for kind in type(model).__mro__):
        return children.get("base_model", children.get("model"))
    return next((children[name] for name in _NAMES if name in children and len(children) == 1), None)
