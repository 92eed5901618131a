"""One text as the one layer of attention sees it: every number that a closed form needs, in double precision.

    l_t = q . k_t / sqrt(d),    r_t = W v_t,    a = softmax(l),    f = mean over heads of sum_t a_t r_t

Position 0 is [CLS], 1 .. n are the words, the others are filled with [UNK]. What a position would be with [UNK] in its place
has the same names with `blank_` before them; the query is that of [CLS] and stays.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from slalom.core.checks import Floats
from slalom.errors import InputError, require
from slalom.models import Head, Model, Reading, Target
from slalom.theory.attention.game import RatioGame

if TYPE_CHECKING:
    from slalom.models.huggingface import HuggingFace, TokenReading
    from slalom.networks.one_layer import AttentionClassifier

Output = Literal["log_odds", "logit"]
Players = Literal["position", "word"]


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """K heads, T positions, vectors of size D, heads of size d, n words.

    words, ids (n,): the words and their numbers; equal numbers are the same word to the network, `unknown` is that of [UNK].
    vectors (T, D): e.
    logits, rewards (K, T): l and r. blank_logits, blank_rewards (K, T): with [UNK] at every position. query (K, d).
    W_q, W_k (K, d, D); pull (K, D): W_v^T W. cut: words that the network cannot see.
    """

    words: tuple[str, ...]
    ids: NDArray[np.int64]
    unknown: int
    vectors: Floats
    logits: Floats
    rewards: Floats
    blank_logits: Floats
    blank_rewards: Floats
    query: Floats
    W_q: Floats
    W_k: Floats
    pull: Floats
    cut: int

    @property
    def own(self) -> slice:
        """Which of the positions are the words'."""
        return slice(1, 1 + len(self.words))

    @property
    def attention(self) -> Floats:
        """What [CLS] pays to each position, (K, T)."""
        return np.asarray(softmax(self.logits, axis=1))

    @property
    def score(self) -> float:
        """What the network answers, f."""
        return float((self.attention * self.rewards).sum(axis=1).mean())

    def groups(self, players: Players = "position") -> NDArray[np.int64]:
        """Return the number of the player of each word (n,): one a position, or one a word with all its repetitions."""
        if players == "position":
            return np.arange(len(self.words))
        if players == "word":
            first = {number: i for i, number in enumerate(dict.fromkeys(self.ids.tolist()))}
            return np.array([first[number] for number in self.ids.tolist()], dtype=np.int64)
        raise InputError(f"players must be 'position' or 'word'; got {players!r}")

    def game(self, players: Players = "position") -> RatioGame:
        """Return the game in which words are replaced by [UNK] in place; [CLS] and what is filled up are always there."""
        group, own = self.groups(players), self.own
        rest = np.ones(self.logits.shape[1], dtype=bool)
        rest[own] = False
        n = int(group.max(initial=-1)) + 1
        log_on, on = _together(self.logits[:, own], self.rewards[:, own], group, n)
        log_off, off = _together(self.blank_logits[:, own], self.blank_rewards[:, own], group, n)
        log_base, base = _together(self.logits[:, rest], self.rewards[:, rest], np.zeros(rest.sum(), dtype=np.int64), 1)
        return RatioGame(log_on, on, log_off, off, log_base[:, 0], base[:, 0])


def _together(logits: Floats, rewards: Floats, group: NDArray[np.int64], n: int) -> tuple[Floats, Floats]:
    """Return log weights and values (K, n) of groups of positions (K, t): logsumexp, and the mean by weight."""
    total, value = np.zeros((len(logits), n)), np.zeros((len(logits), n))
    order = np.argsort(group, kind="stable")
    for j, of in enumerate(np.split(order, np.searchsorted(group[order], np.arange(1, n))) if n else ()):
        total[:, j] = logsumexp(logits[:, of], axis=1)
        value[:, j] = (softmax(logits[:, of], axis=1) * rewards[:, of]).sum(axis=1)
    return total, value


def seen(model: Model, text: str, target: Target = None, output: Output = "log_odds") -> Seen:
    """Return a text as a model (`slalom.theory.attention.load`, or `Explainer.model`) sees it; UserWarning where words are cut.

    target: a class, by its index or label; None is class 1 of two. output: "log_odds", the score of the Explainer, for two
    classes the difference of their logits; or "logit", that of the class itself, as in the paper.
    """
    reading, chosen = read(model, text, target)
    if reading.cut:
        said = f"{reading.cut} words of the text are more than {model.name} can see and were cut; a shorter text is seen whole"
        warnings.warn(said, UserWarning, stacklevel=2)
    return seen_reading(model, reading, chosen, output)


def read(model: Model, text: str, target: Target) -> tuple[Reading, int]:
    """Return a text as a model reads it, and the index of the class."""
    if not isinstance(model, Model):
        raise InputError(f"model must be as slalom.theory.attention.load gives it; got {type(model).__name__}")
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}")
    many = target is None and len(model.head.labels) > 2
    chosen = "all" if many else model.head.resolve(target, np.zeros(model.head.n_outputs))
    if chosen == "all":
        raise InputError(f"a closed form is of one class at a time; choose a target among {', '.join(model.head.labels)}")
    return model.read(text, "cut", None), chosen


def seen_reading(model: Model, reading: Reading, target: int, output: Output = "log_odds") -> Seen:
    """Return a text that was read already as a model sees it. target: the index of a class."""
    hugging, tokens = opened(model, reading)
    network = cast("AttentionClassifier", hugging.model)
    config = network.config

    def numbers(tensor: "object") -> Floats:
        return np.asarray(tensor.detach().cpu().double().numpy())  # type: ignore[attr-defined]

    from slalom.networks.one_layer import positions  # noqa: PLC0415

    table, place = network.embedding.weight, positions(config.max_position_embeddings, config.hidden_size)
    ids = np.full(len(place), config.unk_token_id)
    whole = np.concatenate([tokens.before[0], tokens.planes[0], tokens.after[0]])[: len(place)]
    ids[: len(whole)] = whole
    vectors = numbers(table[ids.tolist()]) + place
    blank = numbers(table[config.unk_token_id]) + place
    W_q, W_k, W_v = (numbers(network.per_head(layer)) for layer in (network.query, network.key, network.value))
    final_layer = np.stack([np.eye(W_v.shape[1])] * len(W_v)) if network.final is None else numbers(network.final)
    pull = np.einsum("ko,kod->kd", _row(final_layer, hugging.head, target, output), W_v)
    query = W_q @ vectors[0]
    reach = np.einsum("ks,ksd->kd", query, W_k) / config.head_size**0.5
    return Seen(
        tuple(reading.names), reading.types, config.unk_token_id, vectors, reach @ vectors.T, pull @ vectors.T,
        reach @ blank.T, pull @ blank.T, query, W_q, W_k, pull, reading.cut,
    )  # fmt: skip


def check_output(head: Head, output: Output) -> None:
    """Refuse an output that is not a mean over positions."""
    if output not in ("log_odds", "logit"):
        raise InputError(f"output must be 'log_odds' or 'logit'; got {output!r}")
    if output == "log_odds" and head.kind != "score" and (len(head.labels) != 2 or head.kind != "classes"):
        raise InputError(
            f"the log odds are a mean over positions for two classes only; this network has {len(head.labels)}:"
            " look at one of their logits, output='logit'"
        )


def _row(final_layer: Floats, head: Head, target: int, output: Output) -> Floats:
    """Return the row of the final layer (K, classes, out) that makes the score, (K, out)."""
    check_output(head, output)
    if head.kind == "score":
        return final_layer[:, 0] if target == len(head.labels) - 1 else -final_layer[:, 0]
    if output == "logit":
        return final_layer[:, target]
    return np.asarray(final_layer[:, target] - final_layer[:, 1 - target])


def opened(model: Model, reading: Reading) -> "tuple[HuggingFace, TokenReading]":
    """Return the model and the reading under it; InputError where it is not one layer of attention, or in several windows."""
    with require("slalom.theory.attention", "hf"):
        from slalom.models.huggingface import HuggingFace, TokenReading  # noqa: PLC0415
        from slalom.models.in_place import InPlace, InPlaceReading  # noqa: PLC0415
        from slalom.networks.one_layer import AttentionClassifier  # noqa: PLC0415
    if isinstance(model, InPlace) and isinstance(reading, InPlaceReading):
        model, reading = model.inner, reading.tokens
    if (
        not isinstance(model, HuggingFace)
        or not isinstance(reading, TokenReading)
        or not isinstance(model.model, AttentionClassifier)
    ):
        raise InputError(
            f"closed forms are of one layer of attention (slalom.theory.attention.AttentionClassifier); got {model.name};"
            " slalom.methods has methods for any model"
        )
    if len(reading.windows) > 1:
        raise InputError(f'a closed form is of one pass, this text is read in {len(reading.windows)} windows; use long="cut"')
    return model, reading
