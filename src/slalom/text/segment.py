"""Where the words and sentences of a text begin and end, in any script.

A word is an HTML tag, a run of letters, digits and marks (with inner apostrophes), one character of a script that is written
without spaces, or one grapheme of anything else (punctuation, emoji with all their modifiers). White space belongs to
no word. A sentence ends after a full stop, question or exclamation mark (and closing quotes) that is followed by white space or
written in an East Asian script, at a line break, and at an HTML break.

All spans are character offsets [start, end) into the text, in order, without overlaps.
"""

import numpy as np
import regex
from numpy.typing import NDArray

Spans = NDArray[np.int64]  # (n, 2)

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(
    r"</?[A-Za-z][^<>]*>"
    rf"|[{_UNSPACED}]\p{{M}}*"
    rf"|(?:(?![{_UNSPACED}])[\p{{L}}\p{{N}}_]\p{{M}}*)+(?:['’](?:\p{{L}}\p{{M}}*)+)*"
    r"|(?!\s)\X"
)
_STOP = regex.compile(
    r"(?:<br\s*/?>\s*)+"
    r"|[\r\n]+\s*"
    r"|[.!?…]+[\"'”’»)\]]*(?=\s+[\p{Lu}\p{Lt}\p{Lo}\p{N}\"'“‘«(\[¿¡<]|\s*$)\s*"
    r"|[。！？]+[」』”’）]*\s*"
)
# A single full stop after these ends no sentence.
_SHORT = regex.compile(r"(?:^|\W)(?:\p{Lu}|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|No|Vol|cf|Jr|Sr)$")


def words(text: str) -> Spans:
    """Return the spans (n, 2) of the words.

    >>> text = "It isn't good,<br />is it? 👍🏽"
    >>> [text[a:b] for a, b in words(text)]
    ['It', "isn't", 'good', ',', '<br />', 'is', 'it', '?', '👍🏽']
    """
    return _spans([match.span() for match in _WORD.finditer(text)])


def sentences(text: str) -> Spans:
    """Return the spans (n, 2) of the sentences, each without the white space around it.

    >>> text = "Mr. Smith left. Why?<br />Nobody knows"
    >>> [text[a:b] for a, b in sentences(text)]
    ['Mr. Smith left.', 'Why?<br />', 'Nobody knows']
    """
    cuts, start = [], 0
    for stop in _STOP.finditer(text):
        single = stop.group().strip() == "."
        if single and _SHORT.search(text, start, stop.start()):
            continue
        cuts.append((start, stop.end()))
        start = stop.end()
    cuts.append((start, len(text)))
    return _spans([trimmed(text, a, b) for a, b in cuts if text[a:b].strip()])


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the white space at its ends; one that is white space alone stays as it is."""
    piece = text[start:end]
    left = piece.lstrip()
    if len(piece) == len(left.rstrip()) or not left:  # as good as always
        return start, end
    return start + len(piece) - len(left), start + len(piece.rstrip())


def _spans(pairs: list[tuple[int, int]]) -> Spans:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
