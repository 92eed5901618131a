"""Many texts: explain them all, resume, store as Parquet, and summarise what a model does in general.

run(source, out, explainer)     explain all texts of a source; the same call continues a run that has ended
retry_failed(out, explainer)    try the texts again that have failed
status(out)                     how far a run is
open(out)                       the table, as a `Corpus`
"""

from slalom.corpus.opening import Corpus, open  # noqa: A004
from slalom.corpus.progress import Status, status
from slalom.corpus.running import retry_failed, run

__all__ = ["Corpus", "Status", "open", "retry_failed", "run", "status"]
