"""Causal language models of Hugging Face: log-probabilities of continuations, and greedy generation.

Rows of a batch are padded on the right. Attention looks back only, so padding changes nothing and needs no mask.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from slalom.core.checks import Floats


@final
class CausalLM:
    """A causal language model and its tokenizer.

    Args:
        model: A model with a language-modelling head, on its device.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return torch.device(next(self.model.parameters()).device)

    def log_probs(self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]) -> list[Floats]:
        """Return the log-probability of each token of a continuation, given its prompt and the tokens before it.

        Args:
            prompts: Token ids, at least one each.
            continuations: Token ids, one sequence per prompt.

        Returns:
            For each pair, one number per token of the continuation.
        """
        results: list[Floats] = []
        rows = [[*prompt, *continuation] for prompt, continuation in zip(prompts, continuations, strict=True)]
        with torch.inference_mode():
            for row, continuation in zip(rows, continuations, strict=True):
                n = len(continuation)
                ids = torch.tensor([row], device=self.device)
                logits = self.model(ids, logits_to_keep=n + 1).logits[0, :-1].float()
                chosen = torch.log_softmax(logits, dim=-1).gather(1, ids[0, len(row) - n :, None])[:, 0]
                results.append(chosen.double().cpu().numpy())
        return results

    def generate(self, prompt: Sequence[int], most: int) -> NDArray[np.int64]:
        """Return the most probable continuation, token by token, without the end-of-text token.

        Args:
            prompt: Token ids.
            most: Largest number of tokens.
        """
        ids = torch.tensor([list(prompt)], device=self.device)
        with torch.inference_mode():
            answer = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False)
        return np.asarray(answer[0, len(prompt) :].cpu().numpy())
