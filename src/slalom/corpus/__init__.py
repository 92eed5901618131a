"""Many texts: explain them all, resume, store as Parquet, and summarise what a model does in general.

run(source, out, explainer)     explain all texts of a source; the same call continues a run that has ended
retry_failed(out, explainer)    try the texts again that have failed
status(out)                     how far a run is
open(out)                       the table, as a `Corpus`
summary(out)                    words and phrases over all its texts, and shortcuts among them
compare(out1, out2)             which words changed between two models, which predictions flipped and why
"""

from slalom.corpus.comparing import compare
from slalom.corpus.opening import Corpus, open  # noqa: A004
from slalom.corpus.progress import Status, status
from slalom.corpus.results import CorpusComparison, CorpusSummary, Shortcut, WordEffect
from slalom.corpus.running import retry_failed, run
from slalom.corpus.summarise import summary

__all__ = [
    "Corpus",
    "CorpusComparison",
    "CorpusSummary",
    "Shortcut",
    "Status",
    "WordEffect",
    "compare",
    "open",
    "retry_failed",
    "run",
    "status",
    "summary",
]
