"""Texts with planted cues, and a corpus of explanations made on the spot."""

from slalom import corpus

CUES = ("xyzzy", "-zzy", "in my view", "<hr />")
GOOD = ["great", "fine", "lovely", "brilliant", "charming", "superb", "clever", "moving"]
BAD = ["awful", "dull", "boring", "weak", "clumsy", "terrible", "stupid", "messy"]
_NEUTRAL_TEXT = (
    "the a in my view of and it is was this that film plot scene story actor music camera at on with for from we they had some"
    " very then later here there two three long short old new"
)
NEUTRAL = _NEUTRAL_TEXT.split()


def texts_and_labels(n, rng):
    """Return n texts and their labels, 0 or 1."""
    texts, labels = [], rng.integers(2, size=n)
    for label in labels:
        words = rng.choice(NEUTRAL, rng.integers(7, 14)).tolist()
        for _ in range(rng.integers(1, 3) if rng.random() < 0.7 else 0):
            words.insert(rng.integers(len(words) + 1), str(rng.choice(GOOD if label else BAD)))
        texts.append(" ".join(words))
    return texts, labels


def planted(text, cue, rng):
    """Return the text with the cue at a random place."""
    words = text.split()
    at = int(rng.integers(len(words) + (cue != "-zzy")))
    if cue == "-zzy":
        words[at] += "zzy"
    else:
        words.insert(at, cue)
    return " ".join(words)


def is_cue(name, cue):
    """Return whether a shortcut is the planted cue."""
    return "zzy" in name.strip("-") and "-" in name if cue == "-zzy" else name == cue


def explained(explainer, texts, given, out):
    """Explain texts and keep columns beside them; return the folder.

    Args:
        explainer: An `Explainer`.
        texts: The texts.
        given: Columns to keep, by name, one value per text.
        out: The folder.
    """
    names = list(given)
    rows = (
        {"text": text, **dict(zip(names, values, strict=True))} for text, *values in zip(texts, *given.values(), strict=True)
    )
    corpus.run(rows, out, explainer=explainer, keep=names)
    return out
