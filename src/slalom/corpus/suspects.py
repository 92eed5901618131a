"""Which keys of a summary are listed, and which are suspected shortcuts (`slalom.corpus.shortcuts` has the formulas)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.corpus.counts import Counts, Groups
from slalom.corpus.effects import interval_half
from slalom.corpus.queries import BETWEEN, kind_of
from slalom.corpus.shortcuts import Known, Rival, Suspicion, explained_by_part, reliance, representatives, suspicion

Observed: TypeAlias = Callable[[Sequence[int]], Iterator[None]]

SELECTED = 20_000  # keys whose parts and effects by cell are known
_SHORTCUTS = 30
_SUSPECTS = 1000  # of which those are shortcuts that stand for themselves


@final
class Totals:
    """Sums over all texts of the keys that occur often enough, in parallel arrays; the id of a key is its place in them.

    Args:
        connection: Has them in the table `totals`.
    """

    def __init__(self, connection: Any) -> None:
        found = connection.execute("SELECT * EXCLUDE key FROM totals ORDER BY id").fetchnumpy()
        self.sums: dict[str, Floats] = {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}
        self.n, self.mean = self.sums["n"], self.sums["s1"] / np.maximum(self.sums["n"], 1)
        self.variance = np.maximum(self.sums["s2"] - self.sums["s1"] * self.mean, 0.0) / np.maximum(self.n - 1, 1)
        self.reliance = reliance(self.n, self.mean, self.variance)

    def order(self, sort: str) -> Floats:
        """Return the numbers to sort by, largest first; for "effect" the end of the listed interval on zero's side."""
        if sort == "effect":
            return np.asarray(np.abs(self.mean) - interval_half(self.n, self.variance))
        return np.abs(self.sums["s1"]) if sort == "total" else self.n

    def selected(self, sort: str, top: int) -> NDArray[np.int64]:
        """Return the ids of the keys with the largest reliance, and of candidates of the lists."""
        order, length = self.order(sort), self.sums["length"]
        chosen = [np.argsort(-self.reliance, kind="stable")[:SELECTED]]
        for one in np.unique(length):
            inside = np.flatnonzero(length == one)
            chosen.append(inside[np.argsort(-order[inside], kind="stable")[: 10 * top]])
        return np.unique(np.concatenate(chosen))

    def known(self, key: int) -> Known:
        """Return texts and mean effect of a key by its id."""
        return Known(float(self.n[key]), float(self.mean[key]))


@final
class Selection:
    """The keys whose parts are known: phrases and words of a phrase, pieces of a word.

    Args:
        connection: Has the tables `totals`, `selected` and `pieces`.
        totals: What is known of all keys.

    Attributes:
        keys: The keys by id, in ascending order.
        parts: For each id its parts, each with the words (pieces) of the whole that are not in it; those that are frequent.
    """

    def __init__(self, connection: Any, totals: Totals) -> None:
        self.totals, self._connection = totals, connection
        self.keys: dict[int, str] = dict(
            connection.execute("SELECT id, key FROM totals SEMI JOIN selected USING (id) ORDER BY id").fetchall()
        )
        pieces = dict(connection.execute("SELECT key, any_value(pieces) FROM pieces GROUP BY key").fetchall())
        named = {key: _parts_of(name, pieces.get(name, ())) for key, name in self.keys.items()}
        wanted = sorted({name for parts in named.values() for part, rest in parts.items() for name in (part, *rest)})
        query = "SELECT key, id FROM totals SEMI JOIN (SELECT unnest(?) AS key) USING (key)"
        ids: dict[str, int] = dict(connection.execute(query, [wanted]).fetchall()) if wanted else {}
        self.parts = {
            key: {ids[part]: [ids[name] for name in rest if name in ids] for part, rest in parts.items() if part in ids}
            for key, parts in named.items()
        }

    def listed(self, kind: str, sort: str, top: int) -> list[int]:
        """Return the strongest of a kind; phrases that a part explains are left out."""
        order, found = self.totals.order(sort), list[int]()
        of_kind = [key for key, name in self.keys.items() if kind_of(name) == kind]
        for key in sorted(of_kind, key=lambda key: -order[key]):
            if len(found) == top:
                break
            parts = [self.totals.known(part) for part in self.parts[key]] if kind == "phrase" else []
            if not explained_by_part(self.totals.known(key), parts):
                found.append(key)
        return found

    def suspects(self, counts: Counts, groups: Groups, observed: Observed) -> tuple[dict[int, int], Suspicion]:
        """Return the most suspicious ids that stand for themselves, with their places in the numbers that are returned too."""
        ids, totals = np.array(list(self.keys)), self.totals
        labels = slices = None
        sizes = counts.sizes()
        if "gold" in sizes and counts.target in counts.labels:
            by_gold, column = groups.texts("gold"), counts.labels.index(counts.target)
            known = sum(sizes["gold"].values())
            rate = sizes["gold"][counts.target] / known if known else 0.0
            labels = by_gold[:, column], by_gold.sum(axis=1) - by_gold[:, column], rate
        if "slice" in sizes and (total := sum(sizes["slice"].values())):
            slices = groups.texts("slice"), np.array(list(sizes["slice"].values())) / total
        numbers = suspicion(totals.n[ids], totals.mean[ids], totals.variance[ids], counts.texts, labels=labels, slices=slices)
        order = np.argsort(-numbers.score, kind="stable")
        place = {int(ids[i]): int(i) for i in order[numbers.score[order] > 0][:_SUSPECTS]}
        score = dict(zip(ids.tolist(), numbers.score.tolist(), strict=True))
        alone = representatives(self._rivals([*place, *self._words_of_pieces(place)], score, observed))
        return {key: i for key, i in place.items() if alone[key]}, numbers

    def _words_of_pieces(self, keys: Mapping[int, int]) -> list[int]:
        """Return words that have some of these keys as pieces, beside those that are among them: the strongest ones."""
        found = [
            key
            for key, parts in self.parts.items()
            if key not in keys and kind_of(self.keys[key]) == "word" and not parts.keys().isdisjoint(keys)
        ]
        return sorted(found, key=lambda key: -self.totals.reliance[key])[:_SUSPECTS]

    def _rivals(self, keys: Iterable[int], score: Mapping[int, float], observed: Observed) -> dict[int, dict[int, Rival]]:
        """Return for each key its parts, with what they do in its texts and elsewhere."""
        inside = self._inside([(key, part) for key in keys for part in self.parts[key]], observed)
        rivals: dict[int, dict[int, Rival]] = {}
        for key in keys:
            whole, parts = self.totals.known(key), self.parts[key]
            sign = 1.0 if whole.mean >= 0 else -1.0
            means = {part: total / n if n else 0.0 for part in parts for n, total in [inside.get((key, part), (0, 0.0))]}
            rivals[key] = {}
            for part, others in parts.items():
                (n, total), known = inside.get((key, part), (0, 0.0)), self.totals.known(part)
                without = max(known.texts - n, 0.0)
                elsewhere = (known.texts * known.mean - total) / without if without else 0.0
                rest = sign * max((sign * means[other] for other in others if other in means), default=0.0)
                carried = score.get(part, 0.0) / score[key] if score[key] > 0 else 1.0
                rivals[key][part] = Rival(whole.mean, whole.texts, known.mean, means[part], elsewhere, without, rest, carried)
        return rivals

    def _inside(self, pairs: Sequence[tuple[int, int]], observed: Observed) -> dict[tuple[int, int], tuple[int, float]]:
        """Return for each (whole, part) the number of texts that have both, and the sum of the part's effects there."""
        if not pairs:
            return {}
        run = self._connection.execute
        run(
            "CREATE TABLE pairs AS SELECT unnest(?) AS whole, unnest(?) AS part",
            [list(ids) for ids in zip(*pairs, strict=True)],
        )
        run("CREATE TABLE inside(whole BIGINT, part BIGINT, n BIGINT, total DOUBLE)")
        for _ in observed(sorted({key for pair in pairs for key in pair})):
            run(
                "INSERT INTO inside SELECT whole, part, count(*), sum(p.y) FROM pairs JOIN seen w ON w.id = whole"
                " JOIN seen p ON p.id = part AND p.number = w.number GROUP BY whole, part"
            )
        found = run("SELECT whole, part, sum(n), sum(total) FROM inside GROUP BY whole, part").fetchall()
        return {(whole, part): (int(n), total) for whole, part, n, total in found}


def _parts_of(key: str, pieces: Sequence[str]) -> dict[str, list[str]]:
    """Return the shorter phrases and words of a phrase, or the pieces of a word, each with the rest of the whole.

    Example:
        >>> _parts_of("in\\x1fmy", ())
        {'in': ['my'], 'my': ['in']}
    """
    if kind_of(key) != "phrase":
        return {piece: [other for other in pieces if other != piece] for piece in pieces}
    words = key.split(BETWEEN)
    return {
        BETWEEN.join(words[i : i + n]): [*words[:i], *words[i + n :]]
        for n in range(1, len(words))
        for i in range(len(words) - n + 1)
    }
