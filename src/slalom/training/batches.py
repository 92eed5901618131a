"""Texts as token ids, in batches of similar length, and the logits of a classifier."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from slalom.core.checks import Floats

_POOL = 50  # shuffled texts are sorted by length within pools of this many batches


@final
@dataclass(frozen=True, eq=False)
class Encoded:
    """Token ids of texts, concatenated.

    Attributes:
        ids: Token ids of all texts; text i has ids[ends[i] : ends[i + 1]].
        ends: Offsets (m + 1,).
        padding: Id of the padding token.
    """

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]
    padding: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text (m,)."""
        return np.diff(self.ends)

    def inputs(self, rows: NDArray[np.int64], device: torch.device) -> dict[str, torch.Tensor]:
        """Return padded ids and attention mask of the texts in `rows`."""
        lengths = self.lengths[rows]
        width = -(-int(lengths.max()) // 8) * 8 if device.type == "cuda" else int(lengths.max())
        present = np.arange(width) < lengths[:, None]
        ids = np.full((len(rows), width), self.padding, dtype=np.int64)
        ids[present] = np.concatenate([self.ids[self.ends[i] : self.ends[i + 1]] for i in rows])
        tensors = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(present.astype(np.int64))}
        return {
            name: t.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else t for name, t in tensors.items()
        }


def encoded(tokenizer: Any, texts: Sequence[str], max_length: int) -> Encoded:
    """Return texts as token ids, truncated to a length."""
    parts: list[NDArray[np.int32]] = []
    for start in range(0, len(texts), 1000):
        chunk = tokenizer(
            list(texts[start : start + 1000]), truncation=True, max_length=max_length, return_attention_mask=False
        )
        # A decoder's text may have no token at all; it gets a padding token.
        parts += [np.array(ids or [tokenizer.pad_token_id], dtype=np.int32) for ids in chunk["input_ids"]]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Encoded(np.concatenate(parts) if parts else np.zeros(0, np.int32), ends, tokenizer.pad_token_id)


def shuffled(lengths: NDArray[np.int64], batch: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Return all rows in random batches of texts of similar length."""
    order = rng.permutation(len(lengths))
    pools = [order[i : i + _POOL * batch] for i in range(0, len(order), _POOL * batch)]
    ordered = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    cut = [ordered[i : i + batch] for i in range(0, len(ordered), batch)]
    return [cut[i] for i in rng.permutation(len(cut))]


@torch.inference_mode()
def logits(model: Any, texts: Encoded, device: torch.device, exact: bool = False) -> Floats:
    """Return the logits of each text (m, n_classes); exact: in the precision of the weights."""
    was_training = model.training
    model.eval()
    order = np.argsort(texts.lengths, kind="stable")
    answers: list[tuple[NDArray[np.int64], torch.Tensor]] = []
    for rows in _filled(order, texts.lengths, 65_536 if device.type == "cuda" else 8192):
        with autocast(device, not exact):
            answers.append((rows, model(**texts.inputs(rows, device)).logits.float()))
    model.train(was_training)
    outputs = np.empty((len(order), model.config.num_labels))
    for rows, answer in answers:
        outputs[rows] = answer.cpu().numpy()
    return outputs


def autocast(device: torch.device, enabled: bool = True) -> Any:
    """Use bfloat16 on a GPU; full precision elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled and device.type == "cuda")


def _filled(order: NDArray[np.int64], lengths: NDArray[np.int64], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Cut rows, sorted by length, into batches of at most `tokens` tokens."""
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * lengths[order[stop]] <= tokens:
            stop += 1
        yield order[start:stop]
        start = stop
