"""What a lexicon has of the words of one text: the rows that need not be asked, and the prior of the fit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting.joint import Prior
from slalom.errors import InputError, count
from slalom.models import Engine, Head, Reading
from slalom.models.removal import removal_name
from slalom.text import Record, Units

if TYPE_CHECKING:
    from slalom.lexicon.lexicon import Lexicon

Keep = NDArray[np.bool_]

_OTHERS = np.array([0.2, 0.3, 0.2, 0.2])  # deviations between texts: bias, middle in those of scores; logit; log reach
_KERNELS = np.array([0.0, 0.0, 1.0, 1.0, 0.0])  # of the variances between texts
_MOST_UNSURE = 2.0  # largest logarithm of a mean variance relative to the usual one
_NEW = 0.3  # share of words that a lexicon lacks from which a text is unlike its texts


@final
class KnownWords(NamedTuple):
    """What a lexicon has of the p distinct words of a text of n units."""

    lexicon: "Lexicon"
    types: NDArray[np.int64]  # the distinct word of each unit (n,)
    first: NDArray[np.int64]  # the first unit of each distinct word (p,)
    found: NDArray[np.int64]  # its number in the lexicon (p,); -1 where it is not there
    with_empty: bool  # whether the text may be empty

    @property
    def known(self) -> NDArray[np.int64]:
        """The distinct words that need not be asked alone."""
        return np.flatnonzero(self.found >= 0)

    @property
    def new(self) -> NDArray[np.int64]:
        """The distinct words that the lexicon lacks."""
        return np.flatnonzero(self.found < 0)

    def rows(self) -> tuple[Keep, Floats]:
        """Return rows that the model has answered already: known words alone, and the empty text."""
        n, empty = len(self.types), self.lexicon.empty[: int(self.with_empty)]
        keep = np.concatenate([np.eye(n, dtype=bool)[self.first[self.known]], np.zeros((len(empty), n), dtype=bool)])
        return keep, np.concatenate([self.lexicon.outputs[self.found[self.known]], empty])

    def prior(self, head: Head, target: int, keep: Keep, scores: Floats) -> Prior:
        """Return the prior of the fit; new words have the values that the model gave them where they were asked alone."""
        a, known = self.lexicon.across, self.found >= 0
        k, sign = self.lexicon.column(head, target)
        bias, middle, reach, spread = sign * a.bias[k], sign * a.middle[k], a.reach[k], a.spread[k]
        values = np.where(known, sign * a.values[self.found, k], 0.0)
        importances = np.where(known, a.importances[self.found], 0.0)
        usual = self.lexicon.log_variances
        if not ((keep.sum(axis=1) > 1) & ~keep.all(axis=1)).any():  # none tells how far this text differs: the mean variance
            usual = usual + _KERNELS * np.minimum(0.5 / self.lexicon.certain, _MOST_UNSURE)
        variances = usual + 2.0 * np.log(np.array([spread, 1.0, spread, spread, spread]))
        wide = np.exp(-variances[:2]) * [a.values[:, k].var(), a.importances.var()]
        scales = np.stack([np.where(known, 1.0, wide[0]), np.where(known, 1.0, wide[1])])
        alone = np.flatnonzero(keep.sum(axis=1) == 1)
        score_of = dict(zip(self.types[keep[alone].argmax(axis=1)].tolist(), scores[alone].tolist(), strict=True))
        for i in (i for i in self.new.tolist() if i in score_of):
            values[i] = sign * a.before_link(np.full(len(a.bias), sign * score_of[i]))[k]
            scales[0, i] = 1.0
        others = (_OTHERS * [spread, 1.0, spread, 1.0]) ** 2
        means = np.concatenate([values, importances, [bias, a.logit, middle, np.log(reach)]])
        return Prior(means, scales.ravel(), others, variances, self.lexicon.certain, float(spread))

    def notes(self, asked: bool) -> tuple[str, ...]:
        """Return what a reader must know; `asked`: whether there were queries about the text."""
        about, new = self.lexicon.about, float((self.found < 0).mean())
        lines = [f"Begins with a lexicon of {count(about['texts'], 'text')}, which has {1.0 - new:.0%} of the different words."]
        if new > _NEW:
            lines.append(f"This text is unlike those of the lexicon: {new:.0%} of its different words are new.")
        if not asked and (quality := about.get("held_out")):
            lines.append(
                "No query was asked about parts of this text, so nothing tests this explanation. On"
                f" {count(quality['texts'], 'text')} that the words were not learnt from, the lexicon alone predicted with R2"
                f" {shown_r2(quality['near'])} near the text and {shown_r2(quality['far'])} on parts of all sizes (medians)."
            )
        return tuple(lines)


def check_single(text: Any) -> None:
    """Raise an InputError where a text has several fields: alone in one of them, a word is another input."""
    if isinstance(text, (Record, Mapping, tuple)):
        raise InputError("a lexicon has words of single texts; got several fields", "prior")


def shown_r2(r2: float | None) -> str:
    """Return R2 as it is shown."""
    return "not known" if r2 is None else f"{r2:.2f}"


def mirrored(head: Head) -> bool:
    """Return whether there are two classes, and the scores of one are those of the other, negated."""
    return len(head.labels) == 2 and (head.kind == "score" or (head.kind == "classes" and head.probabilistic))


def width(head: Head) -> int:
    """Return for how many classes words have a value of their own."""
    return 1 if mirrored(head) else len(head.labels)


def first_units(units: Units) -> NDArray[np.int64]:
    """Return the first unit of each distinct one (p,)."""
    return np.unique(units.shared.type_of_unit, return_index=True)[1]


def alone_keys(reading: Reading, units: Units, places: NDArray[np.int64]) -> list[bytes]:
    """Return the keys of the inputs of some units alone."""
    keys = [b""] * len(places)
    for group in reading.groups(units.atoms(np.eye(len(units), dtype=bool)[places])):
        for row, key in zip(group.rows.tolist(), group.build()[1], strict=True):
            keys[row] = keys[row] or key
    return keys


def identity_of(engine: Engine) -> str:
    """Return what identifies the model of an engine; InputError where nothing does, or words are not cut out."""
    if engine.model.removal != "drop":
        name = removal_name(engine.model.removal)
        raise InputError(f"a lexicon needs removal='drop'; got removal={name!r}", "prior", "removal")
    identity, twin = engine.given_identity or engine.model.identity(), engine.model.twin
    if twin is not None and identity == twin[1]:
        return twin[0]
    if identity is None:
        raise InputError(
            f"a lexicon needs to identify the model, and {engine.model.name} has no identity; pass identity=, a name that you"
            " change whenever the model changes",
            "prior",
        )
    return identity
