"""How a classifier is trained: everything that decides what comes out, checked where it enters."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, final

from slalom.errors import InputError

# Lopardo, Precioso & Garreau 2024: 20,000 texts to learn from and 5,000 to choose the epoch by, every word of them known.
_OWN: dict[str, dict[str, Any]] = {
    "attention": {
        "layers": 1, "hidden": 128, "heads": 6, "inner": 64, "vocabulary": 200_000, "dropout": 0.0, "max_length": 256,
        "epochs": 10, "batch": 16, "learning_rate": 1e-4, "warmup": 0.0, "constant": True, "clip": None,
        "validation": 0.2, "best": True,
    }
}  # fmt: skip


@final
@dataclass(frozen=True)
class Recipe:
    """The hyper-parameters of a training run.

    A new network: arch ("bert", "distilbert" or "gpt2"), layers, hidden (size), heads, inner (size of the feed-forward layers;
    None: four times hidden), vocabulary, dropout. Or init: a saved encoder or classifier to start from, which has all of these.
    max_length: tokens of a text that are read.

    arch "attention" is the one layer of `slalom.networks.one_layer`: hidden is the size of a word vector, inner that of a head
    (None: half of hidden), final whether there is a final layer; `Recipe.of("attention")` has the paper's sizes and training.

    With a teacher (a saved classifier) the loss is T^2 KL(teacher || student) at temperature T, and `hard` times the
    cross-entropy of the labels of whole texts. crops: the share of texts that are shown as a random passage, which the
    teacher judges anew; views: how many such versions of the data are made, taken in turn by the epochs.

    learning_rate: at its height, after a `warmup` share of the steps; then falls linearly to 0, or stays (constant). None: 5e-5
    from `init`, 5e-4 for a new network. clip: the longest gradient; None takes it as it is. validation: the share of the texts
    that is held out to be judged after each epoch. best: the epoch that did best on them is kept, not the last one.
    half: weights are stored in half precision.

    >>> Recipe.of("attention", epochs=3).heads, Recipe.of("bert", heads=None).heads
    (6, 4)
    """

    arch: str = "bert"
    layers: int = 2
    hidden: int = 256
    heads: int = 4
    inner: int | None = None
    vocabulary: int = 8000
    dropout: float = 0.1
    final: bool = True
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
    constant: bool = False
    clip: float | None = 1.0
    weight_decay: float = 0.01
    validation: float = 0.05
    best: bool = False
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
        for name in ("temperature", "learning_rate", "inner", "clip"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0; got {getattr(self, name)!r}")
        self._check_kind()

    def _check_kind(self) -> None:
        """Check what depends on the architecture and on held-out texts."""
        for name, only in (("layers", 1), ("dropout", 0.0)) if self.arch == "attention" and self.init is None else ():
            if getattr(self, name) != only:
                raise InputError(
                    f"{name} must be {only} for the architecture attention; got {getattr(self, name)!r};"
                    " Recipe.of('attention') has its settings"
                )
        if not self.final and self.arch != "attention":
            raise InputError(f"only the architecture attention can do without its final layer; got {self.arch!r}")
        if self.best and not self.validation:
            raise InputError("best needs held-out texts to choose an epoch by; give a validation share above 0")

    @classmethod
    def of(cls, arch: str, **given: Any) -> "Recipe":
        """Return the recipe of an architecture; what is None, or not given, is as the architecture wants it."""
        told = {name: part for name, part in given.items() if part is not None}
        if told.get("validation") == 0:
            told = {"best": False, **told}
        return cls(**{"arch": arch, **_OWN.get(arch, {}), **told})

    @property
    def peak(self) -> float:
        """The learning rate at its height."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 5e-4 if self.init is None else 5e-5

    def to_dict(self) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return asdict(self)
