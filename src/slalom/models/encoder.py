"""The encoder of the bundled classifier in numpy: a BERT of two layers needs no deep-learning framework.

    h = LN(words + positions + type 0)
    h = LN(h + W_o attention(W_q h, W_k h, W_v h)),  h = LN(h + W_2 gelu(W_1 h))      in each layer
    logits = W_c tanh(W_p h_0)

In the last layer only the first token is needed after the attention. Inputs of a batch have one length, without padding.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Singles = NDArray[np.float32]


class _Linear(NamedTuple):
    """x W + b."""

    weight: Singles
    bias: Singles

    def __call__(self, x: Singles) -> Singles:
        y = x @ self.weight
        y += self.bias
        return y


class _Norm(NamedTuple):
    """Layer normalisation over the last axis."""

    weight: Singles
    bias: Singles
    epsilon: float

    def __call__(self, x: Singles) -> Singles:
        x = x - x.mean(axis=-1, keepdims=True)
        variance = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
        x *= self.weight / np.sqrt(variance + np.float32(self.epsilon))
        x += self.bias
        return x


class _Layer(NamedTuple):
    """Attention and a feed-forward network, each with a residual connection."""

    projected: _Linear  # queries, keys and values side by side
    output: _Linear
    after_attention: _Norm
    wide: _Linear
    narrow: _Linear
    after_wide: _Norm
    heads: int

    def __call__(self, h: Singles, first: bool) -> Singles:
        """Return the states (k, length, width) after the layer, or those of the first token (k, 1, width)."""
        k, length, width = h.shape
        q, keys, v = np.moveaxis(self.projected(h).reshape(k, length, 3, self.heads, -1), (2, 3), (0, 2))
        if first:
            q, h = q[:, :, :1], h[:, :1]
        scores = np.matmul(q, np.ascontiguousarray(np.swapaxes(keys, 2, 3)))
        scores *= np.float32(1.0 / np.sqrt(width / self.heads))
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        read = np.swapaxes(np.matmul(scores, v), 1, 2).reshape(h.shape)
        h = self.after_attention(h + self.output(read))
        return self.after_wide(h + self.narrow(_gelu(self.wide(h))))


@final
class Encoder:
    """A BERT classifier in a folder, as transformers saves it."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file  # noqa: PLC0415

        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = {name: part.astype(np.float32) for name, part in load_file(folder / "model.safetensors").items()}

        def linear(*names: str) -> _Linear:
            matrix = np.concatenate([weights[f"{name}.weight"] for name in names])
            return _Linear(np.ascontiguousarray(matrix.T), np.concatenate([weights[f"{name}.bias"] for name in names]))

        def norm(name: str) -> _Norm:
            return _Norm(weights[f"{name}.weight"], weights[f"{name}.bias"], self.config["layer_norm_eps"])

        def layer(name: str) -> _Layer:
            attention, heads = f"{name}.attention", self.config["num_attention_heads"]
            return _Layer(
                linear(*(f"{attention}.self.{part}" for part in ("query", "key", "value"))),
                linear(f"{attention}.output.dense"),
                norm(f"{attention}.output.LayerNorm"),
                linear(f"{name}.intermediate.dense"),
                linear(f"{name}.output.dense"),
                norm(f"{name}.output.LayerNorm"),
                heads,
            )

        tables = [weights[f"bert.embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")]
        self.words, self.positions = tables[0], tables[1] + tables[2][0]
        self.norm = norm("bert.embeddings.LayerNorm")
        self.layers = [layer(f"bert.encoder.layer.{i}") for i in range(self.config["num_hidden_layers"])]
        self.pooler, self.classifier = linear("bert.pooler.dense"), linear("classifier")

    def __call__(self, ids: NDArray[np.integer[Any]]) -> Singles:
        """Return the logits (k, n_labels) of token ids (k, length), special tokens included."""
        h = self.norm(self.words[ids] + self.positions[: ids.shape[1]])
        for layer in self.layers[:-1]:
            h = layer(h, first=False)
        return self.classifier(np.tanh(self.pooler(self.layers[-1](h, first=True)[:, 0])))


def _gelu(x: Singles) -> Singles:
    y = erf(x * np.float32(1.0 / np.sqrt(2.0)))
    y += 1.0
    y *= x
    y *= np.float32(0.5)
    return np.asarray(y, dtype=np.float32)
