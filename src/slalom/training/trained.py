"""What a training run returns."""

from dataclasses import dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True)
class Trained:
    """A trained classifier.

    Attributes:
        path: Its folder.
        parameters: Number of parameters.
        validation: Accuracy on the held-out texts after each epoch.
        test: Accuracy on the test texts; None without any.
        test_new: Accuracy on the test texts that are not in the training data; None without any.
        repeated: Number of test texts that are in the training data.
        seconds: Training time.
    """

    path: Path
    parameters: int
    validation: tuple[float, ...]
    test: float | None
    test_new: float | None
    repeated: int
    seconds: float
