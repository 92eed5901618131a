"""Classifiers of sequences of numbered words, trained from scratch on tensors that stay on the device.

transformers (BERT, DistilBERT, GPT-2; BERTs see a CLS token first)      size: the number of layers
fully connected: counts -> width ReLUs -> log odds                       size: the width
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from experiments.synthetic import LONGEST, Sequences

TRANSFORMERS = {"gpt2": "GPT-2", "distilbert": "DistilBERT", "bert": "BERT"}
NAMES = {"relu": "ReLU network", **TRANSFORMERS}
_PAD, _CLS, _FIRST = 0, 1, 2  # token ids; words come after
_AT_ONCE = 2048  # sequences asked at a time


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained: the learning rate rises over a `warmup` share of the steps and falls linearly to 0."""

    epochs: int
    batch: int
    rate: float
    hidden: int
    heads: int
    warmup: float = 0.1


class FullyConnected(torch.nn.Module):
    """F = u . relu(W c + b) + a of the counts c of the words."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(n_words, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        self.n_words = n_words

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the log odds (m,) of words (m, length)."""
        counts = torch.nn.functional.one_hot(words + 1, self.n_words + 1).sum(1)[:, 1:]
        return self.layers(counts.float())[:, 0]


class Transformer(torch.nn.Module):
    """A sequence classifier of the transformers library, with random weights."""

    def __init__(self, kind: str, layers: int, n_words: int, hidden: int, heads: int) -> None:
        super().__init__()
        given: dict[str, Any] = {"vocab_size": n_words + _FIRST, "pad_token_id": _PAD, "num_labels": 2}
        if kind == "gpt2":
            sizes = {"n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": LONGEST + 2, "use_cache": False}
            given |= {"bos_token_id": None, "eos_token_id": None}
        elif kind == "distilbert":
            sizes = {"n_layers": layers, "dim": hidden, "n_heads": heads, "hidden_dim": 4 * hidden}
            given |= {"max_position_embeddings": LONGEST + 2}
        else:
            sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
            given |= {"intermediate_size": 4 * hidden, "max_position_embeddings": LONGEST + 2}
        config = transformers.AutoConfig.for_model(kind, **given, **sizes)
        self.network = transformers.AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
        self.begins = kind != "gpt2"

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the log odds (m,) of words (m, length)."""
        ids = torch.where(words >= 0, words + _FIRST, _PAD)
        if self.begins:
            ids = torch.nn.functional.pad(ids, (1, 0), value=_CLS)
        logits = self.network(input_ids=ids, attention_mask=(ids != _PAD).long()).logits.float()
        return logits[:, 1] - logits[:, 0]


@dataclass(frozen=True)
class Classifier:
    """A trained network that answers words with log odds."""

    network: torch.nn.Module
    device: str

    @torch.no_grad()
    def __call__(self, words: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log odds (m,) of words (m, length), -1 after the end."""
        self.network.eval()
        asked = torch.from_numpy(words[:, : (words >= 0).sum(1).max()]).to(self.device)
        answers = torch.cat([self.network(part) for part in asked.split(_AT_ONCE)])
        return answers.double().cpu().numpy()


def trained(kind: str, size: int, data: Sequences, recipe: Recipe, device: str, seed: int) -> Classifier:
    """Train a network of one kind and size on labelled sequences: AdamW, cross-entropy, bfloat16 where there is a GPU."""
    torch.manual_seed(seed)
    if kind == "relu":
        network: torch.nn.Module = FullyConnected(data.n_words, size)
    else:
        network = Transformer(kind, size, data.n_words, recipe.hidden, recipe.heads)
    network = network.to(device).train()
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    words = torch.from_numpy(data.words[:, : (data.words >= 0).sum(1).max()]).to(device)
    labels = torch.from_numpy(data.labels).to(device, torch.float32)
    steps = recipe.epochs * (len(words) // recipe.batch)
    optimizer = torch.optim.AdamW(network.parameters(), recipe.rate, weight_decay=0.0, fused=on_gpu)
    rise = max(1, round(recipe.warmup * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min((done + 1) / rise, (steps - done) / max(1, steps - rise))
    )
    for _ in range(recipe.epochs):
        order = torch.randperm(len(words), device=device)
        for rows in order[: len(order) // recipe.batch * recipe.batch].split(recipe.batch):
            with torch.autocast(device.split(":", maxsplit=1)[0], torch.bfloat16, enabled=on_gpu):
                loss = binary_cross_entropy_with_logits(network(words[rows]), labels[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return Classifier(network, device)
