"""How many hand-made cases slalom, sentencex and pysbd split right, and the time per 1,000 characters.

    pip install sentencex pysbd
    python benchmarks/sentences.py

The cases are those of the tests. Line and HTML breaks are split before the packages see a text, so that only their own rules
count. "known" gives them the language of each case, "en" does not: slalom is never told. docs/decisions/0001-sentences.md
has the result.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pysbd
import regex
import sentencex

sys.path.insert(0, str(Path(__file__).parents[1]))

from slalom.text import sentences
from tests.text.sentence_cases import HELD_OUT, MARKED, unmarked

LINE = regex.compile(r".+?(?:(?:<br\s*/?>\s*)+|[\r\n]+\s*|$)", regex.DOTALL)
TEXT = (
    "The first half is dull. The second half is one of the best things I have seen in years, and Mr. Smith (who plays the lead)"
    " is wonderful in it! I saw it at 5 p.m. on a Monday, e.g. with nobody else in the room. Would I see it again? No. "
) * 40
SEGMENTERS: dict[str, pysbd.Segmenter] = {}


def ours(text, language):
    return [text[a:b] for a, b in sentences(text)]


def by_sentencex(text, language):
    return sentencex.segment(language, text)


def by_pysbd(text, language):
    if language not in SEGMENTERS:
        SEGMENTERS[language] = pysbd.Segmenter(language=language, clean=False)
    return SEGMENTERS[language].segment(text)


def right(split: Callable, cases: dict[str, list[str]], language: str | None) -> str:
    """Return how many cases are split right."""
    n = total = 0
    for own, marked in ((own, marked) for own, some in cases.items() for marked in some):
        text, expected = unmarked(marked)
        found = [part.strip() for line in LINE.findall(text) for part in split(line, language or own)]
        n, total = n + ([part for part in found if part] == expected), total + 1
    return f"{n} of {total}"


def main():
    print("| | language | cases | held out | µs per 1,000 characters |\n|---|---|---|---|---|")
    for split in (ours, by_sentencex, by_pysbd):
        times = []
        for _ in range(3):
            began = perf_counter()
            split(TEXT, "en")
            times.append((perf_counter() - began) / len(TEXT) * 1e9)
        name = split.__name__.removeprefix("by_")
        for language in ("en",) if split is ours else ("en", None):
            shown = "not needed" if split is ours else language or "known"
            cells = [name, shown, right(split, MARKED, language), right(split, HELD_OUT, language), f"{min(times):.0f}"]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
