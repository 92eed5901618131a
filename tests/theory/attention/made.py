"""Small networks of one layer: with random weights, and trained in a second on made-up reviews."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from experiments.learnt_tokenizers import learnt_words, new_tokenizer
from experiments.training import ATTENTION, Labelled, train
from slalom.models.huggingface.model import HuggingFace
from slalom.theory import attention

WORDS = ["good", "fine", "bad", "poor", "the", "film", "was", "and", "of", "story"]
TEXT = "The story of the film was good, and the end was bad."
SMALL = replace(ATTENTION, hidden=16, heads=2, inner=8, max_length=40, epochs=5, learning_rate=1e-2, seed=1)


def reviews(m, seed=0, longest=20):
    """Texts that are good (1) where they have more good words than bad ones."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(4, longest))) for _ in range(m)]
    kinds = [sum(w in WORDS[:2] for w in t.split()) - sum(w in WORDS[2:4] for w in t.split()) for t in texts]
    clear = tuple(t for t, k in zip(texts, kinds, strict=True) if k)
    return Labelled(clear, np.array([int(k > 0) for k in kinds if k]), ("negative", "positive"), "made up")


@functools.lru_cache
def folder(final=True):
    out = Path(tempfile.mkdtemp(prefix="slalom-attention-")) / "m"
    train(reviews(700), out, replace(SMALL, final=final), device="cpu", progress=False)
    return out


@functools.lru_cache
def trained(final=True):
    return attention.load(folder(final))


@functools.lru_cache
def untrained(heads=3, classes=2, final=True, length=40, spread=1.0, seed=0, words=tuple(WORDS)):
    """Random weights; spread makes the attention sharper. Every word of `words` is known."""
    torch.manual_seed(seed)
    tokenizer = new_tokenizer(learnt_words([" ".join(words)], 1000), length)
    config = attention.AttentionConfig(
        vocab_size=len(tokenizer), hidden_size=12, num_attention_heads=heads, head_size=6, max_position_embeddings=length,
        final=final, id2label={i: str(i) for i in range(classes)},
    )  # fmt: skip
    network = attention.AttentionClassifier(config)
    with torch.no_grad():
        network.query.weight *= spread
    return HuggingFace(network, tokenizer).in_place()


@functools.lru_cache
def quiet(seed=3):
    """One head that pays no attention to [UNK]: what is left is a SLALOM of W v and q . k / sqrt(d)."""
    model = untrained(heads=1, spread=3.0, seed=seed, length=11)
    network = model.model
    look = attention.trace(model, "")
    reach = look.query[0] @ look.W_k[0] / look.W_k.shape[1] ** 0.5
    with torch.no_grad():
        network.embedding.weight[0] = torch.from_numpy(-50.0 * reach / (reach @ reach))
        network.final *= 20.0
    return model


def long_text(n, seed=0):
    """A text of n different words, and those words."""
    words = [f"w{i}" for i in range(n)]
    return " ".join(words), tuple(words)
