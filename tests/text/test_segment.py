import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom.text import sentences, words

WORDS = [
    ("It isn't good", ["It", "isn't", "good"]),
    ("good,bad", ["good", ",", "bad"]),
    ("one<br /><br />two", ["one", "<br />", "<br />", "two"]),
    ("a < b > c", ["a", "<", "b", ">", "c"]),
    ("cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),  # combining marks stay with their letters
    ("👍🏽👨‍👩‍👧!", ["👍🏽", "👨‍👩‍👧", "!"]),
    ("我爱你。", ["我", "爱", "你", "。"]),
    ("ภาษา", ["ภ", "า", "ษ", "า"]),
    ("Füße 3,5 %", ["Füße", "3", ",", "5", "%"]),
    ("line\r\nbreak", ["line", "break"]),
    ("snake_case x2", ["snake_case", "x2"]),
    ("हिन्दी में", ["हिन्दी", "में"]),
    ("", []),
    (" \t\r\n", []),
]

SENTENCES = [
    ("One. Two! Three?", ["One.", "Two!", "Three?"]),
    ("Mr. Smith left. He ran.", ["Mr. Smith left.", "He ran."]),
    ("J. R. R. Tolkien wrote. It sold.", ["J. R. R. Tolkien wrote.", "It sold."]),
    ("It cost 3.50 dollars.", ["It cost 3.50 dollars."]),
    ('"Why?" she asked. Nobody knew', ['"Why?" she asked.', "Nobody knew"]),
    ("first<br /><br />second", ["first<br /><br />", "second"]),
    ("first\r\n\r\nsecond", ["first", "second"]),
    ("我爱你。你呢？", ["我爱你。", "你呢？"]),
    ("wait... what", ["wait... what"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_words(text, expected):
    assert [text[a:b] for a, b in words(text)] == expected


@pytest.mark.parametrize(("text", "expected"), SENTENCES)
def test_sentences(text, expected):
    assert [text[a:b] for a, b in sentences(text)] == expected


@given(st.text(max_size=60))
def test_spans_are_in_order_and_leave_only_white_space_out(text):
    for spans in (words(text), sentences(text)):
        flat = spans.ravel().tolist()
        assert flat == sorted(flat)
        assert all(b > a for a, b in spans)
        left = list(text)
        for a, b in spans:
            left[a:b] = [" "] * (b - a)
        assert not "".join(left).strip()
