"""A corpus of explanations made on the spot, for benchmarks of what reads it."""

from slalom import corpus


def explained(explainer, texts, given, out):
    """Explain texts and keep columns beside them; return the folder.

    Args:
        explainer: An `Explainer`.
        texts: The texts.
        given: Columns to keep, by name, one value per text.
        out: The folder.
    """
    names = list(given)
    rows = ({"text": text, **dict(zip(names, values, strict=True))} for text, *values in zip(texts, *given.values(), strict=True))
    corpus.run(rows, out, explainer=explainer, keep=names)
    return out
