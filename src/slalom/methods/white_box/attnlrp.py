"""AttnLRP (Achtibat et al. 2024): the score is propagated back through the network, layer by layer, as relevance.

    linear layer          R_i = sum_j x_i w_ij R_j / (z_j + epsilon sign z_j),   z_j = sum_i x_i w_ij + b_j
    product A V           half of the relevance goes to A, half to V, each as in a linear layer
    softmax s(x)          R_i = x_i (R_i - s_i sum_j R_j),   its Taylor expansion
    normalisation         the standard deviation is a constant; what is left is linear
    gelu, tanh, ...       relevance passes unchanged

With R = x times a slope g each rule is a rule for slopes (relevance.py): one backward pass with changed slopes gives them all.

Two things are not conserved: biases keep their share b_j / z_j of the relevance, and a softmax the remainder of its expansion.
The relevance of a position is that of the vector that enters the network there: token, position and segment together. Of more
than two classes the log odds are taken as linear in the logits, with their slopes at this text.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from slalom.methods.white_box.access import TorchMethod

if TYPE_CHECKING:
    import torch

    from slalom.methods.white_box.passes import ForwardPass


@final
@dataclass(frozen=True)
class AttnLRP(TorchMethod):
    """Relevance by the rules above, for BERT, DistilBERT and GPT-2 classifiers."""

    name: str = "attnlrp"
    summary: str = "relevance propagated backwards, for BERT, DistilBERT and GPT-2"

    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        from slalom.methods.white_box.relevance import relevance  # noqa: PLC0415

        return relevance(run, target)
