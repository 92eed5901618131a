"""One text through a torch classifier as a differentiable function of its token embeddings.

    F(e) = the score of a target (log odds, as `Head.scores` has them) where position i reads the vector e_i

The vectors are put in by a hook on the embedding table, so any architecture will do. Hooks, flags and gradients of the model
are as before when it is over: derivatives are taken with respect to the vectors alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

import numpy as np
import torch

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.models import Head, Model, Reading
from slalom.models.huggingface import HuggingFace, TokenReading
from slalom.models.in_place import InPlace, InPlaceReading


def scores(head: Head, logits: torch.Tensor, target: int) -> torch.Tensor:
    """Return the scores (k,) of logits (k, n_outputs): `Head.scores`, differentiable."""
    if head.kind == "score":
        return logits[:, 0] if target == len(head.labels) - 1 else -logits[:, 0]
    if head.kind == "labels" or not head.probabilistic:
        return logits[:, target]
    others = [i for i in range(logits.shape[1]) if i != target]
    return logits[:, target] - torch.logsumexp(logits[:, others], dim=1)


@final
class Pass:
    """One text on its way through a model, between `open_for_gradients` and its end.

    ids (1, planes, length): the whole input, special tokens included. own: which of its positions are the text's.
    """

    def __init__(self, model: HuggingFace, reading: TokenReading) -> None:
        self.model = model
        keep = np.ones((1, len(reading.names)), dtype=bool)
        self.ids, _ = reading.parts(keep)[0][0].make()
        ahead = reading.before.shape[1]
        self.own = slice(ahead, ahead + len(reading.names))

    @property
    def net(self) -> torch.nn.Module:
        """The torch module."""
        return self.model.model

    def logits(self, rows: int = 1) -> torch.Tensor:
        """Return the logits (rows, n_outputs) of as many copies of the input, in float32 at least."""
        return self.model.logits(np.repeat(self.ids, rows, axis=0))

    def table(self) -> torch.nn.Module:
        """Return the module that turns token ids into vectors."""
        for module in self.net.modules():  # the network itself comes first
            if hasattr(module, "get_input_embeddings"):
                return module.get_input_embeddings()  # type: ignore[no-any-return, operator]
        for module in self.net.modules():
            if isinstance(module, torch.nn.Embedding) and module.num_embeddings > self.ids[:, 0].max():
                return module
        raise InputError(f"{self.model.name} must have an embedding table (torch.nn.Embedding); choose another method")

    def embeddings(self, token: int | None = None) -> torch.Tensor:
        """Return the vectors (1, length, d) that the table gives for the input, or (1, 1, d) for one token."""
        ids = torch.from_numpy(self.ids[:, 0]).long() if token is None else torch.tensor([[token]])
        with torch.no_grad():
            return self.table()(ids.to(self.model.device)).detach()  # type: ignore[no-any-return]

    def score(self, vectors: torch.Tensor, target: int) -> torch.Tensor:
        """Return F (rows,) of vectors (rows, length, d)."""
        read, table = torch.from_numpy(self.ids[:, 0]).long().to(vectors.device), self.table()
        calls = 0

        def swap(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> torch.Tensor:
            nonlocal calls
            calls += 1
            ids = args[0] if args else kwargs["input"]
            fresh, shape = vectors.clone(), vectors.shape[:2]  # a model may change it in place
            if ids.shape == shape and bool((ids == read).all()):
                return fresh
            if ids.T.shape == shape and bool((read == ids.T).all()):
                return fresh.transpose(0, 1)  # XLNet has the batch second
            if ids.shape == shape and bool((ids[:, 1:] == read[:, :-1]).all()):
                return torch.cat([output[:, :1].detach(), fresh[:, :-1]], dim=1)  # the decoder of T5 reads one behind
            raise InputError(f"{self.model.name} reads its tokens in another order than the tokenizer; choose another method")

        # A table may be there several times with one weight, and that weight in an output layer too.
        weight = getattr(table, "weight", None)
        own = [m for m in self.net.modules() if isinstance(m, type(table)) and getattr(m, "weight", None) is weight]
        with ExitStack() as stack:
            for module in own:
                stack.callback(module.register_forward_hook(swap, with_kwargs=True).remove)
            found = scores(self.model.head, self.logits(len(vectors)), target)
        if not calls or not found.requires_grad:
            raise InputError(f"the answer of {self.model.name} must depend on its embedding table; choose another method")
        return found

    def gradient(self, target: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the vectors (length, d) of the input and dF/de at them, both in float32 at least."""
        vectors = self.embeddings().requires_grad_()
        (slope,) = torch.autograd.grad(self.score(vectors, target).sum(), vectors)
        return _wide(vectors[0].detach()), _wide(slope[0])

    def atoms(self, positions: torch.Tensor) -> Floats:
        """Return numbers (n_atoms,) from those of all positions (length,)."""
        return np.asarray(positions[self.own].detach().double().cpu().numpy())


def _wide(numbers: torch.Tensor) -> torch.Tensor:
    return numbers if numbers.dtype == torch.float64 else numbers.float()


@contextmanager
def passing(model: Model, reading: Reading, method: str) -> Iterator[Pass]:
    """Give the pass of a text, with gradients; see `access.open_for_gradients`."""
    if isinstance(model, InPlace) and isinstance(reading, InPlaceReading):  # nothing is replaced in the whole text
        model, reading = model.inner, reading.tokens
    if not isinstance(model, HuggingFace) or not isinstance(reading, TokenReading):
        raise InputError(f"{method} needs a Hugging Face model or a torch module; got {model.name}; use method 'joint'")
    if len(reading.windows) > 1:
        raise InputError(f'{method} looks at one pass, this text is read in {len(reading.windows)} windows; use long="cut"')
    with model.session(), torch.inference_mode(False), torch.enable_grad():
        yield Pass(model, reading)
