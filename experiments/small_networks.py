"""Small networks for the ten words of the linear data set, untrained or trained on it (appendix E.1).

P(y = 1) = 1 / (1 + exp(-F)),    F = sum_i w(t_i),    lengths Bin(30, 1/2)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from experiments.synthetic import LONGEST, linear_sequences
from experiments.vocabulary import WORDS
from slalom.theory.blank import new_classifier, word_tokenizer

_FIRST = 3  # ids before the first word: padding, unknown, start
_START = 2


@dataclass(frozen=True)
class Training:
    """How long and how fast; the learning rate rises over a tenth of the steps, then falls linearly."""

    steps: int
    rate: float
    batch: int = 50
    samples: int = 5000


class Transformer(torch.nn.Module):
    """A classifier of transformers. positions: whether it has position embeddings. start: whether a [CLS] comes first."""

    def __init__(self, arch: str, layers: int, heads: int, hidden: int, positions: bool, start: bool = False) -> None:
        super().__init__()
        tokenizer = word_tokenizer(WORDS, LONGEST + 2)
        self.network = new_classifier(arch, tokenizer, ("negative", "positive"), layers, hidden, heads, 4 * hidden, dropout=0.0)
        self.start = start
        if not positions:
            for name, parameter in self.network.named_parameters():
                if "position_embeddings" in name or "wpe" in name:
                    parameter.requires_grad_(False).zero_()

    def scaled(self, size: float) -> "Transformer":
        """Give random weights this standard deviation; the usual 0.02 makes nearly the same of all words."""
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.ndim > 1 and parameter.requires_grad:
                    parameter.normal_(0, size)
        return self

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the log odds (m,) of words (m, length) by number, -1 after the end."""
        ids = torch.where(words < 0, 0, words + _FIRST)
        if self.start:
            ids = torch.cat([torch.full_like(ids[:, :1], _START), ids], 1)
        logits = self.network(ids, attention_mask=(ids > 0).long()).logits
        return logits[:, 1] - logits[:, 0]


class OfCounts(torch.nn.Module):
    """A linear model of the counts of the words, or with a width a ReLU network."""

    def __init__(self, width: int | None) -> None:
        super().__init__()
        n = len(WORDS)
        parts = (
            [torch.nn.Linear(n, 1)]
            if width is None
            else [torch.nn.Linear(n, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)]
        )
        self.layers = torch.nn.Sequential(*parts)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the log odds (m,) of words (m, length) by number, -1 after the end."""
        counts = one_hot(words + 1, len(WORDS) + 1).sum(1)[:, 1:]
        return self.layers(counts.to(self.layers[0].weight.dtype))[:, 0]


def made(make: Callable[[], torch.nn.Module], training: Training | None, device: str, seed: int) -> torch.nn.Module:
    """Return a new network on the device, trained on linear data unless `training` is None."""
    torch.manual_seed(seed)
    network = make().to(device)
    if training is not None:
        _train(network, training, device, np.random.default_rng(seed))
    return network.eval()


def _train(network: torch.nn.Module, training: Training, device: str, generator: np.random.Generator) -> None:
    data = linear_sequences(training.samples, generator)
    words, wanted = torch.from_numpy(data.words).to(device), torch.from_numpy(data.labels).float().to(device)
    chosen = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(chosen, training.rate)
    rise = training.steps / 10
    slope = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rise, (training.steps - step) / (training.steps - rise))
    )
    on_gpu = device.startswith("cuda")
    for rows in torch.randint(len(words), (training.steps, training.batch), device=device):
        with torch.autocast("cuda" if on_gpu else "cpu", torch.bfloat16, enabled=on_gpu):
            scores = network(words[rows])
        loss = binary_cross_entropy_with_logits(scores.float(), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(chosen, 1.0)
        optimizer.step()
        slope.step()


@torch.no_grad()
def answers(network: torch.nn.Module, sequences: Iterable[Sequence[int]], device: str) -> NDArray[Any]:
    """Return the log odds of sequences of words by number; those of one length go through together, without padding."""
    given = list(sequences)
    scores = np.empty(len(given))
    for length in {len(one) for one in given}:
        own = [i for i, one in enumerate(given) if len(one) == length]
        scores[own] = network(torch.tensor([given[i] for i in own], device=device)).double().cpu().numpy()
    return scores
