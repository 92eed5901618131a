"""Many texts: explain them all, resume, store as Parquet, and summarise what a model does in general.

<<<<<<< HEAD
run(source, out, explainer)     explain all texts of a source; the same call continues a run that has ended
retry_failed(out, explainer)    try the texts again that have failed
status(out)                     how far a run is
open(out)                       the table, as a `Corpus`
=======
open(folder)            the table of explanations in a folder, as a `Corpus`
summary(folder)         words and phrases over all its texts, and shortcuts among them
compare(one, other)     which words changed between two models, which predictions flipped and why
>>>>>>> corpussum
"""

from slalom.corpus.compared import CorpusComparison
from slalom.corpus.comparing import compare
from slalom.corpus.opening import Corpus, open  # noqa: A004
<<<<<<< HEAD
from slalom.corpus.progress import Status, status
from slalom.corpus.running import retry_failed, run

__all__ = ["Corpus", "Status", "open", "retry_failed", "run", "status"]
=======
from slalom.corpus.summarise import summary
from slalom.corpus.summarised import CorpusSummary, Shortcut, WordEffect

__all__ = ["Corpus", "CorpusComparison", "CorpusSummary", "Shortcut", "WordEffect", "compare", "open", "summary"]
>>>>>>> corpussum
