"""Many texts: explain them all, resume, store as Parquet, and summarise what a model does in general.

open(folder)            the table of explanations in a folder, as a `Corpus`
"""

from slalom.corpus.opening import Corpus, open  # noqa: A004

__all__ = ["Corpus", "open"]
