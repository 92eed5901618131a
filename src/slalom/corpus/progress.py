"""How far a run is: the bar that it shows, the file that it leaves, and `slalom corpus status`."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from slalom.corpus.files import Source
from slalom.corpus.folder import MANIFEST, PROGRESS, UNDER_WAY, Folder, damage, part_name
from slalom.corpus.lock import is_running
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.table import STATUSES
from slalom.errors import InputError, count, plural
from slalom.progress import progress_bar

_SAVED = 2.0  # seconds between two savings


@final
class Progress:
    """The progress of a run, for its user and for `status`: texts that were there before, and those that come."""

    def __init__(self, folder: Folder, source: Source, done: int, limit: int | None, shown: bool | None) -> None:
        self.folder, self.source, self.limit = folder, source, limit
        self.done = self.began_with = done
        self.read = self.failed = 0  # rows of the source, the ones that were skipped included; texts
        self.began, self._saved, self.complete = time.time(), 0.0, bool(saved_progress(folder).get("complete"))
        self.count = source.count()
        self.bar = progress_bar(shown, total=self.texts, initial=done, unit="text", desc="explaining", smoothing=0.05)

    @property
    def texts(self) -> int | None:
        """Number of texts in all, as far as it is known: counted, or estimated from the share of the bytes that was read."""
        number, share = self.count, self.source.share()
        if number is None and share and self.read:
            number = max(round(self.read / share), self.read)
        return min((n for n in (number, self.limit) if n is not None), default=None)

    def add(self, counts: dict[str, int]) -> None:
        self.done += sum(counts.values())
        self.bar.update(max(self.done - self.bar.n, 0))
        self.failed += counts["failed"] + counts["killed"]
        if self.failed:
            self.bar.set_postfix_str(f"{self.failed} failed", refresh=False)
        self.tick()

    def tick(self) -> None:
        if self.bar.total != self.texts:
            self.bar.total = self.texts
            self.bar.refresh()
        if time.time() - self._saved > _SAVED:
            self.save()

    def save(self) -> None:
        self._saved = time.time()
        saved = {name: getattr(self, name) for name in ("texts", "done", "began_with", "began", "complete")}
        saved |= {"counted": self.count is not None or self.complete, "updated": self._saved}
        self.folder.write(PROGRESS, json.dumps(saved, indent=1).encode())

    def finish(self, texts: int) -> None:
        self.complete, self.count, self.done = True, texts, texts

    def close(self) -> None:
        """Remove the bar, and save the progress; a folder without a manifest is not touched."""
        self.bar.close()
        if self.folder.read(MANIFEST) is not None:
            self.save()


@final
@dataclass(frozen=True)
class Status:
    """How far a corpus is.

    Attributes:
        folder: Its path or address.
        done: Number of texts in the parts that are there.
        explained, failed, killed: Of these, by status.
        under_way: Number of texts that are explained in parts under way, a few seconds ago; a kill loses them.
        asked: Number of queries that the model has answered for parts under way: it is asked about all texts of a part first.
        parts: Number of parts that are there.
        damaged: Names of parts that are not as they were written; they count as not there.
        texts: Number of texts in all; None where it is not known yet.
        counted: Whether that is exact; else it is estimated from the share of the source that was read.
        running: Whether a run is under way.
        complete: Whether all texts are done.
        rate: Texts per second of the last run, those of parts under way included; None where it has finished none.
        seconds_left: Time that is left at that rate; None where it is not known.
    """

    folder: str
    done: int
    explained: int
    failed: int
    killed: int
    under_way: int
    asked: int
    parts: int
    damaged: tuple[str, ...]
    texts: int | None
    counted: bool
    running: bool
    complete: bool
    rate: float | None
    seconds_left: float | None

    def __str__(self) -> str:
        of = "" if self.texts is None else f" of {'' if self.counted else 'about '}{self.texts:,}"
        share = f" ({self.done / self.texts:.1%})" if self.texts else ""
        noun = plural(self.done if self.texts is None else self.texts, "text")
        lines = [
            f"{self.folder}: {self.done:,}{of} {noun}{share} in {self.parts:,} {plural(self.parts, 'part')}"
            + (f"; under way: {self.under_way:,} explained, {self.asked:,} queries answered" if self.asked else ""),
            f"{self.explained:,} explained, {self.failed:,} failed, {self.killed:,} killed",
        ]
        if self.damaged:
            names = ", ".join(self.damaged[:5]) + (", ..." if len(self.damaged) > 5 else "")
            lines.append(f"{count(len(self.damaged), 'part')} damaged, to be explained again: {names}")
        if self.running:
            rate = "" if self.rate is None else f", {self.rate:.3g} texts/s"
            left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
            lines.append(f"running{rate}{left}")
        elif not self.complete:
            lines.append("not running; the command that began it continues it")
        else:
            again = f"; slalom corpus retry-failed {self.folder} tries the failed ones again; the column error says why"
            lines.append("complete" + (again if self.failed or self.killed else ""))
        return "\n".join(lines)


def status(out: str | Path) -> Status:
    """Return how far a corpus is.

    Args:
        out: The folder of a run, which may be under way.

    Raises:
        InputError: It is something else.
    """
    corpus = open_corpus(out)
    folder, numbers = corpus.place, corpus.numbers
    damaged = [number for number in numbers if damage(folder, number) is not None]
    good = set(numbers).difference(damaged)
    facts = [corpus.facts(number) for number in good]
    by_status = {name: sum(fact[name] for fact in facts) for name in STATUSES}
    saved = saved_progress(folder)
    done, texts, running = sum(by_status.values()), saved.get("texts"), is_running(folder)
    under_way, asked = _under_way(folder, good) if running else (0, 0)
    seconds = (time.time() if running else saved.get("updated", 0.0)) - saved.get("began", 0.0)
    fresh = done + under_way - saved.get("began_with", 0)
    rate = fresh / seconds if fresh > 0 and seconds > 0 else None
    return Status(
        folder.address, done, **by_status, under_way=under_way, asked=asked, parts=len(good),
        damaged=tuple(map(part_name, damaged)), texts=texts, counted=bool(saved.get("counted")), running=running,
        complete=bool(saved.get("complete")) and not running and not damaged and (texts is None or done >= texts),
        rate=rate, seconds_left=None if rate is None or texts is None else max(texts - done - under_way, 0) / rate,
    )  # fmt: skip


def _under_way(folder: Folder, done: set[int]) -> tuple[int, int]:
    """Return how many texts are explained, and queries answered, for parts that are not there yet."""
    texts = queries = 0
    for name in folder.names(UNDER_WAY):
        with suppress(ValueError, KeyError, TypeError):  # no note of ours
            if int(name) not in done:
                note = json.loads(folder.read(f"{UNDER_WAY}/{name}") or b"")
                texts, queries = texts + int(note["texts"]), queries + int(note["queries"])
    return texts, queries


def saved_progress(folder: Folder) -> dict[str, Any]:
    """Return what the last run has saved; nothing where there is none."""
    try:
        return dict(json.loads(folder.read(PROGRESS) or b"{}"))
    except (ValueError, TypeError) as error:
        raise InputError(f"{folder.path(PROGRESS)!r} is damaged; delete it: the next run writes it again") from error


def _clock(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
