"""The hyper-parameters of a training run, checked."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, final

from slalom.errors import InputError

# Lopardo, Precioso & Garreau 2024: 20,000 texts for training and 5,000 for choosing the epoch, with all words known.
_DEFAULTS: dict[str, dict[str, Any]] = {
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

    With a teacher the loss is T^2 KL(teacher || student) at temperature T, plus `hard` times the cross-entropy of the labels of
    whole texts.

    Args:
        arch: Architecture of a new network: "bert", "distilbert", "gpt2", or "attention" for the one layer of
            `slalom.networks.one_layer`; `Recipe.of("attention")` has the sizes and training of its paper.
        layers: Number of layers.
        hidden: Size of the layers; of a word vector for "attention".
        heads: Attention heads per layer.
        inner: Size of the feed-forward layers, of a head for "attention". Default: four times, or half of, `hidden`.
        vocabulary: Number of word pieces, of words for "attention".
        dropout: Dropout rate.
        final: Whether "attention" has a final layer.
        init: Saved encoder or classifier to start from, in place of a new network.
        max_length: Tokens of a text that are read.
        teacher: Saved classifier to learn from, besides the labels.
        temperature: Temperature of the teacher's predictions.
        hard: Weight of the labels beside the teacher.
        crops: Share of texts cropped to a random passage, which the teacher labels.
        views: Number of different croppings, used in turn by the epochs.
        epochs: Passes over the texts.
        batch: Texts per step.
        learning_rate: Largest learning rate. Default: 5e-5 from `init`, 5e-4 for a new network.
        warmup: Share of the steps in which the learning rate rises; then it falls linearly to 0.
        constant: Keep the learning rate constant after the warm-up.
        clip: Largest norm of the gradient; None: any.
        weight_decay: Weight decay of matrices.
        validation: Share of texts held out for validation after each epoch.
        best: Keep the epoch that is best on the held-out texts, not the last one.
        half: Store the weights in half precision.
        seed: Seed of all random choices.

    Raises:
        InputError: If a value is out of range.

    Example:
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
    def of(cls, arch: str, **options: Any) -> "Recipe":
        """Return the recipe of an architecture.

        Args:
            arch: The architecture.
            **options: Values to use in place of its defaults; None: the default.

        Raises:
            InputError: If a value is out of range.
        """
        chosen = {name: value for name, value in options.items() if value is not None}
        if chosen.get("validation") == 0:
            chosen = {"best": False, **chosen}
        return cls(**{"arch": arch, **_DEFAULTS.get(arch, {}), **chosen})

    @property
    def peak(self) -> float:
        """The largest learning rate."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 5e-4 if self.init is None else 5e-5

    def to_dict(self) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return asdict(self)
