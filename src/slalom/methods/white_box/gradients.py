"""Gradients of the score F with respect to the vectors e_i (d,) that the tokens are read as.

    Gradient               the length of dF/de_i, which has no sign,  or  mean_k dF/de_ik
    InputXGradient         sum_k e_ik dF/de_ik
    IntegratedGradients    sum_k (e_ik - b_ik) int_0^1 dF/de_ik(b + t (e - b)) dt,   which sum to F(e) - F(b)

Simonyan et al. 2014, Shrikumar et al. 2016, Sundararajan et al. 2017. F is the log odds of the target (`Head.scores`).

Two of them are zero for every text where a LayerNorm comes first, because it removes what they measure: the mean gradient
always (adding a constant to a vector changes nothing), input times gradient where no position is added before it, as in BLOOM
(scaling the vector changes nothing either). Such zeros are refused.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, require
from slalom.methods.base import WhiteBoxMethod
from slalom.methods.white_box.access import open_for_gradients
from slalom.models import Model, Reading

if TYPE_CHECKING:
    import torch

_TOKENS = 4096  # per batch: backward passes keep the activations of every layer


@final
@dataclass(frozen=True)
class Gradient(WhiteBoxMethod):
    """The gradient itself.

    Attributes:
        reduce: "l2" is its length, without a sign; "mean" its mean over the dimensions of the vector.
        signed: Whether the sign of its scores means for or against the target.
        name: "gradient".
        summary: One line.
        extra: The extra that it needs.
    """

    reduce: Literal["l2", "mean"] = "l2"
    signed: bool = field(init=False, default=False)

    name: str = "gradient"
    summary: str = "length of the gradient at each token, without a sign"
    extra: ClassVar[str | None] = "hf"

    def __post_init__(self) -> None:
        if self.reduce not in ("l2", "mean"):
            raise InputError(f"reduce must be 'l2' or 'mean'; got {self.reduce!r}")
        object.__setattr__(self, "signed", self.reduce == "mean")

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        with open_for_gradients(model, reading, "gradient") as run:
            _, slope = run.gradient(target)
            if self.reduce == "l2":
                return run.atoms(slope.norm(dim=1))
            return run.atoms(_summed(slope, model, 'Gradient(reduce="l2")') / slope.shape[1])


@final
@dataclass(frozen=True)
class InputXGradient(WhiteBoxMethod):
    """The vector times its gradient: what a linear model would lose if the vector were zero."""

    name: str = "input-x-gradient"
    summary: str = "token vector times its gradient"
    extra: ClassVar[str | None] = "hf"

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        with open_for_gradients(model, reading, "input-x-gradient") as run:
            vectors, slope = run.gradient(target)
            return run.atoms(_summed(vectors * slope, model, "IntegratedGradients()"))


@final
@dataclass(frozen=True)
class IntegratedGradients(WhiteBoxMethod):
    """The gradient averaged on the straight line from a text of padding tokens, by captum (Gauss-Legendre).

    Special tokens stay as they are; without a padding token the line starts at zero vectors.

    Attributes:
        steps: Points on the line.
        name: "integrated-gradients".
        summary: One line.
        extra: The extra that it needs.
    """

    steps: int = 50

    name: str = "integrated-gradients"
    summary: str = "gradients along the way from padding, by captum"
    extra: ClassVar[str | None] = "baselines"

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 1)

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        with open_for_gradients(model, reading, "integrated-gradients") as run:
            captum = _captum()
            vectors, padding = run.embeddings(), run.model.tokenizer.pad_token_id
            start = vectors.clone()
            start[:, run.atom_positions] = 0.0 if padding is None else run.embeddings(padding)
            rows = max(_TOKENS // vectors.shape[1], 1)
            integrals = captum(lambda e: run.score(e, target)).attribute(
                vectors, start, n_steps=self.steps, internal_batch_size=rows
            )
            return run.atoms(integrals[0].sum(dim=1))


def _summed(terms: "torch.Tensor", model: Model, instead: str) -> "torch.Tensor":
    """Return the sums over dimensions of terms (length, d); InputError where they cancel at every position."""
    sums, sizes = terms.sum(dim=1), terms.abs().sum(dim=1)
    if bool((sums.abs() <= 1e-4 * sizes).all()):
        raise InputError(f"the sums over dimensions must not cancel; a LayerNorm of {model.name} makes them do; use {instead}")
    return sums


def _captum() -> Any:
    """Return captum's class of the same name."""
    with require("integrated-gradients", "baselines", "captum"):
        from captum.attr import IntegratedGradients as Captum  # noqa: PLC0415
    return Captum
