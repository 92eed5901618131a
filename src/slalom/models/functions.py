"""Functions around models that are no classifiers of texts: the similarity of two texts, multiple choice, filling gaps."""

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError, ModelError


@final
class Similarity:
    """The cosine of two texts by a sentence encoder, as a function of pairs for an Explainer with ``output="scores"``.

    Args:
        encode: Returns the vectors (n, d) of n strings: the method `encode` of a sentence-transformers model.

    Example:
        >>> encode = lambda texts: [[text.count("a"), text.count("b")] for text in texts]
        >>> Similarity(encode)([("aa", "ab"), ("a", "b")]).round(3).tolist()
        [0.707, 0.0]
    """

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self.encode = getattr(encode, "encode", encode)
        self.__name__ = f"similarity by {type(encode).__name__}"

    def __call__(self, pairs: Sequence[Any]) -> Floats:
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise ValueError("similarity is of two texts: give a tuple of two")
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))  # one text stays in half of the queries
        vectors = np.asarray(self.encode(texts), dtype=np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(norms > 0.0, norms, 1.0)
        of = dict(zip(texts, vectors, strict=True))
        return np.array([float(of[a] @ of[b]) for a, b in pairs])


@final
class MultipleChoice:
    """A Hugging Face model with a head for multiple choice, as a function of a question and its choices, all of them texts.

    Its Explainer has ``output="logits"`` and the names of the choices as labels; an example is a tuple of the question and
    the choices, or a dictionary in that order.

    Args:
        model: A model of the class AutoModelForMultipleChoice.
        tokenizer: Its tokenizer.
        choices: Number of choices.
    """

    def __init__(self, model: Any, tokenizer: Any, choices: int) -> None:
        self.model, self.tokenizer, self.choices = model, tokenizer, whole_number("choices", choices, 2)
        self.__name__ = type(model).__name__

    def __call__(self, records: Sequence[Any]) -> Floats:
        import torch  # noqa: PLC0415

        from slalom.models.huggingface.module import evaluating  # noqa: PLC0415

        texts = [list(record.values()) if isinstance(record, dict) else record for record in records]
        if any(isinstance(one, str) or len(one) != self.choices + 1 for one in texts):
            raise ValueError(f"an example must have a question and {self.choices} choices")
        first, second = [one[0] for one in texts for _ in one[1:]], [choice for one in texts for choice in one[1:]]
        if self.tokenizer.pad_token is None:
            raise InputError("choices are read together: the tokenizer needs a padding token")
        device = next(self.model.parameters()).device
        inputs = self.tokenizer(first, second, padding=True, return_tensors="pt").to(device)
        if inputs["input_ids"].shape[1] > self.tokenizer.model_max_length:  # what is cut would seem to have no effect
            tokens = inputs["input_ids"].shape[1]
            raise InputError(
                f"a question and a choice have {tokens} tokens; {self.tokenizer.model_max_length} fit: shorten them"
            )
        with evaluating(self.model, device):
            logits: torch.Tensor = self.model(**{k: v.view(len(texts), self.choices, -1) for k, v in inputs.items()}).logits
        return np.asarray(logits.double().cpu().numpy())


@final
class Infill:
    """A masked language model that fills gaps, for ``removal=``: each gap becomes one token, drawn by its probability.

    A query then costs so many passes of the classifier as there are samples, and one of the masked language model.

    Args:
        model: A model of the class AutoModelForMaskedLM.
        tokenizer: Its tokenizer, with a mask token.
        samples: Texts per query, over whose scores the mean is taken.
        seed: Seed of the draws; the same parts are always filled alike.
    """

    def __init__(self, model: Any, tokenizer: Any, samples: int = 4, seed: int = 0) -> None:
        if getattr(tokenizer, "mask_token", None) is None:
            raise InputError("infill needs a masked language model: its tokenizer has no mask token")
        self.model, self.tokenizer = model, tokenizer
        self.samples, self.seed = whole_number("samples", samples, 1), whole_number("seed", seed, 0)
        from slalom.models.huggingface.fingerprint import identity_of  # noqa: PLC0415

        # By which settings know it: another model, number of samples or seed fills gaps otherwise.
        self.__qualname__ = f"Infill({type(model).__name__} {identity_of(model)[:8]}, samples={samples}, seed={seed})"

    @cached_property
    def _words(self) -> NDArray[np.bool_]:
        """Which tokens begin a word, and are not special: others would change the word before them."""
        names = [str(name) for name in self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))]
        mark = next((mark for mark in "\u0120\u2581" if sum(name.startswith(mark) for name in names) > 1), "")
        words = np.array([name.startswith(mark) and not name.startswith("##") for name in names])
        words[[i for i in self.tokenizer.all_special_ids if i < len(words)]] = False
        return words

    def __call__(self, parts: Sequence[str | None]) -> list[str]:
        import torch  # noqa: PLC0415

        from slalom.models.huggingface.module import evaluating  # noqa: PLC0415

        mask = self.tokenizer.mask_token
        text = "".join(f"{mask} " if part is None else part for part in parts)
        device = next(self.model.parameters()).device
        inputs = self.tokenizer(text, truncation=True, return_tensors="pt").to(device)
        places = (inputs["input_ids"][0] == self.tokenizer.mask_token_id).nonzero()[:, 0]
        if len(places) != sum(part is None for part in parts):
            raise ModelError(
                f"{len(places)} of {sum(part is None for part in parts)} gaps fit into {type(self.model).__name__}"
            )
        with evaluating(self.model, device):
            logits = self.model(**inputs).logits[0, places].double()
            logits[:, ~torch.from_numpy(self._words).to(device)[: logits.shape[1]]] = -torch.inf
            chances = logits.softmax(dim=-1).cpu().numpy()
        rng = np.random.default_rng([self.seed, *blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()])
        drawn = [iter(rng.choice(chances.shape[1], self.samples, p=p / p.sum()).tolist()) for p in chances]
        filled = []
        for _ in range(self.samples):
            tokens = iter([self.tokenizer.decode([next(of)]).strip() for of in drawn])
            filled.append("".join(f"{next(tokens)} " if part is None else part for part in parts).rstrip())
        return filled
