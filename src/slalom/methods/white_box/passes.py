"""One text through a torch classifier as a differentiable function of its token embeddings.

    F(e) = the score of a target (`Head.scores`) where position i reads the vector e_i

A hook on the embedding table inserts the vectors, so any architecture works. Hooks, flags and gradients of the model are
restored: derivatives are taken with respect to the vectors alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

import numpy as np
import torch

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.models import Model, Reading
from slalom.models.huggingface.model import HuggingFace, torch_classifier
from slalom.models.huggingface.reading import TokenReading


@final
class ForwardPass:
    """One text through a model, inside `forward_pass`.

    Attributes:
        model: The model.
        ids: The whole input, including special tokens, (1, planes, length).
        atom_positions: The positions of the atoms in it (n_atoms,).
    """

    def __init__(self, model: HuggingFace, reading: TokenReading) -> None:
        self.model = model
        keep = np.ones((1, len(reading.names)), dtype=bool)
        self.ids, _ = reading.groups(keep)[0].build()
        self.atom_positions = reading.places

    @property
    def network(self) -> torch.nn.Module:
        """The torch module."""
        return self.model.model

    def scores(self, logits: torch.Tensor, target: int) -> torch.Tensor:
        """Return the scores (rows,) of logits (rows, n_outputs)."""
        return self.model.head.scores(logits, target, torch.logsumexp)

    def logits(self, rows: int = 1) -> torch.Tensor:
        """Return the logits (rows, n_outputs) of copies of the input, in float32 at least."""
        return self.model.logits(np.repeat(self.ids, rows, axis=0))

    def embedding_table(self) -> torch.nn.Module:
        """Return the module that turns token ids into vectors."""
        for module in self.network.modules():  # the network itself comes first
            if hasattr(module, "get_input_embeddings"):
                return module.get_input_embeddings()  # type: ignore[no-any-return, operator]
        for module in self.network.modules():
            if isinstance(module, torch.nn.Embedding) and module.num_embeddings > self.ids[:, 0].max():
                return module
        raise InputError(f"{self.model.name} must have an embedding table (torch.nn.Embedding); choose another method")

    def embeddings(self, token: int | None = None) -> torch.Tensor:
        """Return the vectors (1, length, d) that the table gives for the input, or (1, 1, d) for one token."""
        ids = torch.from_numpy(self.ids[:, 0]).long() if token is None else torch.tensor([[token]])
        with torch.no_grad():
            return self.embedding_table()(ids.to(self.model.device)).detach()  # type: ignore[no-any-return]

    def score(self, vectors: torch.Tensor, target: int) -> torch.Tensor:
        """Return F (rows,) of vectors (rows, length, d)."""
        read, table = torch.from_numpy(self.ids[:, 0]).long().to(vectors.device), self.embedding_table()
        calls = 0

        def swap(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> torch.Tensor:
            nonlocal calls
            calls += 1
            ids = args[0] if args else kwargs["input"]
            fresh, shape = vectors.clone(), vectors.shape[:2]  # the model may change it in place
            if ids.shape == shape and bool((ids == read).all()):
                return fresh
            if ids.T.shape == shape and bool((read == ids.T).all()):
                return fresh.transpose(0, 1)  # XLNet has the batch second
            if ids.shape == shape and bool((ids[:, 1:] == read[:, :-1]).all()):
                return torch.cat([output[:, :1].detach(), fresh[:, :-1]], dim=1)  # the decoder of T5 reads one behind
            raise InputError(f"{self.model.name} reads its tokens in another order than the tokenizer; choose another method")

        # Several tables may share one weight, and an output layer may share it too.
        weight = getattr(table, "weight", None)
        tables = [m for m in self.network.modules() if isinstance(m, type(table)) and getattr(m, "weight", None) is weight]
        with ExitStack() as stack:
            for module in tables:
                stack.callback(module.register_forward_hook(swap, with_kwargs=True).remove)
            score = self.scores(self.logits(len(vectors)), target)
        if not calls or not score.requires_grad:
            raise InputError(f"the answer of {self.model.name} must depend on its embedding table; choose another method")
        return score

    def gradient(self, target: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the vectors (length, d) of the input and dF/de at them, both in float32 at least."""
        vectors = self.embeddings().requires_grad_()
        (slope,) = torch.autograd.grad(self.score(vectors, target).sum(), vectors)
        return _wide(vectors[0].detach()), _wide(slope[0])

    def atoms(self, positions: torch.Tensor) -> Floats:
        """Return the numbers of the atoms (n_atoms,), from those of all positions (length,)."""
        return np.asarray(positions[self.atom_positions].detach().double().cpu().numpy())


def _wide(numbers: torch.Tensor) -> torch.Tensor:
    return numbers if numbers.dtype == torch.float64 else numbers.float()


@contextmanager
def forward_pass(model: Model, reading: Reading, method: str) -> Iterator[ForwardPass]:
    """Prepare a model for gradients, and restore it."""
    opened = torch_classifier(model, reading, method)
    if opened is None:
        raise InputError(
            f"{method} looks inside a classifier with outputs of its own, and {model.name} is none (nor is a language model"
            " with a prompt); ask it, with a method such as 'joint'"
        )
    classifier, tokens = opened
    with classifier.session(), torch.inference_mode(False), torch.enable_grad():
        yield ForwardPass(classifier, tokens)
