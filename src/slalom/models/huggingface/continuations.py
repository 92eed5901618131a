"""Labels as continuations of a prompt, in tokens.

    p(label)  =  sum over its continuations c of  p(c, and nothing longer)
    p(c)      =  product over the tokens of c of  p(token | prompt, tokens before it)

Where one continuation begins with another ("good", "good enough"), the text is read as the longest that fits, so that no
probability is counted twice: p("good" and nothing longer) = p("good") (1 - p(" enough" | "good")). The probabilities of all
labels then add up to the share of probability that falls on labels at all.
"""

from typing import final

import numpy as np
import torch

from slalom.errors import InputError
from slalom.models.prompts import LabelSet

Path = tuple[int, ...]


@final
class Continuations:
    """The tokens of all labels.

    Args:
        labels: The labels.
        paths: The tokens of their continuations, by continuation.
    """

    def __init__(self, labels: LabelSet, paths: dict[str, Path]) -> None:
        owner: dict[Path, int] = {}
        for number, spellings in enumerate(labels.continuations):
            for spelling in spellings:
                if owner.setdefault(paths[spelling], number) != number:
                    names = labels.names[owner[paths[spelling]]], labels.names[number]
                    raise InputError(f"the labels {names[0]!r} and {names[1]!r} have the same tokens; rename one of them")
        self.paths, self.owners, self.n_labels = list(owner), np.array(list(owner.values())), len(labels.names)
        self.longer = [self._longer(path) for path in self.paths]

    @property
    def longest(self) -> int:
        """Number of tokens after the prompt that the model reads, at most."""
        return max(map(len, self.paths)) - 1

    def _longer(self, path: Path) -> list[int]:
        """Return the shortest continuations that begin with one and go on."""
        longer = {i: p for i, p in enumerate(self.paths) if len(p) > len(path) and p[: len(path)] == path}
        return [i for i, p in longer.items() if not any(q != p and p[: len(q)] == q for q in longer.values())]

    def log_probabilities(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return log p(label | prompt), (rows, labels), in float64, from those of all tokens of all paths (rows, tokens)."""
        paths = torch.split(tokens.double(), [len(path) for path in self.paths], dim=1)
        columns = [path.sum(dim=1) for path in paths]
        alone = []
        for column, longer in zip(columns, self.longer, strict=True):
            rest = sum((torch.exp(columns[i] - column) for i in longer), torch.zeros_like(column))
            alone.append(column + torch.log1p(-rest.clamp(max=1.0 - 1e-12)))
        labels = [[alone[i] for i in np.flatnonzero(self.owners == label)] for label in range(self.n_labels)]
        return torch.stack([torch.logsumexp(torch.stack(spellings), dim=0) for spellings in labels], dim=1)
