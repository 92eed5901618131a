"""Explanations of one layer of attention in closed form: one number per word, from a `ForwardTrace`.

    attention   a_t, its mean or its largest over the heads
    gradient    df/de_t = (1/K) sum_heads a_t [ (r_t - f_head) W_k^T q / sqrt(d) + W_v^T W ]     t a word or filled position
                and at [CLS], which has the query:  + (1/K) sum_heads W_q^T sum_t a_t (r_t - f_head) k_t / sqrt(d)
    lime        the limit of LIME, the same for words that are kept independently, and Theorem 5.1:
                3/2 (1/K) sum_heads (a_t r_t - alpha_t rho_t),   alpha and rho of a text of [UNK] alone
    shapley     exact, and Banzhaf values; an absent word is replaced by [UNK] in place

The gradient is Theorem 4.1 of Lopardo, Precioso & Garreau 2024 with the term that is missing there. With players="word" the
repetitions of a word are one player and share its number equally; `by_word` sums any scores over repetitions.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from slalom.core.checks import Floats
from slalom.core.measures import Beta, Point
from slalom.errors import InputError
from slalom.theory.attention import lime
from slalom.theory.attention.traces import ForwardTrace, Players

Reduce = Literal["mean", "l1", "l2", "input"]


def attention_weights(trace: ForwardTrace, over: Literal["mean", "max"] = "mean") -> Floats:
    """Return the attention (n,) of [CLS] to each word, its mean or its largest over the heads."""
    weights = trace.attention[:, trace.word_positions]
    return np.asarray(weights.mean(axis=0) if over == "mean" else weights.max(axis=0))


def slopes(trace: ForwardTrace) -> Floats:
    """Return the gradient df/de_t (T, D) at every position, [CLS] first."""
    a, root = trace.attention, trace.W_k.shape[1] ** 0.5
    off = a * (trace.rewards - (a * trace.rewards).sum(axis=1, keepdims=True))  # a_t (r_t - f_head)
    reach = np.einsum("ks,ksd->kd", trace.query, trace.W_k) / root
    gradients = (off.T @ reach + a.T @ trace.pull) / len(a)
    keys = np.einsum("kd,ksd->ks", off @ trace.vectors, trace.W_k) / root
    gradients[0] += np.einsum("ks,ksd->d", keys, trace.W_q) / len(a)
    return np.asarray(gradients)


def gradient(trace: ForwardTrace, reduce: Reduce = "mean") -> Floats:
    """Return the gradient at each word, reduced to one number (n,).

    Args:
        reduce: "mean" over the dimensions, "l1" or "l2" norm, or "input": times the input (word vector and position).
    """
    gradients = slopes(trace)[trace.word_positions]
    if reduce == "mean":
        return np.asarray(gradients.mean(axis=1))
    if reduce == "input":
        return np.asarray((gradients * trace.vectors[trace.word_positions]).sum(axis=1))
    return np.asarray(np.linalg.norm(gradients, ord=1 if reduce == "l1" else 2, axis=1))


def lime_limit(trace: ForwardTrace, players: Players = "position") -> Floats:
    """Return the exact limit of LIME's coefficients (n,) for many samples."""
    return shared(trace.groups(players), lime.limit(trace.game(players)).effects) if trace.words else np.zeros(0)


def lime_bernoulli(trace: ForwardTrace, players: Players = "position") -> Floats:
    """Return nearly the limit of LIME's coefficients (n,), much faster for long texts."""
    return shared(trace.groups(players), lime.bernoulli(trace.game(players)).effects) if trace.words else np.zeros(0)


def lime_printed(trace: ForwardTrace) -> Floats:
    """Return Theorem 5.1 as printed (n,): a rough approximation, whose factor 3/2 is not right for any length."""
    # The text of [UNK] alone keeps its [CLS].
    logits, rewards = trace.blank_logits.copy(), trace.blank_rewards
    logits[:, 0] = trace.logits[:, 0]
    apart = trace.attention * trace.rewards - softmax(logits, axis=1) * rewards
    return np.asarray(1.5 * apart.mean(axis=0)[trace.word_positions])


def shapley(trace: ForwardTrace, players: Players = "position") -> Floats:
    """Return exact Shapley values (n,), which sum to f(text) - f(all words replaced)."""
    return shared(trace.groups(players), trace.game(players).semivalue(Beta(1.0, 1.0)))


def banzhaf(trace: ForwardTrace, players: Players = "position") -> Floats:
    """Return exact Banzhaf values (n,)."""
    return shared(trace.groups(players), trace.game(players).semivalue(Point(0.5)))


def by_word(trace: ForwardTrace, numbers: Floats) -> dict[str, float]:
    """Return scores (n,) summed over the positions of each word, in the order of the text.

    Returns:
        A mapping from lower-cased words to sums; words that the network does not know are joined as "[UNK]".
    """
    sums: dict[str, float] = {}
    if np.shape(numbers) != (len(trace.words),):
        raise InputError(f"numbers must be one for each of the {len(trace.words)} words; got shape {np.shape(numbers)}")
    names = [
        "[UNK]" if number == trace.unknown else word.lower()
        for word, number in zip(trace.words, trace.ids.tolist(), strict=True)
    ]
    for name, number in zip(names, np.asarray(numbers).tolist(), strict=True):
        sums[name] = sums.get(name, 0.0) + number
    return sums


def shared(group: NDArray[np.int64], numbers: Floats) -> Floats:
    """Return numbers of players as those of words (n,): equal shares, by the player of each word (n,)."""
    return np.asarray(numbers[group] / np.bincount(group)[group]) if len(group) else np.zeros(0)
