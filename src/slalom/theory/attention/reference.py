"""The network itself in double precision, asked and differentiated by torch: what the closed forms are held to."""

from copy import deepcopy
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats
from slalom.models import Model, Target
from slalom.result import presence
from slalom.theory.attention.sight import Output, check_output, opened, read


@final
class Reference:
    """One text and one class, as in `slalom.theory.attention.seen`; nothing here uses a closed form."""

    def __init__(self, model: Model, text: str, target: Target = None, output: Output = "log_odds") -> None:
        reading, chosen = read(model, text, target)
        hugging, tokens = opened(model, reading)
        check_output(hugging.head, output)
        self.network: Any = deepcopy(hugging.model).cpu().double().eval()
        self.ids = np.concatenate([tokens.before[0], tokens.planes[0]]).astype(np.int64)
        self.output, self.head, self.target = output, hugging.head, chosen

    def gradient(self) -> Floats:
        """Return df/de_t (T, D) of every position, by autograd."""
        import torch  # noqa: PLC0415

        e = self.network.vectors(torch.from_numpy(self.ids[None])).detach().requires_grad_()
        logits = self.network.of_vectors(e)[0]
        if self.head.kind == "score":
            one = logits[0] if self.target == len(self.head.labels) - 1 else -logits[0]
        else:
            one = logits[self.target] - (0.0 if self.output == "logit" else logits[1 - self.target])
        (found,) = torch.autograd.grad(one, e)
        return np.asarray(found[0].numpy())

    def __call__(self, keep: ArrayLike) -> Floats:
        """Return f (m,) for presence of words (m, n); those that are away are [UNK]."""
        import torch  # noqa: PLC0415

        rows = np.atleast_2d(presence(keep, len(self.ids) - 1)).astype(bool)
        ids = np.repeat(self.ids[None], len(rows), axis=0)
        ids[:, 1:] = np.where(rows, ids[:, 1:], self.network.config.unk_token_id)
        with torch.no_grad():
            logits = np.concatenate(
                [self.network(torch.from_numpy(part)).logits.numpy() for part in np.split(ids, range(256, len(ids), 256))]
            )
        plain = self.output == "logit" and self.head.kind != "score"
        return np.asarray(logits[:, self.target]) if plain else self.head.scores(logits, self.target)
