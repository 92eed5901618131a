"""Modules around a model: PEFT adapters, torch.compile, DataParallel, DistributedDataParallel, and any of them nested.

A wrapper passes its inputs on to the model inside, which alone has the configuration and the names of the arguments. The
forward pass goes through the wrapper; everything else is read from the model inside.
"""

import inspect
from typing import Any

import torch
from transformers import PreTrainedModel

_NAMES = ("_orig_mod", "module", "_fsdp_wrapped_module")  # torch.compile; DataParallel and similar; FSDP
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Return the innermost model; the module itself where it is not a wrapper."""
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


def call(model: torch.nn.Module, parameters: dict[str, inspect.Parameter], ids: torch.Tensor, **options: Any) -> Any:
    """Return the answer to token ids, passed as `input_ids=` where they are called so or nothing has a position."""
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    if "input_ids" in parameters or (parameters and all(p.kind in by_name for p in parameters.values())):
        return model(input_ids=ids, **options)
    return model(ids, **options)


def additive_mask(model: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """Return what is added to the attention before the softmax, in the dtype of the weights, to hide some places."""
    number = next(p.dtype for p in model.parameters() if p.is_floating_point())
    return hidden.to(number) * torch.finfo(number).min


def plain_logits(answer: Any) -> Any:
    """Return the logits of an answer, in float32 at least; None where it has none."""
    logits = answer if isinstance(answer, torch.Tensor) else getattr(answer, "logits", None)
    if isinstance(logits, torch.Tensor) and logits.dtype in (torch.float16, torch.bfloat16):
        return logits.float()
    return logits


def _inside(model: torch.nn.Module) -> torch.nn.Module | None:
    """Return the module that a wrapper passes its inputs to; None where the module is not a wrapper."""
    if isinstance(model, PreTrainedModel):
        return None
    # Wrappers forward attribute access to the model inside, so look at the children instead.
    children = dict(model.named_children())
    if any(kind.__module__.split(".")[0] == "peft" for kind in type(model).__mro__):
        return children.get("base_model", children.get("model"))
    return next((children[name] for name in _NAMES if name in children and len(children) == 1), None)
