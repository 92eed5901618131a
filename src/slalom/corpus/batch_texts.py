"""The texts of a record batch: where their words begin, and what stands at very many spans, without a Python loop over words.

Words are those of `slalom.text.simple_words`. Texts of plain ASCII, which most English ones are, are cut by arrays of bytes:

    letters, digits, _    a word begins where none of them stands before, nor an apostrophe between such a sign and a letter
    <tag ...>             a word
    anything else         a word of its own, unless it is white space or such an apostrophe

Other texts are given to `slalom.text.simple_words`, joined by a separator that no word reaches across.
"""

import re
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.text import simple_words

Index = NDArray[np.int64]
Flags = NDArray[np.bool_]

GAP = 3  # characters between two texts, where positions are counted over all of them
_SEPARATOR = "\n<\n"  # no word, tag or grapheme reaches across it
_CODES = np.arange(256)
_LETTER = np.isin(_CODES, list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
_SIGN = _LETTER | np.isin(_CODES, list(b"0123456789_"))  # of words
_SPACE = np.isin(_CODES, list(b"\t\n\r "))
_PLAIN = ((_CODES >= 32) & (_CODES < 127)) | _SPACE
_APOSTROPHE = ord("'")
_TAG = re.compile(rb"</?[A-Za-z][^<>]*>")
_MIXED = re.compile(rb"'[A-Za-z]+[0-9_]")  # the digit begins a word although a letter stands before it


@final
class BatchTexts:
    """Texts in one array of bytes.

    Args:
        column: A pyarrow array of strings without nulls.

    Attributes:
        sizes: Characters of each text (n,).
        offsets: Where each begins, if `GAP` characters are between two of them (n,).
    """

    def __init__(self, column: Any) -> None:
        n = len(column)
        ends = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + n + 1].astype(np.int64)
        data = column.buffers()[2]
        every = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
        self._column, self._data = column, every[ends[0] : ends[-1]]
        self._begins = ends - ends[0]  # in bytes, with the end of the last one (n + 1,)
        self._characters = np.flatnonzero((self._data & 0xC0) != 0x80)  # where each begins, in bytes
        self._first = np.searchsorted(self._characters, self._begins)  # character (n + 1,)
        self.sizes: Index = np.diff(self._first)
        self.offsets: Index = np.cumsum(self.sizes + GAP) - self.sizes - GAP

    def word_starts(self) -> Index:
        """Return where words begin, in characters with `GAP` between two texts, ascending."""
        text = np.repeat(np.arange(len(self.sizes)), np.diff(self._begins))  # of each byte
        odd = np.zeros(len(self.sizes), dtype=bool)
        odd[text[~_PLAIN[self._data]]] = True
        content = self._data.tobytes()
        odd[text[[match.start() for match in _MIXED.finditer(content)]]] = True
        found = np.flatnonzero(self._plain_starts(text, content))
        found = found[~odd[text[found]]]
        plain = found - self._begins[text[found]] + self.offsets[text[found]]
        return np.sort(np.concatenate([plain, self._odd_starts(np.flatnonzero(odd))]))

    def _plain_starts(self, text: Index, content: bytes) -> Flags:
        """Return at which bytes words of plain texts begin."""
        data = self._data
        sign, first = _SIGN[data], np.diff(text, prepend=-1) > 0
        before = np.concatenate([[False], sign[:-1]]) & ~first
        after = np.concatenate([_LETTER[data[1:]] & ~first[1:], [False]])
        inner = (data == _APOSTROPHE) & before & after[: len(data)]
        starts = np.where(sign, ~before & ~np.concatenate([[False], inner[:-1]]), ~_SPACE[data] & ~inner)
        spans = np.array([match.span() for match in _TAG.finditer(content)], dtype=np.int64).reshape(-1, 2)
        spans = spans[text[spans[:, 0]] == text[spans[:, 1] - 1]]  # not from one text to another
        depth = np.zeros(len(data) + 1, dtype=np.int8)
        depth[spans[:, 0] + 1] += 1
        depth[spans[:, 1]] -= 1
        return np.asarray(starts & (np.cumsum(depth)[:-1] == 0))

    def _odd_starts(self, texts: Index) -> Index:
        """Return where words of other texts begin."""
        if not len(texts):
            return np.zeros(0, dtype=np.int64)
        starts = simple_words(_SEPARATOR.join(self._column[int(i)].as_py() for i in texts))[:, 0]
        sizes = self.sizes[texts] + len(_SEPARATOR)
        begins = np.cumsum(sizes) - sizes
        which = np.searchsorted(begins, starts, side="right") - 1
        inside = starts - begins[which]
        kept = inside < self.sizes[texts][which]
        return np.asarray(self.offsets[texts][which[kept]] + inside[kept])

    def slices(self, text: Index, start: Index, end: Index) -> tuple[Index, list[str]]:
        """Return what stands at spans of texts: the number of each among the different strings, and these."""
        import pyarrow as pa  # noqa: PLC0415

        places = np.append(self._characters, len(self._data))
        low, high = (places[self._first[text] + np.clip(ends, 0, self.sizes[text])] for ends in (start, end))
        lengths = np.maximum(high - low, 0)
        ends = np.cumsum(lengths)
        content = self._data[np.repeat(low - ends + lengths, lengths) + np.arange(int(lengths.sum()))]
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        coded = pa.StringArray.from_buffers(len(text), pa.py_buffer(offsets), pa.py_buffer(content)).dictionary_encode()
        return np.asarray(coded.indices.to_numpy(), dtype=np.int64), coded.dictionary.to_pylist()
