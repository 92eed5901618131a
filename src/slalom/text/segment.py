"""Where the words and sentences of a text begin and end, in any script.

A word is an HTML tag, a run of letters, digits and marks (with inner apostrophes), a word of a script that is written without
spaces, or one grapheme of anything else (punctuation, emoji with all their modifiers). White space belongs to no word. The
dictionaries of ICU (extra `segment`) find words of Chinese, Japanese, Thai, Lao, Khmer and Burmese; `simple_words` takes their
characters one by one and needs nothing.

A sentence ends at a line break, at an HTML break, and after a full stop, question or exclamation mark with the closing quotes,
brackets and emoji that follow it:

    mark                          ends the sentence
    of one script (。 । ؟)        always, except before the と after a quotation
    ! ?                           before white space, or before a script without spaces
    ... …                         before white space and anything but a lower-case letter
    .                             before white space, unless it belongs to an abbreviation, an initial or a list number

After a closing quote or bracket a lower-case letter continues the sentence ("Why?" she asked). The language is not known:
slalom.text.abbreviations is one table for all. docs/decisions/0001-sentences.md has the accuracy and the alternatives.

All spans are character offsets [start, end) into the text, in order, without overlaps.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from slalom.errors import require
from slalom.text.abbreviations import ABBREVIATIONS, COUNTED, STARTERS, Before

Spans = NDArray[np.int64]  # (n, 2)

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = (
    r"</?[A-Za-z][^<>]*>"
    rf"|(?P<unspaced>(?:[{_UNSPACED}]\p{{M}}*)%s)"
    rf"|(?:(?![{_UNSPACED}])[\p{{L}}\p{{N}}_]\p{{M}}*)+(?:['’](?:(?![{_UNSPACED}])\p{{L}}\p{{M}}*)+)*"
    r"|(?!\s)\X"
)
_SIMPLE_WORD, _WORD_OR_RUN = regex.compile(_WORD % ""), regex.compile(_WORD % "+")
_CLUSTER = regex.compile(r"\r\n|(?s:(?=.[^\x00-\x7f])\X)")
_BREAKS = r"(?:<br\s*/?>\s*)+"
_STOP = regex.compile(
    r"(?V1)"
    r"(?P<marks>[\p{STerm}…]+(?:[ \u00a0]\.)*)"
    r"(?P<closing>(?:[\"'”’»›)\]」』）】》〉]|[“«](?=\s|$)|[\s--[\r\n]]?»)*)"
    r"(?P<emoji>(?:[\s--[\r\n]]*+(?:(?=\p{Extended_Pictographic})\X|[:;=][-'^]?[)(DPpOo/|]+(?!\S)))*)"
    rf"(?P<space>\s*(?:{_BREAKS})?)"
    rf"|(?P<line>{_BREAKS}|[\r\n]+\s*)"
)
_CLEAR = regex.compile(r"(?V1)[\p{STerm}--[.!?．]]")
UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*+")
_LAST = regex.compile(
    r"(?r)(?:(?<![\p{L}\p{N}])\p{L}\.\s)*(?P<word>[\p{L}\p{N}][\p{L}\p{M}\p{N}]*(?:\.-?[\p{L}\p{M}\p{N}]+)*)$"
)
_INITIALS = regex.compile(r"(?:\p{Lu}\.-?)*\p{Lu}|(?:\p{Ll}\.)+\p{Ll}")  # J, U.S, J.-C; t.v
_BEGINS = regex.compile(r"[\p{Lu}\p{Lt}\p{Lo}\"'“‘„«¿¡]")
_GAP = regex.compile(r"(?:\r\n|\r|\n)[^\S\r\n]*(?:\r\n|\r|\n)\s*")  # a blank line
_REACH = 40  # characters before a full stop that are examined


def simple_words(text: str) -> Spans:
    """Return the spans of words, and of the single characters of scripts that are written without spaces.

    Example:
        >>> text = "It isn't good,<br />is it? 👍🏽 不错"
        >>> [text[a:b] for a, b in simple_words(text)]
        ['It', "isn't", 'good', ',', '<br />', 'is', 'it', '?', '👍🏽', '不', '错']
    """
    return _spans([match.span() for match in _SIMPLE_WORD.finditer(text)])


def words(text: str) -> Spans:
    """Return the spans of words, also of scripts that are written without spaces.

    Raises:
        MissingExtra: The text has words of Chinese, Japanese, Thai, Lao, Khmer or Burmese, and icu4py is not installed.

    Example:
        >>> text = "这部电影不错, isn't it?"
        >>> [text[a:b] for a, b in words(text)]
        ['这', '部', '电影', '不错', ',', "isn't", 'it', '?']
    """
    spans = []
    for match in _WORD_OR_RUN.finditer(text):
        start, end = match.span()
        if match["unspaced"] is None or end - start == 1:
            spans.append((start, end))
        else:
            for word in _dictionary_words(match.group()):
                spans.append((start, start + len(word)))
                start += len(word)
    return _spans(spans)


def _dictionary_words(run: str) -> list[str]:
    """Return the words of a run of characters without spaces; joined, they are the run."""
    shown = run if len(run) <= 12 else f"{run[:11]}…"
    with require(f'unit="word" in a script without spaces ({shown})', "segment", 'icu4py (unit="token" does not)'):
        from icu4py.breakers import WordBreaker  # noqa: PLC0415
    return list(WordBreaker(run, "root"))  # its segments() counts UTF-16 units, not characters


def sentences(text: str) -> Spans:
    """Return the spans of sentences, without the white space around them.

    Example:
        >>> text = "Mr. Smith left. Why?<br />Nobody knows"
        >>> [text[a:b] for a, b in sentences(text)]
        ['Mr. Smith left.', 'Why?<br />', 'Nobody knows']
    """
    ends, start = list[int](), 0
    for stop in _STOP.finditer(text):
        if stop["line"] or _ends(text, start, stop):
            start = stop.end()
            ends.append(start)
    return _cut(text, ends)


def paragraphs(text: str) -> Spans:
    """Return the spans of paragraphs, which blank lines separate, without the white space around them.

    Example:
        >>> text = "One.\\nStill one.\\n\\n \\nTwo."
        >>> [text[a:b] for a, b in paragraphs(text)]
        ['One.\\nStill one.', 'Two.']
    """
    return _cut(text, [gap.end() for gap in _GAP.finditer(text)])


def clusters(text: str) -> Spans:
    """Return the graphemes that have several code points: emoji with modifiers, letters with combining marks.

    Example:
        >>> clusters("a 👩‍👩‍👧 cafe\u0301").tolist()
        [[2, 7], [11, 13]]
    """
    return _spans([match.span() for match in _CLUSTER.finditer(text) if match.end() - match.start() > 1])


def _ends(text: str, start: int, stop: Any) -> bool:
    """Return whether these marks end the sentence that begins at `start`."""
    marks, closing, emoji, space = stop["marks"], stop["closing"], stop["emoji"], stop["space"]
    after = text[stop.end() : stop.end() + 1]
    if not after or any(sign in space for sign in "<\r\n"):
        return True
    if _CLEAR.search(marks):
        return not (closing and text.startswith(("と", "って"), stop.end()))
    if not space and not emoji:
        return "." not in marks and UNSPACED.match(after) is not None
    if after in ",;:)]" or (closing and after.islower()):
        return False
    if marks == ".":
        return bool(closing or emoji) or not _abbreviated(text, start, stop.start(), stop.end())
    return "!" in marks or "?" in marks or not after.islower()


def _abbreviated(text: str, start: int, end: int, after: int) -> bool:
    """Return whether the full stop at `end` belongs to the word before it; the text continues at `after`."""
    last = _LAST.search(text, max(start, end - _REACH), end)
    if last is None:
        return False
    word, first, letters = last["word"], text[after], _LETTERS.match(text, after)
    following = letters.group() if letters else ""
    kind = _kind("".join(last.group().split())) or _kind(word)  # "z. B" as "z.B"
    number = kind is not None or word.endswith("str")  # Goethestr. 5
    half = following and _kind(f"{word}.{following}")  # the first half of "z. B."
    if half or kind == "anything" or (number and first.isdecimal()) or (kind == "lower" and not _BEGINS.match(first)):
        return True
    before = text[max(start, last.start("word") - _REACH) : last.start("word")].split()
    if word.isdecimal():
        return following in COUNTED or not before
    return kind != "lower" and _initial(word, before, following, text.startswith(".", after + len(following)))


def _initial(word: str, before: list[str], following: str, dotted: bool) -> bool:
    """Return whether a word is one or more initials of the following name; dotted: the next word has a full stop."""
    if not following or not _INITIALS.fullmatch(word):
        return False
    if following[0].islower():
        return word != "I"
    if word.islower() or (following in STARTERS and not (dotted and len(following) == 1)):
        return False
    return word != "I" or not before or before[-1][0].isupper()


def _kind(word: str) -> Before | None:
    """Return what must follow an abbreviation that ends no sentence; single capitals are initials, not abbreviations."""
    if word in ABBREVIATIONS or len(word) == 1:
        return ABBREVIATIONS.get(word)
    lower = word.lower() if word.isupper() else word[0].lower() + word[1:]
    return ABBREVIATIONS.get(lower) or (ABBREVIATIONS.get(word.capitalize()) if word.isupper() else None)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space at its ends; a span of white space only is returned unchanged."""
    piece = text[start:end]
    left = piece.lstrip()
    if len(piece) == len(left.rstrip()) or not left:  # the usual case
        return start, end
    return start + len(piece) - len(left), start + len(piece.rstrip())


def _cut(text: str, ends: list[int]) -> Spans:
    """Return the spans of a text cut at these places, without white space."""
    return _spans([trimmed(text, a, b) for a, b in pairwise([0, *ends, len(text)]) if text[a:b].strip()])


def _spans(pairs: list[tuple[int, int]]) -> Spans:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
