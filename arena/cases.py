"""The models and texts of the arena; what asking them needs is imported where they are asked.

A case is a model and texts in units. REPORT are the cases on which no default of slalom was chosen. Data and models are looked
for as benchmarks/reviews.py and arena/models.py say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TEXTS = 12
BUDGETS = (100, 200, 500)
MANY = (*BUDGETS, 1000)  # of questions about sources
FILES = {"reviews": "imdb_test", "sentences": "sst2_dev", "news": "agnews_test", "intents": "banking77_test"}  # texts by kind
SOURCES = {"sources": (16, 32, 64), "questions": (16, 32, 64, 128)}  # sentences of a context, at least
_LONGEST = 24  # tokens of an answer
_QUESTION = "What is said about {subject}? Answer with one short sentence."
_ASK = "{part}\n\nWrite one short question that this text answers. Say in it who or what it is about. Write the question only."
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-z]+ )+[A-Z][a-z]+")  # two words or more, not at the start of a sentence


@dataclass(frozen=True)
class Case:
    """A model and its texts.

    Attributes:
        name: Name of the file of its answers.
        model: "bundled", "imdb-bert-2", "words", "smollm2", "instruct" (a folder of that name), or a name of arena/models.py.
        data: Which texts: "reviews", "sentences", "news", "intents", "sources" or "questions".
        about: What it is, in a line.
        chosen: Whether defaults of slalom were chosen on it.
        budgets: How many rows methods are given.
    """

    name: str
    model: str
    data: str
    about: str
    chosen: bool = False
    budgets: tuple[int, ...] = BUDGETS


CASES = (
    Case("bundled-reviews", "bundled", "reviews", "the bundled classifier (BERT, 2 layers), IMDB reviews", chosen=True),
    Case("bundled-sentences", "bundled", "sentences", "the bundled classifier, SST-2 sentences", chosen=True),
    Case("bert2-reviews", "imdb-bert-2", "reviews", "BERT, 2 layers of hidden size 384, IMDB reviews", chosen=True),
    Case("bert6-reviews", "imdb-bert-6", "reviews", "BERT, 6 layers of hidden size 384, IMDB reviews"),
    Case("gpt4-reviews", "imdb-gpt-4", "reviews", "GPT-2, 4 layers of hidden size 384, IMDB reviews"),
    Case("tfidf-reviews", "words", "reviews", "TF-IDF of words and a logistic regression, IMDB reviews"),
    Case("distilbert-sentences", "sst2-distilbert-4", "sentences", "DistilBERT, 4 layers of hidden size 384, SST-2 sentences"),
    Case("agnews", "agnews-bert-3", "news", "BERT, 3 layers, four classes of news (AG News)"),
    Case("intents", "intents-bert-2", "intents", "BERT, 2 layers, six intents of questions to a bank (banking77)"),
    Case("smollm2-sentences", "smollm2", "sentences", "SmolLM2-135M with a prompt of four examples, SST-2 sentences"),
    Case("sources", "smollm2", "sources", "SmolLM2-135M, log probability of its answer, sentences of a context of news"),
    Case(
        "questions",
        "instruct",
        "questions",
        "Qwen2.5-Coder-1.5B-Instruct, log probability of its answer to a question of its own, sentences of a context of news",
        budgets=MANY,
    ),
)
REPORT = frozenset(case.name for case in CASES if not case.chosen)


class Asked(NamedTuple):
    """A text of a case: its explainer, and the arguments that explain it."""

    explainer: Any
    arguments: tuple[str, ...]


def asked(case: Case, folder: Path, device: str, number: int = TEXTS) -> Iterator[Asked]:
    """Yield the texts of a case with the explainers of its model. folder: of trained models, and of the language model."""
    if case.data in SOURCES:
        model = _language_model(folder, device) if case.model == "smollm2" else (str(folder / case.model), None)
        from slalom.contexts import language_model_of  # noqa: PLC0415

        yield from islice(_sources(language_model_of(*model, device=None if model[1] else device), case.data), number)
        return
    explainer = _explainer(case.model, folder, device)
    for text in islice(texts(case.data), number):
        yield Asked(explainer, (text,))


def texts(data: str) -> Iterator[str]:
    """Yield texts in a random order."""
    from lexicon import of_intents  # noqa: PLC0415

    from reviews import rows  # noqa: PLC0415

    found = rows(FILES[data])
    found = of_intents(found) if data == "intents" else found
    seen = {row["text"] for row in rows("imdb_train")} if data == "reviews" else set()
    least, most = {"reviews": (30, 130), "sentences": (12, 40), "news": (20, 60), "intents": (8, 30)}[data]
    for i in np.random.default_rng(5).permutation(len(found)):
        text = found[i]["text"].strip()
        if least <= len(text.split()) <= most and text not in seen:
            yield text


def _explainer(name: str, folder: Path, device: str) -> Any:
    from slalom import Explainer  # noqa: PLC0415
    from slalom.models import Prompted  # noqa: PLC0415

    from near_and_far import named  # noqa: PLC0415
    from prompted import FEW_SHOT, LABELS  # noqa: PLC0415

    options: dict[str, Any] = {"check": 0, "pairs": False, "progress": False}
    if name == "smollm2":
        return Explainer(Prompted(*_language_model(folder, device), FEW_SHOT, LABELS), **options)
    if name in ("bundled", "imdb-bert-2", "words"):
        model, device_ = named(name, device)
        return Explainer(*model, device=device_, unit="word" if name == "words" else None, **options)
    from arena.models import made  # noqa: PLC0415

    return Explainer(made(name, folder, device), device=device, **options)


@cache
def _language_model(folder: Path, device: str) -> tuple[Any, Any]:
    from prompted import language_model  # noqa: PLC0415

    own = folder / "smollm2.gguf"
    return language_model(str(own) if own.exists() else None, device)  # type: ignore[no-any-return]


def _sources(model: Any, data: str) -> Iterator[Asked]:
    """Yield contexts of news about which the language model has answered a question itself; "questions": its own."""
    from context import plain  # noqa: PLC0415
    from slalom import ContextExplainer  # noqa: PLC0415
    from slalom.contexts import sources_of  # noqa: PLC0415

    from reviews import rows  # noqa: PLC0415

    news = [plain(row["text"]) for row in rows("agnews_test")]
    order, sizes = iter(np.random.default_rng(5).permutation(len(news)).tolist()), SOURCES[data]
    for turn in range(len(news)):
        parts: list[str] = []
        while not parts or len(sources_of(" ".join(parts)).spans) < sizes[turn % len(sizes)]:
            parts.append(news[next(order)])
        names = [found for part in parts[2:-2] for found in _NAME.findall(part)[:1]]
        if names:
            context = " ".join(parts)
            options: dict[str, Any] = {"check": 0, "pairs": False, "progress": False, "max_answer_tokens": _LONGEST}
            explainer = ContextExplainer(model, context=context, **options)
            question = _QUESTION.format(subject=names[len(names) // 2])
            if data == "questions":
                about = next(part for part in parts[2:-2] if names[len(names) // 2] in part)
                question = model.generate([{"role": "user", "content": _ASK.format(part=about)}], 2 * _LONGEST).strip()
            answer = explainer.answer(question).partition("\n")[0]
            if answer:
                yield Asked(explainer, (question, answer))
