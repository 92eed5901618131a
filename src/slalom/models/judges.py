"""Whether a sample of a language model says what an answer says: judges give a number to pairs of texts.

judge        "agree" (0 or 1)                                "similarity"
None         the sample has the words of each sentence       F1 of the words of both
a function   it returns True, or a number of at least 0.5    the number that it returns
an encoder   a cosine of at least 0.8                        the cosine
"model"      the language model says yes                     the same
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from slalom.core.checks import Floats, check_choice
from slalom.errors import InputError, ModelError, SlalomError, one_line
from slalom.models.continuation import LanguageModel
from slalom.models.functions import Similarity
from slalom.text import function_name, sentences, simple_words

Score: TypeAlias = Literal["agree", "similarity"]
Pair: TypeAlias = tuple[str, str]  # a text of an answer, and one of a sample
VERDICT = 4  # tokens that the language model may write as a judge
QUESTION = "Question: {}\nAnswer A: {}\nAnswer B: {}\nDoes answer B say what answer A says? Answer with yes or no."
_SAME, _SAME_COSINE = 0.5, 0.8  # numbers from which on two texts agree


@final
@dataclass(frozen=True)
class Judge:
    """Gives numbers to pairs of an answer and a sample.

    Attributes:
        name: Its name, for caches and messages.
        compare: Returns the numbers of pairs.
        least: The number from which on they agree, 1 then and 0 else. None: numbers are similarities.
        asks: Whether the language model is asked; then about whole samples only, which costs less.
    """

    name: str
    compare: Callable[[list[Pair]], Any]
    least: float | None
    asks: bool = False

    def __call__(self, pairs: list[Pair]) -> Floats:
        """Return the numbers of pairs (n,)."""
        try:
            numbers = np.asarray(self.compare(pairs), dtype=np.float64)
        except SlalomError:
            raise
        except Exception as error:
            raise InputError(f"judge={self.name} failed: {type(error).__name__}: {one_line(error)}") from error
        if numbers.shape != (len(pairs),) or not np.isfinite(numbers).all():
            got = one_line(numbers.tolist(), 60)
            raise ModelError(f"judge={self.name} must return a finite number, or whether two texts agree; got {got}")
        return numbers if self.least is None else (numbers >= self.least).astype(np.float64)


def judge_of(judge: Any, score: Score, language_model: LanguageModel | None, question: str) -> Judge:
    """Return the judge that a user names.

    Example:
        >>> judge_of(None, "agree", None, "")([("In Graz.", "She lives in Graz."), ("In Graz.", "In Linz.")]).tolist()
        [1.0, 0.0]
        >>> judge_of(None, "similarity", None, "")([("In Graz.", "She lives in Graz.")]).round(2).tolist()
        [0.67]
    """
    check_choice("score", score, ("agree", "similarity"))
    least = None if score == "similarity" else _SAME
    if judge is None:
        compare = _stands_in if score == "agree" else _overlap
        return Judge("words", lambda pairs: [compare(*pair) for pair in pairs], least)
    if judge == "model":
        return Judge("model", lambda pairs: _verdicts(language_model, question, pairs), least, asks=True)
    if callable(getattr(judge, "encode", None)):
        cosine = Similarity(judge)
        return Judge(cosine.__name__, cosine, None if least is None else _SAME_COSINE)
    if callable(judge):
        return Judge(function_name(judge), lambda pairs: [judge(*pair) for pair in pairs], least)
    expected = 'a function (answer, sample) -> bool or number, an encoder with a method encode, or "model"'
    raise InputError(f"judge must be {expected}; got {judge!r:.50}")


def _words(text: str) -> list[str]:
    words = [text[a:b].casefold() for a, b in simple_words(text)]
    return [word for word in words if any(map(str.isalnum, word))] or words


def _stands_in(answer: str, sample: str) -> bool:
    """Return whether the words of each sentence of an answer stand together in a sample; its words are not counted as one."""
    said = f" {' '.join(_words(sample))} "
    return all(f" {' '.join(_words(answer[a:b]))} " in said for a, b in sentences(answer))


def _overlap(answer: str, sample: str) -> float:
    one, other = Counter(_words(answer)), Counter(_words(sample))
    return 2.0 * (one & other).total() / max(one.total() + other.total(), 1)


def _verdicts(language_model: LanguageModel | None, question: str, pairs: Sequence[Pair]) -> list[bool]:
    """Return what the language model says about pairs."""
    assert language_model is not None
    texts = [QUESTION.format(question, *pair) for pair in pairs]
    chats = language_model.samples_chats
    prompts: list[Any] = [[{"role": "user", "content": text}] if chats else f"{text}\nVerdict:" for text in texts]
    said = language_model.sample(prompts, VERDICT, 1, 0.0)
    return [verdict.lstrip(" \"'*").casefold().startswith("yes") for (verdict,) in said]
