"""AttnLRP (Achtibat et al. 2024): the score is propagated back through the network, layer by layer, as relevance.

    linear layer          R_i = sum_j x_i w_ij R_j / (z_j + epsilon sign z_j),   z_j = sum_i x_i w_ij + b_j
    product A V           half of the relevance goes to A, half to V, each as in a linear layer
    softmax s(x)          R_i = x_i (R_i - s_i sum_j R_j),   its Taylor expansion
    normalisation         the standard deviation is a constant; what is left is linear
    gelu, tanh, ...       relevance passes unchanged

With R = x times a slope g each rule is a rule for slopes (relevance.py): one backward pass with changed slopes gives them all.

Two things are not conserved. Biases keep their share b_j / z_j of the relevance, and a softmax keeps the remainder of its
expansion: sum_i R_i is not what came in. Everything else is: with `softmax="constant"` (attention is taken as constant and the
values get all of the relevance, the rule of Ali et al. 2022) and without biases the positions sum to the score. The relevance
of a position is that of the vector that enters the network there: token, position and segment together. Of more than two
classes the log odds are taken as linear in the logits, with their slopes at this text.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.methods.base import WhiteBoxMethod
from slalom.methods.white_box.access import open_for_gradients
from slalom.models import Model, Reading


@final
@dataclass(frozen=True)
class AttnLRP(WhiteBoxMethod):
    """Relevance by the rules above, for BERT, DistilBERT and GPT-2 classifiers.

    Attributes:
        epsilon: Keeps the denominators of linear layers and products away from zero.
        softmax: "taylor" or "constant".
        name: "attnlrp".
        summary: One line.
        extra: The extra that it needs.
    """

    epsilon: float = 1e-6
    softmax: Literal["taylor", "constant"] = "taylor"

    name: str = "attnlrp"
    summary: str = "relevance propagated backwards, for BERT, DistilBERT and GPT-2"
    extra: ClassVar[str | None] = "hf"

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise InputError(f"epsilon must be at least 0; got {self.epsilon!r}")
        if self.softmax not in ("taylor", "constant"):
            raise InputError(f"softmax must be 'taylor' or 'constant'; got {self.softmax!r}")

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        with open_for_gradients(model, reading, "attnlrp") as run:
            from slalom.methods.white_box.relevance import relevance  # noqa: PLC0415

            return run.atoms(relevance(run, target, self.epsilon, self.softmax == "constant"))
