"""The rules of attnlrp.py as changed slopes of a backward pass. Where R = x g, they are

    linear layer          g_i = sum_j w_ij g_j z_j / (z_j + epsilon sign z_j)
    product A V           half the slope for either factor
    softmax               its own slope: x_i s_i (g_i - sum_j s_j g_j) is the rule
    normalisation         the slope with a constant standard deviation
    activation f          f(x) / x in place of f'(x)

A ReLU has these slopes already. Outputs are unchanged. Hooks on the modules and a custom attention function apply the rules
during one pass.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from transformers import (
    BertForSequenceClassification,
    DistilBertForSequenceClassification,
    GPT2ForSequenceClassification,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.pytorch_utils import Conv1D

from slalom.errors import InputError
from slalom.methods.white_box.attention import attention_implementation
from slalom.methods.white_box.passes import ForwardPass

_NAME = "slalom_attnlrp"
_EPSILON = 1e-6  # keeps the denominators of linear layers and products away from zero
_KINDS = (BertForSequenceClassification, DistilBertForSequenceClassification, GPT2ForSequenceClassification)
_PASS_THROUGH = (torch.nn.Dropout, torch.nn.Embedding, torch.nn.Identity)
Hook = Callable[[Any, Any, torch.Tensor], torch.Tensor]


def relevance(run: ForwardPass, target: int, epsilon: float = _EPSILON) -> torch.Tensor:
    """Return the relevance (length,) of every position, special tokens included."""
    net = run.network
    leaves = [module for module in net.modules() if not list(module.children())]
    hooks = [(module, hook) for module in leaves if (hook := _hook(module, epsilon)) is not None]
    first = _first(net)
    if first is None or len(hooks) < len(leaves):
        raise InputError(f"attnlrp supports BERT, DistilBERT and GPT-2 sequence classifiers; got {type(run.network).__name__}")
    entered: list[torch.Tensor] = []

    def enter(module: Any, args: tuple[torch.Tensor, ...]) -> torch.Tensor:
        entered.append(args[0].detach().requires_grad_())
        return entered[0]

    with _attention_by_rules(net, epsilon), ExitStack() as stack:
        stack.callback(first.register_forward_pre_hook(enter).remove)
        for module, hook in hooks:
            stack.callback(module.register_forward_hook(hook).remove)
        score = run.scores(run.logits(), target).sum()
    (slope,) = torch.autograd.grad(score, entered[0])
    return (entered[0].detach().double() * slope.double())[0].sum(dim=1)


def _first(net: Any) -> torch.nn.Module | None:
    """Return the module that the sum of all embeddings enters first."""
    if not isinstance(net, _KINDS):
        return None
    base: Any = net.base_model
    first: torch.nn.Module = base.drop if isinstance(net, GPT2ForSequenceClassification) else base.embeddings.LayerNorm
    return first


def _hook(module: torch.nn.Module, epsilon: float) -> Hook | None:
    """Return the rule of a module without children; None where there is none."""
    if isinstance(module, (torch.nn.Linear, Conv1D)):
        return lambda module, args, output: _stable(output, epsilon)
    if isinstance(module, torch.nn.LayerNorm):
        return _normalised
    if isinstance(module, _PASS_THROUGH):
        return lambda module, args, output: output
    return None if list(module.parameters()) else _activated


def _with_slope(value: torch.Tensor, path: torch.Tensor) -> torch.Tensor:
    """Return a value with the slopes of a path."""
    return value.detach() + (path - path.detach())


def _halved(value: torch.Tensor) -> torch.Tensor:
    return _with_slope(value, 0.5 * value)


def _stable(z: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return z with its slope times z / (z + epsilon sign z) = |z| / (|z| + epsilon)."""
    size = z.detach().abs()
    return _with_slope(z, z * (size / (size + epsilon))) if epsilon else z


def _normalised(module: Any, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    (x,) = args
    centre = x - x.mean(dim=-1, keepdim=True)
    path = centre * (centre.square().mean(dim=-1, keepdim=True) + module.eps).rsqrt().detach()
    return _with_slope(output, path if module.weight is None else path * module.weight)


def _activated(module: Any, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    (x,) = args
    return _with_slope(output, x * torch.where(x == 0, 0.0, output / x).detach())


@contextmanager
def _attention_by_rules(net: Any, epsilon: float) -> Iterator[None]:
    """Let a transformers model compute attention by the rules; the attention registry and the model are restored."""

    def attend(
        module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, scaling: float, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits = _stable(_halved(query) @ _halved(key).transpose(2, 3), epsilon) * scaling
        weights = _attention_weights(logits, module.is_causal)
        return _stable(_halved(weights) @ _halved(value), epsilon).transpose(1, 2).contiguous(), weights

    ALL_ATTENTION_FUNCTIONS[_NAME] = attend
    try:
        with attention_implementation(net, _NAME):
            yield
    finally:
        ALL_ATTENTION_FUNCTIONS.pop(_NAME)


def _attention_weights(logits: torch.Tensor, causal: bool) -> torch.Tensor:
    """Return the softmax of attention logits (..., length, length); without padding only later tokens are masked."""
    if causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(hidden, -torch.inf)
    return torch.softmax(logits, dim=-1)
