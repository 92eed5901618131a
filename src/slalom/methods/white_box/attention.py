"""Attention as an explanation: how much the position that the classifier reads attends to each token.

    AttentionMean       mean over layers l and heads h of A_lh[r, i]
    AttentionRollout    row r of (A_L / 2 + I / 2) ... (A_1 / 2 + I / 2),   A_l the mean over heads

Rollout is that of Abnar & Zuidema 2020; the identity represents the residual connections. The reading position r is the last
token of a decoder (where no position looks ahead), else the tokenizer's [CLS] wherever it stands, else the first position.
Attention has no sign and does not depend on the target.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from slalom.errors import InputError
from slalom.methods.white_box.access import TorchMethod

if TYPE_CHECKING:
    import torch

    from slalom.methods.white_box.passes import ForwardPass


@final
@dataclass(frozen=True)
class AttentionMean(TorchMethod):
    """The mean attention over layers and heads."""

    name: str = "attention"
    summary: str = "mean attention over layers and heads, without a sign"
    signed: bool = False
    needs: ClassVar[tuple[str, ...]] = ("attention",)

    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        maps = _attention_maps(run, self.name)
        return maps.mean(dim=0)[_reading_position(run, maps)]


@final
@dataclass(frozen=True)
class AttentionRollout(TorchMethod):
    """Attention followed through the layers down to the tokens."""

    name: str = "rollout"
    summary: str = "attention followed through the layers, without a sign"
    signed: bool = False
    needs: ClassVar[tuple[str, ...]] = ("attention",)

    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        maps = _attention_maps(run, self.name)
        row = maps.new_zeros(maps.shape[1])
        row[_reading_position(run, maps)] = 1.0
        for layer in maps.flip(0):
            row = 0.5 * row @ layer + 0.5 * row
        return row


def _attention_maps(run: "ForwardPass", method: str) -> "torch.Tensor":
    """Return the attention (layers, length, length) of a text, its mean over the heads."""
    import torch  # noqa: PLC0415
    from transformers import PreTrainedModel  # noqa: PLC0415

    refusal = InputError(
        f"{method} needs a transformers classifier with one stack of attention layers; got {type(run.network).__name__}"
    )
    if not isinstance(run.network, PreTrainedModel):
        raise refusal
    caught: list[Any] = []

    def ask(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "output_attentions": True, "return_dict": True}

    def catch(module: Any, args: Any, output: Any) -> None:
        caught.append(getattr(output, "attentions", None))

    network = run.network
    with attention_implementation(network, "eager"), _hooks_removed(network), ExitStack() as stack, torch.no_grad():
        stack.callback(network.register_forward_pre_hook(ask, with_kwargs=True).remove)
        stack.callback(network.register_forward_hook(catch).remove)
        run.logits()
    length = run.ids.shape[2]
    if not caught or not caught[0] or any(a is None or a.shape[-2:] != (length, length) for a in caught[0]):
        raise refusal
    return torch.stack([layer[0].double().mean(dim=0) for layer in caught[0]])


def _reading_position(run: "ForwardPass", maps: "torch.Tensor") -> int:
    """Return the position that the classifier reads."""
    last = maps.shape[1] - 1
    if not maps.triu(1).any():
        return last
    special = run.model.tokenizer.cls_token_id
    outside = sorted(set(range(last + 1)) - set(run.atom_positions.tolist()))
    return next((i for i in outside if run.ids[0, 0, i] == special), 0)


@contextmanager
def _hooks_removed(net: Any) -> Iterator[None]:
    """Remove the hooks that transformers leaves in a model after returning its attention."""
    flag = "_output_capturing_hooks_installed"
    before = [(module, set(module._forward_hooks), flag in module.__dict__) for module in net.modules()]
    try:
        yield
    finally:
        for module, hooks, flagged in before:
            for key in set(module._forward_hooks) - hooks:
                del module._forward_hooks[key]
            if not flagged:
                module.__dict__.pop(flag, None)


@contextmanager
def attention_implementation(net: Any, name: str) -> Iterator[None]:
    """Switch a transformers model to an implementation of attention, and back."""
    configs = {id(m.config): m.config for m in net.modules() if hasattr(m, "set_attn_implementation")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    try:
        if any(was != name for _, was in before):
            net.set_attn_implementation(name)
        yield
    finally:
        for config, was in before:
            if config._attn_implementation != was:
                config._attn_implementation = was
