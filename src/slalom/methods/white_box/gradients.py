"""Gradients of the score F with respect to the vectors e_i (d,) that the tokens are read as.

    Gradient               the length of dF/de_i, which has no sign
    InputXGradient         sum_k e_ik dF/de_ik
    IntegratedGradients    sum_k (e_ik - b_ik) int_0^1 dF/de_ik(b + t (e - b)) dt,   which sum to F(e) - F(b)

Simonyan et al. 2014, Shrikumar et al. 2016, Sundararajan et al. 2017. F is the log odds of the target (`Head.scores`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from slalom.core.checks import whole_number
from slalom.errors import InputError, require
from slalom.methods.white_box.access import TorchMethod

if TYPE_CHECKING:
    import torch

    from slalom.methods.white_box.passes import ForwardPass

_TOKENS = 4096  # per batch: backward passes keep the activations of every layer


@final
@dataclass(frozen=True)
class Gradient(TorchMethod):
    """The length of the gradient at each token."""

    name: str = "gradient"
    summary: str = "length of the gradient at each token, without a sign"
    signed: bool = False

    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        return run.gradient(target)[1].norm(dim=1)  # type: ignore[no-any-return]


@final
@dataclass(frozen=True)
class InputXGradient(TorchMethod):
    """The vector times its gradient: what a linear model would lose if the vector were zero."""

    name: str = "input-x-gradient"
    summary: str = "token vector times its gradient"

    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        vectors, slope = run.gradient(target)
        products = vectors * slope
        sums = products.sum(dim=1)
        # Where a LayerNorm comes first, as in BLOOM, scaling a vector changes nothing.
        if bool((sums.abs() <= 1e-4 * products.abs().sum(dim=1)).all()):
            raise InputError(
                f"the sums over dimensions must not cancel; a LayerNorm of {run.model.name} makes them do;"
                " use IntegratedGradients()"
            )
        return sums


@final
@dataclass(frozen=True)
class IntegratedGradients(TorchMethod):
    """The gradient averaged over `steps` points on the straight line from a text of padding tokens, by captum (Gauss-Legendre).

    Special tokens stay as they are; without a padding token the line starts at zero vectors.
    """

    steps: int = 50

    name: str = "integrated-gradients"
    summary: str = "gradients along the way from padding, by captum"
    extra: ClassVar[str | None] = "baselines"

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 1)

    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        with require(self.name, "baselines", "captum"):
            from captum.attr import IntegratedGradients as Captum  # noqa: PLC0415
        vectors, padding = run.embeddings(), run.model.tokenizer.pad_token_id
        start = vectors.clone()
        start[:, run.atom_positions] = 0.0 if padding is None else run.embeddings(padding)
        rows = max(_TOKENS // vectors.shape[1], 1)
        integral = Captum(lambda e: run.score(e, target))
        return integral.attribute(vectors, start, n_steps=self.steps, internal_batch_size=rows)[0].sum(dim=1)  # type: ignore[no-any-return]
