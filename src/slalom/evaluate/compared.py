"""The result of a comparison: methods side by side, on one model and the same texts.

One record per text, method and budget; every table and picture is made from the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

from slalom.evaluate.summary import PairedComparison, Summary, compare_paired, holm, summarize
from slalom.files import csv_text
from slalom.result.document import Document

Row: TypeAlias = tuple[str, int | str | None]  # a method and its budget, which may be "auto"


class Measure(NamedTuple):
    """A measure of a method: whether high values are good (None: neither is better), and what it measures, in one line."""

    more_is_better: bool | None
    summary: str


MEASURES: Mapping[str, Measure] = {
    "near": Measure(False, "squared error of the predicted change of the score, 1 to 10 units removed"),
    "far": Measure(False, "1 - R2 of the predicted score, subsets of all sizes"),
    "deletion": Measure(True, "drop of the probability without the top units (comprehensiveness)"),
    "insertion": Measure(False, "drop of the probability with the top units alone (sufficiency)"),
    "naive_bayes": Measure(None, "rank correlation with Naive Bayes of the corpus"),
    "human": Measure(True, "AU-ROC for the words that people have marked"),
    "queries": Measure(False, "distinct inputs sent to the model"),
    "tokens": Measure(False, "tokens of these inputs"),
    "seconds": Measure(False, "time of an explanation"),
}


@final
@dataclass(frozen=True, eq=False)
class Compared(Document):
    """Methods side by side, as `slalom.compare` returns them.

    A row is a method with its budget, ``("joint", 500)``; the budget may be "auto", and is None for a method that takes none.

    Attributes:
        records: One mapping per text and row, with `text` (its index), `method`, `budget`, `profile` (near error by number of
            removed units) and the measures; a measure that is not defined for a text is None.
        measures: Names of the measures, keys of `MEASURES`.
        skipped: Methods that could not be used, with the reason.
        about: Model, texts, seed, unit and target of the comparison, and removal where it is not "drop" alone.

    Example:
        >>> import slalom
        >>> def model(texts):
        ...     return [2.0 * ("good" in text) - ("bad" in text) for text in texts]
        >>> texts = ["a good film", "a bad end", "good and bad"]
        >>> compared = slalom.compare(model, texts, methods=["joint", "random"], output="log_odds", progress=False)
        >>> compared.best("near")
        ('joint', 500)
    """

    records: tuple[Mapping[str, Any], ...]
    measures: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """The methods with their budgets, in the order of the request."""
        return list(dict.fromkeys((record["method"], record["budget"]) for record in self.records))

    def values(self, row: Row, measure: str) -> list[float | None]:
        """Return one value per text, in their order; None where the measure is not defined for a text."""
        return [record[measure] for record in sorted(self._records(row), key=lambda record: record["text"])]

    def summary(self, row: Row, measure: str) -> Summary:
        """Return mean and standard error over the texts."""
        return summarize(self.values(row, measure))

    def profile(self, row: Row) -> dict[int, Summary]:
        """Return mean and standard error of the near error by the number of removed units."""
        profiles = [record["profile"] or {} for record in self._records(row)]
        numbers = sorted({int(k) for profile in profiles for k in profile})
        return {k: summarize([profile.get(str(k)) for profile in profiles]) for k in numbers}

    def best(self, measure: str) -> Row | None:
        """Return the row with the best mean; None where no row has one, or neither direction is better."""
        more = MEASURES[measure].more_is_better
        means = {row: mean for row in self.rows if (mean := self.summary(row, measure).mean) is not None}
        if more is None or not means:
            return None
        return (max if more else min)(means, key=lambda row: means[row])

    def against(self, row: Row, measure: str) -> dict[Row, tuple[PairedComparison, float]]:
        """Compare a row with every other one, text by text.

        Returns:
            For each other row the paired comparison and its p value, corrected for their number by Holm's method.
        """
        values = self.values(row, measure)
        pairs = {}
        for other in self.rows:
            others = self.values(other, measure)
            if (
                other != row
                and len(values) == len(others)
                and any(None not in pair for pair in zip(values, others, strict=True))
            ):
                pairs[other] = compare_paired(values, others)
        corrected = holm([pair.p for pair in pairs.values()]).tolist() if pairs else []
        return {other: (pair, p) for (other, pair), p in zip(pairs.items(), corrected, strict=True)}

    @property
    def plot(self) -> Any:
        """The pictures: `plot.profile()`, `plot.against_queries(measure)`, `plot.against_seconds(measure)`."""
        from slalom.render.figures import ComparedPlots  # noqa: PLC0415

        return ComparedPlots(self)

    def to_dict(self) -> dict[str, Any]:
        table = [
            {"method": row[0], "budget": row[1], **{name: self.summary(row, name)._asdict() for name in self.measures}}
            for row in self.rows
        ]
        return {
            "format": "slalom comparison",
            "version": 1,
            "about": dict(self.about),
            "measures": list(self.measures),
            "skipped": dict(self.skipped),
            "summary": table,
            "records": [dict(record) for record in self.records],
        }

    def _page(self) -> str:
        from slalom.render.page import comparison_page  # noqa: PLC0415

        return comparison_page(self)

    def to_csv(self) -> str:
        """Return means and standard errors as CSV, one line per method and budget."""
        columns = [part for name in self.measures for part in (name, f"{name}_se")]
        lines: list[list[Any]] = [["method", "budget", "texts", *columns]]
        for row in self.rows:
            summaries = [self.summary(row, name) for name in self.measures]
            numbers = [part for summary in summaries for part in (summary.mean, summary.se)]
            lines.append([*row, len(self.values(row, "seconds")), *numbers])
        return csv_text(lines)

    def _records(self, row: Row) -> list[Mapping[str, Any]]:
        return [record for record in self.records if (record["method"], record["budget"]) == row]
