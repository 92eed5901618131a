"""What methods that look inside a torch model share; torch is imported on first use, not before."""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from slalom.core.checks import Floats
from slalom.errors import InputError, require
from slalom.methods.base import WhiteBoxMethod
from slalom.models import Model, Reading

if TYPE_CHECKING:
    import torch

    from slalom.methods.white_box.passes import ForwardPass


class TorchMethod(WhiteBoxMethod):
    """A method that looks inside a torch model. Subclasses implement `positions`."""

    extra: ClassVar[str | None] = "hf"

    def attribute(self, model: Model, reading: Reading, target: int, seed: int) -> Floats:
        if not model.tokenized:
            raise InputError(f"{self.name} looks inside a torch model; {model.name} only answers, so ask it (method 'joint')")
        with require(self.name, "hf"):
            from slalom.methods.white_box.passes import forward_pass  # noqa: PLC0415
        with forward_pass(model, reading, self.name) as run:
            return run.atoms(self.positions(run, target))

    @abstractmethod
    def positions(self, run: "ForwardPass", target: int) -> "torch.Tensor":
        """Return one number per position (length,), special tokens included."""
