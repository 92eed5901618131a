"""The network itself in double precision, evaluated and differentiated by torch: the reference for the closed forms."""

from copy import deepcopy
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats
from slalom.models import Model, Target
from slalom.result import presence
from slalom.theory.attention.traces import Output, attention_classifier, check_output, read, score


@final
class Reference:
    """The score of one text and one class, without any closed form; arguments as for `trace`."""

    def __init__(self, model: Model, text: str, target: Target = None, output: Output = "log_odds") -> None:
        reading, self.target = read(model, text, target)
        classifier, tokens = attention_classifier(model, reading)
        check_output(classifier.head, output)
        self.network: Any = deepcopy(classifier.model).cpu().double().eval()
        self.ids = np.concatenate([tokens.before[0], tokens.planes[0]]).astype(np.int64)
        self.output, self.head = output, classifier.head

    def gradient(self) -> Floats:
        """Return df/de_t (T, D) of every position, by autograd."""
        import torch  # noqa: PLC0415

        e = self.network.vectors(torch.from_numpy(self.ids[None])).detach().requires_grad_()
        f = score(self.head, self.network.of_vectors(e), self.target, self.output)
        (gradient,) = torch.autograd.grad(f.sum(), e)
        return np.asarray(gradient[0].numpy())

    def __call__(self, keep: ArrayLike) -> Floats:
        """Return f (m,) for presence of words (m, n); absent words are replaced by [UNK]."""
        import torch  # noqa: PLC0415

        rows = np.atleast_2d(presence(keep, len(self.ids) - 1)).astype(bool)
        ids = np.repeat(self.ids[None], len(rows), axis=0)
        ids[:, 1:] = np.where(rows, ids[:, 1:], self.network.config.unk_token_id)
        with torch.no_grad():
            logits = np.concatenate(
                [self.network(torch.from_numpy(part)).logits.numpy() for part in np.split(ids, range(256, len(ids), 256))]
            )
        return np.asarray(score(self.head, logits, self.target, self.output))
