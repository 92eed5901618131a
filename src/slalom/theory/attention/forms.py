"""Explanations of one layer of attention in closed form: one number a word, from what the network has seen (`seen`).

    attention   a_t, its mean or its largest over the heads
    gradient    df/de_t = (1/K) sum_heads a_t [ (r_t - f_head) W_k^T q / sqrt(d) + W_v^T W ]          t a word, or filled
                and, for [CLS], which asks:  + (1/K) sum_heads W_q^T sum_t a_t (r_t - f_head) k_t / sqrt(d)
    lime        the limit of LIME, by the words' independent chances, and as Theorem 5.1 has it:
                3/2 (1/K) sum_heads (a_t r_t - alpha_t rho_t),   alpha and rho of a text of [UNK] alone
    shapley     exact, and Banzhaf values; a word that is away is replaced by [UNK] in place

The gradient is Theorem 4.1 of Lopardo, Precioso & Garreau 2024 with the term that is missing there. With players="word" the
repetitions of a word go together and share its number equally, so that they sum to it; `by_word` sums any of them.
"""

from typing import Literal

import numpy as np
from scipy.special import softmax

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.theory.attention import lime
from slalom.theory.attention.sight import Players, Seen

Reduce = Literal["mean", "l1", "l2", "input"]


def attention_weights(seen: Seen, over: Literal["mean", "max"] = "mean") -> Floats:
    """Return the attention (n,) that [CLS] pays to each word: its mean or its largest over the heads."""
    if over not in ("mean", "max"):
        raise InputError(f"over must be 'mean' or 'max'; got {over!r}")
    own = seen.attention[:, seen.own]
    return np.asarray(own.mean(axis=0) if over == "mean" else own.max(axis=0))


def slopes(seen: Seen) -> Floats:
    """Return df/de_t (T, D) of every position, [CLS] first."""
    a, root = seen.attention, seen.W_k.shape[1] ** 0.5
    off = a * (seen.rewards - (a * seen.rewards).sum(axis=1, keepdims=True))  # a_t (r_t - f_head)
    reach = np.einsum("ks,ksd->kd", seen.query, seen.W_k) / root
    found = (off.T @ reach + a.T @ seen.pull) / len(a)
    keys = np.einsum("kd,ksd->ks", off @ seen.vectors, seen.W_k) / root
    found[0] += np.einsum("ks,ksd->d", keys, seen.W_q) / len(a)
    return np.asarray(found)


def gradient(seen: Seen, reduce: Reduce = "mean") -> Floats:
    """Return the gradient at each word (n,): its mean, its l1 or l2 norm, or times the input (word vector and position)."""
    found = slopes(seen)[seen.own]
    if reduce == "mean":
        return np.asarray(found.mean(axis=1))
    if reduce == "input":
        return np.asarray((found * seen.vectors[seen.own]).sum(axis=1))
    if reduce not in ("l1", "l2"):
        raise InputError(f"reduce must be 'mean', 'l1', 'l2' or 'input'; got {reduce!r}")
    return np.asarray(np.linalg.norm(found, ord=1 if reduce == "l1" else 2, axis=1))


def lime_limit(seen: Seen, players: Players = "position", width: float = lime.WIDTH) -> Floats:
    """Return what LIME's coefficients tend to (n,), exactly."""
    return _spread(seen, players, lime.limit(seen.game(players), width).effects) if seen.words else np.zeros(0)


def lime_bernoulli(seen: Seen, players: Players = "position", width: float = lime.WIDTH) -> Floats:
    """Return nearly the same (n,), much faster for long texts."""
    return _spread(seen, players, lime.bernoulli(seen.game(players), width).effects) if seen.words else np.zeros(0)


def lime_printed(seen: Seen) -> Floats:
    """Return Theorem 5.1 as printed (n,): a rough approximation, whose factor 3/2 is not right for any length."""
    # The text of [UNK] alone keeps its [CLS].
    logits, rewards = seen.blank_logits.copy(), seen.blank_rewards
    logits[:, 0] = seen.logits[:, 0]
    apart = seen.attention * seen.rewards - softmax(logits, axis=1) * rewards
    return np.asarray(1.5 * apart.mean(axis=0)[seen.own])


def shapley(seen: Seen, players: Players = "position") -> Floats:
    """Return exact Shapley values (n,); they sum to f(text) - f(all words replaced)."""
    return _spread(seen, players, seen.game(players).shapley())


def banzhaf(seen: Seen, players: Players = "position") -> Floats:
    """Return exact Banzhaf values (n,)."""
    return _spread(seen, players, seen.game(players).banzhaf())


def by_word(seen: Seen, numbers: Floats) -> dict[str, float]:
    """Return numbers (n,) summed over the positions of each word; words that the network does not know are one, "[UNK]".

    The order is that of the text.
    """
    found: dict[str, float] = {}
    if np.shape(numbers) != (len(seen.words),):
        raise InputError(f"numbers must be one for each of the {len(seen.words)} words; got shape {np.shape(numbers)}")
    names = [
        "[UNK]" if number == seen.unknown else word.lower() for word, number in zip(seen.words, seen.ids.tolist(), strict=True)
    ]
    for name, number in zip(names, np.asarray(numbers).tolist(), strict=True):
        found[name] = found.get(name, 0.0) + number
    return found


def _spread(seen: Seen, players: Players, numbers: Floats) -> Floats:
    group = seen.groups(players)
    return np.asarray(numbers[group] / np.bincount(group)[group]) if len(group) else np.zeros(0)
