"""Proposition 5.1 as code: a transformer whose log odds are a SLALOM.

    h(t) = (e s, -e s, e v, -e v, 0, 0, 1, -1)          the embedding of a word, s and v scaled to at most 1
    q = sqrt(d) / e,  k(t) = e s(t),  v(t) = e v(t)     every head of every layer: softmax(q k / sqrt(d)) = softmax(s)
    h += (0, 0, 0, 0, e F / (layers heads), -..., 0, 0)     each adds its share of F = sum softmax(s) v
    log odds = (h_5 - h_6) / (2 e)                      which the classifier reads at the first or the last token

The paper's proof (B.5) has neither LayerNorm nor the tanh of BERT's pooler; here the networks of transformers are used as they
are, and only the weights are chosen. Both are linear for signals that are small beside a constant, and small signals lose no
digits, since floating-point numbers have a relative precision; e is the square root of that precision. Every signal comes with
its negative, so the mean that LayerNorm subtracts is that of the rounding errors, and cancels in the difference of the two.
Residual connections carry s and v from layer to layer. Position and type embeddings and feed-forward blocks are 0.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from slalom.core.checks import check_choice, whole_number
from slalom.core.slalom import Slalom
from slalom.errors import InputError
from slalom.theory.blank import new_classifier, word_tokenizer

_WIDTH = 8  # of a head, and at least of the network: four signals, each with its negative
_LABELS = ("negative", "positive")


def slalom_transformer(
    values: Mapping[str, float],
    importances: Mapping[str, float],
    layers: int = 1,
    heads: int = 1,
    *,
    arch: str = "bert",
    background: tuple[float, float] | None = None,
    max_length: int = 512,
    dtype: Literal["float32", "float64"] = "float32",
) -> tuple[Any, Any]:
    """Return a classifier of transformers that is exactly a SLALOM of words, and its tokenizer.

    Rounding leaves an error of about 1e-6 (float32) or 1e-15 (float64) of the largest value; several times that where a text
    has hundreds of equal words or importances exceed 10, since attention itself rounds then.

    Args:
        values: Value of each word. Default: 0.
        importances: Importance of each word. Default: 0.
        layers: Number of layers.
        heads: Number of heads per layer.
        arch: "bert" or "distilbert", which are encoders, or "gpt2", a decoder.
        background: Value and importance of a [CLS] before every text. Default: there is none, as in the paper.
        max_length: Tokens of the longest text.
        dtype: "float32" or "float64".

    Returns:
        The classifier and its tokenizer.

    Raises:
        InputError: No transformer can be made of the arguments.

    Example:
        >>> import slalom
        >>> model, tokenizer = slalom_transformer({"good": 3.0, "bad": -2.0}, {"good": 0.5, "bad": 1.5}, layers=2, heads=4)
        >>> explanation = slalom.Explainer(model, tokenizer)("a good film with a bad end")
        >>> exact = (3.0 * np.exp(0.5) - 2.0 * np.exp(1.5)) / (np.exp(0.5) + np.exp(1.5) + 5)
        >>> bool(abs(explanation.score - exact) < 1e-5)
        True
    """
    _check(layers, heads, arch, background, max_length, dtype)
    words = list(dict.fromkeys([*values, *importances]))
    tokenizer = word_tokenizer(words, max_length, start=background is not None)
    blank = (0.0, 0.0) if background is None else background
    pairs = {"[PAD]": (0.0, 0.0), "[UNK]": (0.0, 0.0), "[CLS]": blank}
    pairs |= {word: (values.get(word, 0.0), importances.get(word, 0.0)) for word in words}
    table = [pairs[name] for name in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))]
    chosen = Slalom([v for v, _ in table], [s for _, s in table])
    hidden = _WIDTH * heads
    model = new_classifier(arch, tokenizer, _LABELS, layers, hidden, heads, inner=hidden, dropout=0.0)
    model = model.to(getattr(torch, dtype)).eval()
    with torch.no_grad():
        _choose_weights(model, arch, chosen.values, chosen.importances, layers, heads)
    return model, tokenizer


def _check(layers: Any, heads: Any, arch: str, background: Any, max_length: Any, dtype: str) -> None:
    """Raise InputError where no transformer can be made of the arguments."""
    for name, number, least in (("layers", layers, 1), ("heads", heads, 1), ("max_length", max_length, 1 + bool(background))):
        whole_number(name, number, least)
    if arch not in _ARCHITECTURES:
        raise InputError(f"arch must be one of {', '.join(_ARCHITECTURES)}; got {arch!r}")
    if background is not None and np.shape(background) != (2,):
        raise InputError(f"background must be a value and an importance, or None; got {background!r}")
    check_choice("dtype", dtype, ("float32", "float64"))


def _choose_weights(model: Any, arch: str, v: NDArray[np.float64], s: NDArray[np.float64], layers: int, heads: int) -> None:
    """Set every weight of a network of 8 * heads dimensions."""
    table = model.get_input_embeddings().weight
    small = float(torch.finfo(table.dtype).eps) ** 0.5
    s = s - (s.max() + s.min()) / 2
    reach, range_s = np.abs(v).max() or 1.0, np.abs(s).max() or 1.0
    for parameter in model.parameters():
        parameter.zero_()
    for signal, size in ((0, small * s / range_s), (2, small * v / reach), (6, np.ones(len(s)))):
        table[:, signal] = torch.from_numpy(size)
        table[:, signal + 1] = -table[:, signal]
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):  # the constant pair alone has this standard deviation
            module.weight.fill_((2 / len(module.weight) + module.eps) ** 0.5)
    query = torch.zeros(_WIDTH * heads, dtype=table.dtype)
    query[::_WIDTH] = _WIDTH**0.5 * range_s / small
    key, value, out = torch.zeros(3, len(query), len(query), dtype=table.dtype)
    key[::_WIDTH, 0], key[::_WIDTH, 1] = 0.5, -0.5
    value[::_WIDTH, 2], value[::_WIDTH, 3] = 0.5, -0.5
    out[4, ::_WIDTH], out[5, ::_WIDTH] = 1 / (layers * heads), -1 / (layers * heads)
    _ARCHITECTURES[arch](model, query, key, value, out, reach / small)


def _bert(model: Any, query: Any, key: Any, value: Any, out: Any, scale: float) -> None:
    for layer in model.bert.encoder.layer:
        inner = layer.attention.self
        _attend(inner.query, inner.key, inner.value, layer.attention.output.dense, (query, key, value, out))
    model.bert.pooler.dense.weight[0, 4:6] = torch.tensor([0.5, -0.5])  # then tanh, which is linear for small signals
    model.classifier.weight[1, 0] = scale


def _distilbert(model: Any, query: Any, key: Any, value: Any, out: Any, scale: float) -> None:
    for layer in model.distilbert.transformer.layer:
        inner = layer.attention
        _attend(inner.q_lin, inner.k_lin, inner.v_lin, inner.out_lin, (query, key, value, out))
    model.pre_classifier.weight[:2, 4:6] = torch.tensor([[0.5, -0.5], [-0.5, 0.5]])  # then x = relu(x) - relu(-x)
    model.classifier.weight[1, 0], model.classifier.weight[1, 1] = scale, -scale


def _attend(to_query: Any, to_key: Any, to_value: Any, to_out: Any, weights: tuple[Any, Any, Any, Any]) -> None:
    """Set the four linear maps of an encoder's attention."""
    for part, weight in zip((to_query.bias, to_key.weight, to_value.weight, to_out.weight), weights, strict=True):
        part.copy_(weight)


def _gpt2(model: Any, query: Any, key: Any, value: Any, out: Any, scale: float) -> None:
    n = len(query)
    for block in model.transformer.h:
        block.attn.c_attn.bias[:n] = query
        block.attn.c_attn.weight[:, n:] = torch.cat([key, value]).T
        block.attn.c_proj.weight.copy_(out.T)
    model.score.weight[1, 4], model.score.weight[1, 5] = scale / 2, -scale / 2


_ARCHITECTURES = {"bert": _bert, "distilbert": _distilbert, "gpt2": _gpt2}
