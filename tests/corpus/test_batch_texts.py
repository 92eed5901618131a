"""The words of a batch of texts: the same as those of every text by itself."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.corpus.batch_texts import GAP, BatchTexts
from slalom.text import simple_words

PARTS = (
    "rock",
    "'n'",
    "'s",
    "s",
    "3",
    "_",
    "'",
    "’",
    " ",
    "\n",
    "\r\n",
    "<br />",
    "<",
    ">",
    "</p>",
    "é",
    "e\u0301",
    "映画",
    "👍🏽",
    "\x1c",
    "a.b",
    "don't",
)
TEXTS = st.lists(st.lists(st.sampled_from(PARTS), max_size=8).map("".join) | st.text(max_size=12), min_size=1, max_size=6)


def read(texts):
    valid = [text.encode("utf-8", "replace").decode() for text in texts]
    return valid, BatchTexts(pa.array(["cut off", *valid], pa.string()).slice(1))


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_words_begin_where_they_do_in_each_text(texts):
    texts, batch = read(texts)
    begins = np.cumsum([0, *(len(text) + GAP for text in texts)])[:-1]
    assert batch.offsets.tolist() == begins.tolist()
    expected = [begin + int(start) for begin, text in zip(begins, texts, strict=True) for start, _ in simple_words(text)]
    assert batch.word_starts().tolist() == expected


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.randoms(use_true_random=False))
def test_slices_are_those_of_strings(texts, random):
    texts, batch = read(texts)
    spans = [(i, *sorted(random.choices(range(len(texts[i]) + 3), k=2))) for i in random.choices(range(len(texts)), k=9)]
    codes, found = batch.slices(*np.array(spans).T)
    assert [found[code] for code in codes] == [texts[i][a:b] for i, a, b in spans]
    assert len(set(found)) == len(found)


def test_what_is_easily_cut_otherwise():
    texts = ["it's 5's3 a'", "b1 <a", "b> x<i>y</i>'s", "", "o'clock_7'x"]
    batch = read(texts)[1]
    starts = batch.word_starts()
    text = np.searchsorted(batch.offsets, starts, side="right") - 1
    found = [texts[i][place:][:2] for i, place in zip(text, starts - batch.offsets[text], strict=True)]
    assert found == ["it", "5'", "3 ", "a'", "'", "b1", "<a", "a", "b>", "> ", "x<", "<i", "y<", "</", "'s", "s", "o'", "_7"]
