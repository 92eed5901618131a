"""A teacher: a saved classifier whose predictions a student learns, also of random passages."""

from typing import final

import numpy as np
import torch

from slalom.core.checks import Floats
from slalom.errors import InputError, ModelError
from slalom.models.huggingface.saved import positions
from slalom.training.batches import encoded, logits
from slalom.training.networks import loaded_classifier

_SHORTEST = 4  # words of the shortest passage


@final
class Teacher:
    """A saved classifier that predicts texts, with its classes in the order of the student's."""

    def __init__(self, path: str, names: tuple[str, ...], max_length: int, device: torch.device) -> None:
        self.model, self.tokenizer = loaded_classifier(path, None)
        labels = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        if sorted(labels) != sorted(names):
            raise InputError(f"the teacher must have the same labels ({', '.join(names)}); it has {', '.join(labels)}")
        self.order = [labels.index(name) for name in names]
        self.max_length, self.device = min(max_length, positions(self.model) or max_length), device
        self.model.to(device).eval()

    def __call__(self, texts: list[str]) -> Floats:
        """Return the logits of texts (m, n_classes)."""
        outputs = logits(self.model, encoded(self.tokenizer, texts, self.max_length), self.device)[:, self.order]
        if not np.isfinite(outputs).all():
            raise ModelError("the teacher answers with NaN or infinity; check its weights")
        return outputs


def passage(text: str, rng: np.random.Generator) -> tuple[str, bool]:
    """Return a random passage with a log-uniform number of words, and whether it is the whole text.

    Example:
        >>> passage("one two three four five six", np.random.default_rng(1))
        ('three four five six', False)
    """
    words = text.split()
    if len(words) <= _SHORTEST:
        return text, True
    length = int(np.exp(rng.uniform(np.log(_SHORTEST), np.log(len(words)))))
    start = int(rng.integers(0, len(words) - length + 1))
    return " ".join(words[start : start + length]), False
