"""One text on its way through one layer of attention: every number that a closed form needs, in double precision.

    l_t = q . k_t / sqrt(d),    r_t = W v_t,    a = softmax(l),    f = mean over heads of sum_t a_t r_t

Position 0 is [CLS], 1 .. n are the words, the others are filled with [UNK]. What a position would have with [UNK] in its place
has the same name with the prefix `blank_`; the query is that of [CLS] and stays.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from slalom.core.checks import Floats, check_choice
from slalom.errors import InputError, require
from slalom.models import Head, Model, Reading, Target, model_of
from slalom.theory.attention.game import RatioGame

if TYPE_CHECKING:
    from slalom.models.huggingface.model import HuggingFace
    from slalom.models.huggingface.one_layer import AttentionClassifier
    from slalom.models.huggingface.reading import TokenReading

Output = Literal["log_odds", "logit"]
Players = Literal["position", "word"]


@final
@dataclass(frozen=True, eq=False)
class ForwardTrace:
    """The numbers of one forward pass: K heads, T positions, vectors of size D, heads of size d, n words.

    Attributes:
        words: The words, (n,).
        ids: Their token ids, (n,); equal ids are the same word to the network.
        unknown: The id of [UNK].
        vectors: e, (T, D).
        logits: l, (K, T).
        rewards: r, (K, T).
        blank_logits: l with [UNK] at every position, (K, T).
        blank_rewards: r with [UNK] at every position, (K, T).
        query: q, (K, d).
        W_q: Query matrices, (K, d, D).
        W_k: Key matrices, (K, d, D).
        pull: W_v^T W, (K, D).
        cut: Number of words that the network does not read.
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
    def word_positions(self) -> slice:
        """The positions of the words."""
        return slice(1, 1 + len(self.words))

    @property
    def attention(self) -> Floats:
        """Attention of [CLS] to each position, (K, T)."""
        return np.asarray(softmax(self.logits, axis=1))

    @property
    def score(self) -> float:
        """The output of the network, f."""
        return float((self.attention * self.rewards).sum(axis=1).mean())

    def groups(self, players: Players = "position") -> NDArray[np.int64]:
        """Return the player (n,) of each word: its position, or with "word" all positions of the same word."""
        check_choice("players", players, ("position", "word"))
        if players == "position":
            return np.arange(len(self.words))
        first = {number: i for i, number in enumerate(dict.fromkeys(self.ids.tolist()))}
        return np.array([first[number] for number in self.ids.tolist()], dtype=np.int64)

    def game(self, players: Players = "position") -> RatioGame:
        """Return the game in which words are replaced by [UNK] in place; [CLS] and filled positions are always present."""
        group, words = self.groups(players), self.word_positions
        rest = np.ones(self.logits.shape[1], dtype=bool)
        rest[words] = False
        n = int(group.max(initial=-1)) + 1
        log_present, present = _together(self.logits[:, words], self.rewards[:, words], group, n)
        log_replaced, replaced = _together(self.blank_logits[:, words], self.blank_rewards[:, words], group, n)
        log_base, base = _together(self.logits[:, rest], self.rewards[:, rest], np.zeros(rest.sum(), dtype=np.int64), 1)
        return RatioGame(log_present, present, log_replaced, replaced, log_base[:, 0], base[:, 0])


def _together(logits: Floats, rewards: Floats, group: NDArray[np.int64], n: int) -> tuple[Floats, Floats]:
    """Return log weights and values (K, n) of groups of positions (K, t): logsumexp, and the mean by weight."""
    total, value = np.zeros((len(logits), n)), np.zeros((len(logits), n))
    order = np.argsort(group, kind="stable")
    for j, of in enumerate(np.split(order, np.searchsorted(group[order], np.arange(1, n))) if n else ()):
        total[:, j] = logsumexp(logits[:, of], axis=1)
        value[:, j] = (softmax(logits[:, of], axis=1) * rewards[:, of]).sum(axis=1)
    return total, value


def load(path: str | Path, *, perturbation: Literal["replace", "delete"] = "replace", device: str | None = None) -> Model:
    """Return a saved AttentionClassifier with its tokenizer, for the Explainer and for everything here.

    Args:
        path: The folder.
        perturbation: What happens to a word that is removed: "replace" puts [UNK] in its place, as the closed forms do;
            "delete" moves the later words forward, as `slalom.Explainer(path)` does.
        device: Where to load it. Default: a GPU, where there is one.

    Raises:
        InputError: The folder does not hold an AttentionClassifier.
    """
    check_choice("perturbation", perturbation, ("replace", "delete"))
    model = model_of(str(path), device=device)
    with require("slalom.theory.attention", "hf"):
        from slalom.models.huggingface.model import HuggingFace  # noqa: PLC0415
        from slalom.models.huggingface.one_layer import AttentionClassifier  # noqa: PLC0415
    if not isinstance(model, HuggingFace) or not isinstance(model.model, AttentionClassifier):
        raise InputError(f"{str(path)!r} must hold an AttentionClassifier; slalom.Explainer takes any classifier")
    return model.in_place() if perturbation == "replace" else model


def trace(model: Model, text: str, target: Target = None, output: Output = "log_odds") -> ForwardTrace:
    """Return the numbers of a forward pass.

    Args:
        model: As `slalom.theory.attention.load` returns it, or `Explainer.model`.
        text: The text; words that do not fit are cut, with a UserWarning.
        target: A class, by index or label. Default: class 1 of two.
        output: "log_odds" is the score of the Explainer, for two classes the difference of their logits; "logit" is that of the
            class itself, as in the paper.

    Raises:
        InputError: The model is not one layer of attention, or the output is not defined for it.
    """
    reading, chosen = read(model, text, target)
    if reading.cut:
        message = f"{reading.cut} words do not fit into {model.name} and were cut; shorten the text to explain all of it"
        warnings.warn(message, UserWarning, stacklevel=2)
    return trace_reading(model, reading, chosen, output)


def read(model: Model, text: str, target: Target) -> tuple[Reading, int]:
    """Return a text as a model reads it, and the index of the class."""
    if not isinstance(model, Model):
        raise InputError(f"model must come from slalom.theory.attention.load; got {type(model).__name__}")
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}")
    ambiguous = target is None and len(model.head.labels) > 2
    chosen = "all" if ambiguous else model.head.resolve(target, np.zeros(model.head.n_outputs))
    if chosen == "all":
        raise InputError(f"a closed form is of one class at a time; choose a target among {', '.join(model.head.labels)}")
    return model.read(text, "cut", None), chosen


def trace_reading(model: Model, reading: Reading, target: int, output: Output = "log_odds") -> ForwardTrace:
    """Return the trace of a text that was read already; `target` is the index of a class."""
    classifier, tokens = attention_classifier(model, reading)
    check_output(classifier.head, output)
    network = cast("AttentionClassifier", classifier.model)
    config = network.config

    def numbers(tensor: "object") -> Floats:
        return np.asarray(tensor.detach().cpu().double().numpy())  # type: ignore[attr-defined]

    from slalom.models.huggingface.one_layer import positions  # noqa: PLC0415

    table, encoding = network.embedding.weight, positions(config.max_position_embeddings, config.hidden_size)
    ids = np.full(len(encoding), config.unk_token_id)
    whole = np.concatenate([tokens.before[0], tokens.planes[0], tokens.after[0]])[: len(encoding)]
    ids[: len(whole)] = whole
    vectors = numbers(table[ids.tolist()]) + encoding
    blank = numbers(table[config.unk_token_id]) + encoding
    W_q, W_k, W_v = (numbers(network.per_head(layer)) for layer in (network.query, network.key, network.value))
    final_layer = np.stack([np.eye(W_v.shape[1])] * len(W_v)) if network.final is None else numbers(network.final)
    pull = np.einsum("ko,kod->kd", score(classifier.head, final_layer, target, output), W_v)
    query = W_q @ vectors[0]
    reach = np.einsum("ks,ksd->kd", query, W_k) / config.head_size**0.5
    return ForwardTrace(
        tuple(reading.names), reading.types, config.unk_token_id, vectors, reach @ vectors.T, pull @ vectors.T,
        reach @ blank.T, pull @ blank.T, query, W_q, W_k, pull, reading.cut,
    )  # fmt: skip


def check_output(head: Head, output: Output) -> None:
    """Refuse an output that is not a mean over positions."""
    check_choice("output", output, ("log_odds", "logit"))
    if output == "log_odds" and head.kind != "score" and (len(head.labels) != 2 or head.kind != "classes"):
        raise InputError(
            f"the log odds are a mean over positions for two classes only; this network has {len(head.labels)}:"
            " explain one of their logits, output='logit'"
        )


def score(head: Head, outputs: Any, target: int, output: Output) -> Any:
    """Return the score (n, ...) of a class for outputs (n, n_outputs, ...), of numpy or torch; it is linear in them."""
    own_logit = output == "logit" and head.kind != "score"
    return outputs[:, target] if own_logit else head.scores(outputs, target)


def attention_classifier(model: Model, reading: Reading) -> "tuple[HuggingFace, TokenReading]":
    """Return the classifier and a text as it reads it; InputError where it is not one layer of attention."""
    with require("slalom.theory.attention", "hf"):
        from slalom.models.huggingface.model import torch_classifier  # noqa: PLC0415
        from slalom.models.huggingface.one_layer import AttentionClassifier  # noqa: PLC0415
    opened = torch_classifier(model, reading, "a closed form")
    if opened is None or not isinstance(opened[0].model, AttentionClassifier):
        raise InputError(
            f"closed forms are of one layer of attention (slalom.theory.attention.AttentionClassifier); got {model.name};"
            " slalom.methods has methods for any model"
        )
    return opened
