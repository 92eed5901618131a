"""Many texts: explain them all, resume, store as Parquet, and summarise what a model does in general.

open(folder)            the table of explanations in a folder, as a `Corpus`
summary(folder)         words and phrases over all its texts, and shortcuts among them
compare(one, other)     which words changed between two models, which predictions flipped and why
"""

from slalom.corpus.compared import CorpusComparison
from slalom.corpus.comparing import compare
from slalom.corpus.opening import Corpus, open  # noqa: A004
from slalom.corpus.summarise import summary
from slalom.corpus.summarised import CorpusSummary, Shortcut, WordEffect

__all__ = ["Corpus", "CorpusComparison", "CorpusSummary", "Shortcut", "WordEffect", "compare", "open", "summary"]
