"""Labels as continuations of a prompt, in tokens.

    p(label)  =  sum over its continuations c of  p(c, and nothing longer)
    p(c)      =  product over the tokens of c of  p(token | prompt, tokens before it)

Where one continuation begins with another ("good", "good enough"), the text is read as the longest that fits, so that no
probability is counted twice: p("good" and nothing longer) = p("good") (1 - p(" enough" | "good")). The probabilities of all
labels then add up to the share of probability that falls on labels at all.

One forward pass over the prompt gives the first token of every continuation. Those with several tokens need the logits after
their earlier tokens, their stem; continuations with the same stem share it.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.models.prompts import LabelSet

Path = tuple[int, ...]


class _Step(NamedTuple):
    """A token of a continuation, and where its logits are: after the prompt (-1), or a place of a stem."""

    stem: int
    place: int
    token: int


@final
class Continuations:
    """The tokens of all labels.

    Args:
        labels: The labels.
        paths: The tokens of their continuations, by continuation.

    Attributes:
        stems: Tokens after the prompt at which further logits are needed, none the beginning of another.

    Raises:
        InputError: Continuations of two labels have the same tokens.
    """

    def __init__(self, labels: LabelSet, paths: dict[str, Path]) -> None:
        owner: dict[Path, int] = {}
        for number, spellings in enumerate(labels.continuations):
            for spelling in spellings:
                if owner.setdefault(paths[spelling], number) != number:
                    names = labels.names[owner[paths[spelling]]], labels.names[number]
                    raise InputError(f"the labels {names[0]!r} and {names[1]!r} have the same tokens; rename one of them")
        self.paths, self.owners, self.n_labels = list(owner), np.array(list(owner.values())), len(labels.names)
        stems = sorted({path[:-1] for path in self.paths if len(path) > 1}, key=lambda stem: (-len(stem), stem))
        self.stems: list[Path] = []
        for stem in stems:
            if not any(other[: len(stem)] == stem for other in self.stems):
                self.stems.append(stem)
        self.steps = [[self._step(path, j) for j in range(len(path))] for path in self.paths]
        self.longer = [self._longer(path) for path in self.paths]

    @property
    def longest(self) -> int:
        """Number of tokens of the longest stem."""
        return max(map(len, self.stems), default=0)

    def _step(self, path: Path, j: int) -> _Step:
        if j == 0:
            return _Step(-1, 0, path[0])
        stem = next(i for i, stem in enumerate(self.stems) if stem[:j] == path[:j])
        return _Step(stem, j - 1, path[j])

    def _longer(self, path: Path) -> list[int]:
        """Return the shortest continuations that begin with one and go on."""
        longer = [i for i, other in enumerate(self.paths) if len(other) > len(path) and other[: len(path)] == path]
        between = [self.paths[i] for i in longer]
        return [i for i in longer if not any(p != self.paths[i] and self.paths[i][: len(p)] == p for p in between)]

    def tokens_after_prompt(self) -> list[int]:
        """Return the first tokens of all continuations."""
        return sorted({path[0] for path in self.paths})

    def tokens_of_stems(self) -> list[list[list[int]]]:
        """Return the tokens that are wanted at each place of each stem."""
        wanted: list[list[set[int]]] = [[set() for _ in stem] for stem in self.stems]
        for steps in self.steps:
            for step in steps[1:]:
                wanted[step.stem][step.place].add(step.token)
        return [[sorted(tokens) for tokens in places] for places in wanted]

    def log_probabilities(self, first: torch.Tensor, stems: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
        """Return log p(label | prompt), (rows, labels), in float64."""
        at_first, at_stems = self.tokens_after_prompt(), self.tokens_of_stems()
        columns = []
        for steps in self.steps:
            parts = [first[:, at_first.index(steps[0].token)].double()]
            for step in steps[1:]:
                parts.append(stems[step.stem][step.place][:, at_stems[step.stem][step.place].index(step.token)].double())
            columns.append(torch.stack(parts).sum(dim=0))
        alone = []
        for column, longer in zip(columns, self.longer, strict=True):
            rest = torch.zeros_like(column)
            for i in longer:
                rest = rest + torch.exp(columns[i] - column)
            alone.append(column + torch.log1p(-rest.clamp(max=1.0 - 1e-12)) if longer else column)
        return torch.stack(
            [
                torch.logsumexp(torch.stack([alone[i] for i in np.flatnonzero(self.owners == label)]), dim=0)
                for label in range(self.n_labels)
            ],
            dim=1,
        )


def label_share(outputs: Floats) -> Floats:
    """Return the share of probability (n,) that falls on the labels, from log p(label | prompt) (n, labels)."""
    return np.asarray(np.exp(outputs).sum(axis=1))
