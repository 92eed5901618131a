"""How a classifier is trained: everything that decides what comes out, checked where it enters."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, final

from slalom.errors import InputError


@final
@dataclass(frozen=True)
class Recipe:
    """The hyper-parameters of a training run.

    A new network: arch ("bert", "distilbert" or "gpt2"), layers, hidden (size), heads, inner (size of the feed-forward layers;
    None: four times hidden), vocabulary, dropout. Or init: a saved encoder or classifier to start from, which has all of these.
    max_length: tokens of a text that are read.

    With a teacher (a saved classifier) the loss is T^2 KL(teacher || student) at temperature T, and `hard` times the
    cross-entropy of the labels of whole texts. crops: the share of texts that are shown as a random passage, which the
    teacher judges anew; views: how many such versions of the data are made, taken in turn by the epochs.

    learning_rate: at its height, after a `warmup` share of the steps; then falls linearly to 0. None: 5e-5 from `init`, 5e-4
    for a new network. validation: the share of the texts that is held out to be judged after each epoch.
    half: weights are stored in half precision.
    """

    arch: str = "bert"
    layers: int = 2
    hidden: int = 256
    heads: int = 4
    inner: int | None = None
    vocabulary: int = 8000
    dropout: float = 0.1
    init: str | None = None
    max_length: int = 512
    teacher: str | None = None
    temperature: float = 2.0
    hard: float = 0.5
    crops: float = 0.5
    views: int = 8
    epochs: int = 5
    batch: int = 32
    learning_rate: float | None = None
    warmup: float = 0.06
    weight_decay: float = 0.01
    validation: float = 0.05
    half: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, number in asdict(self).items():
            if isinstance(number, float) and not isfinite(number):
                raise InputError(f"{name} must be finite; got {number!r}")
        least: dict[str, float] = dict.fromkeys(("layers", "hidden", "heads", "views", "epochs", "batch"), 1)
        least |= {"vocabulary": 10, "max_length": 4, "seed": 0, "weight_decay": 0, "hard": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InputError(f"{name} must be at least {bound}; got {getattr(self, name)!r}")
        if self.seed >= 2**63:
            raise InputError(f"seed must be below 2**63; got {self.seed}")
        for name in ("dropout", "crops", "warmup", "validation"):
            if not 0 <= getattr(self, name) < 1 and not (name == "crops" and self.crops == 1):
                raise InputError(f"{name} must be a share from 0 to below 1; got {getattr(self, name)!r}")
        for name in ("temperature", "learning_rate", "inner"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0; got {getattr(self, name)!r}")

    @property
    def peak(self) -> float:
        """The learning rate at its height."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 5e-4 if self.init is None else 5e-5

    def to_dict(self) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return asdict(self)
