"""Explain a whole corpus: a run that can end at any time and go on with the same command.

part k = the rows k * part_size, ..., (k + 1) * part_size - 1 of the source

A part depends on its rows alone, whoever computes it and when; that is what makes the table the same for all executors.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, final, get_args

from slalom.core.checks import check_choice, whole_number
from slalom.corpus.dispatch import Dispatcher
from slalom.corpus.executors import Executor, InProcess, Processes, RayActors, pickled
from slalom.corpus.files import Source
from slalom.corpus.folder import DIGESTS, MANIFEST, PARTS, PROGRESS, UNDER_WAY, Folder, damage, part_file, part_name, write_part
from slalom.corpus.lock import locked
from slalom.corpus.opening import FORMAT, SETTINGS, VERSION, Corpus, read_manifest
from slalom.corpus.progress import Progress
from slalom.corpus.sources import Columns, Fields, digest, rows_of, source_of
from slalom.corpus.table import EXPLAINED, SourceRow, arrow, counts, encoded
from slalom.corpus.work import Job, Setup, check_target
from slalom.errors import InputError
from slalom.explainer import Explainer
from slalom.lexicon import Lexicon
from slalom.lexicon.learning import LEAST_TEXTS
from slalom.lexicon.lexicon import taking
from slalom.text.record import Form

PART_SIZE, MAX_FAILURES = 500, 20
LEXICON = "lexicon.parquet"  # in the folder, of a run that learns one
_MAX_TIMEOUT = 1e6  # seconds


def run(
    source: Any,
    out: str | Path,
    explainer: Explainer | Callable[[], Explainer] | None = None,
    *,
    text_column: str | Sequence[str] = "text",
    numeric: Sequence[str] = (),
    form: Form = "dict",
    id_column: str | None = None,
    keep: Sequence[str] = (),
    split: str | None = None,
    full: bool = False,
    text: bool = True,
    part_size: int = PART_SIZE,
    limit: int | None = None,
    workers: int = 0,
    ray: str | None = None,
    cores_per_worker: int | None = None,
    gpus_per_worker: float | None = None,
    timeout: float | None = None,
    max_failures: int = MAX_FAILURES,
    progress: bool | None = None,
    command: dict[str, Any] | None = None,
    learn: int | None = None,
) -> Corpus:
    """Explain all texts of a source, and write a table of the explanations.

    A run that has ended, in whatever way, goes on when it is called again with the same arguments; only the parts under way are
    lost. A text that cannot be explained is a row with its error. A text that ends its process is found and marked, where the
    process is not this one: with workers, with Ray, and in this process when the run is called again.

    Args:
        source: A file (.jsonl, .csv, .tsv, .parquet, .txt, also .gz and .zst), a folder of such files, a dataset of Hugging
            Face (hf:NAME, or its folder), or an iterable of strings or mappings. It is read as a stream.
        out: The folder of the table, or an address such as s3://bucket/corpus.
        explainer: An Explainer, or a function that makes one; with workers it is called in each of their processes. Default:
            the bundled classifier.
        text_column: Column of the texts. Several, or one beside numbers, are the fields of records.
        numeric: Columns of numbers that are further fields; where there is none, it is missing (NaN).
        form: What the model is given for a record: "dict", "tuple" or "table", a row of a data frame.
        id_column: Column of the ids. Default: the number of the row.
        keep: Columns of the source to copy to the table, as given_NAME.
        split: Split of a dataset of Hugging Face.
        full: Whether to keep whole explanations, which `Corpus` returns by their number.
        text: Whether to keep the texts.
        part_size: Texts per part: what is computed together, and what a kill loses.
        limit: Number of texts. Default: all.
        workers: Number of processes. Default: this one. With Ray: the largest number of actors.
        ray: Address of a Ray cluster: "auto", "local" or host:port.
        cores_per_worker: Cores of each process or actor. Default: processes share those of this machine, actors have one.
        gpus_per_worker: GPUs of each actor of Ray. Default: one where the cluster has any.
        timeout: Seconds after which a worker is ended that has had no answer of the model and finished no text; the text at
            fault is found and marked. Default: never.
        max_failures: Texts in sequence on which the model may fail alike before the run ends: then it is the model, and not
            the texts. The part under way is not written. 0: any number, and each is a row with its error.
        progress: Whether to show a bar. Default: in a terminal.
        command: Plain data that the manifest keeps for `slalom corpus retry-failed`.
        learn: Learn a lexicon from so many first texts, keep it in the folder, and begin every explanation with it.

    Returns:
        The table.

    Raises:
        InputError: An argument is wrong, the folder belongs to another run or another one is writing to it.
        ModelError: Workers keep dying, or the model fails on text after text.
        MissingExtra: pyarrow or ray is not installed.

    Example:
        >>> from tempfile import mkdtemp
        >>> from slalom import Explainer
        >>> shouts = Explainer(lambda texts: [text.count("!") - 1.0 for text in texts], output="log_odds")
        >>> corpus = run(["Stop! Now!", "Well.", ""], mkdtemp() + "/out", shouts)
        >>> [row["status"] for batch in corpus.batches(["status"]) for row in batch.to_pylist()]
        ['explained', 'explained', 'failed']
    """
    column = _text_column(text_column, numeric, form)
    settings = {
        "text_column": column, "id_column": id_column, "keep": list(dict.fromkeys(keep)), "text": text, "full": full,
        "part_size": whole_number("part_size", part_size, 1),
        "limit": None if limit is None else whole_number("limit", limit, 1),
    }  # fmt: skip
    folder, rows = Folder(out), source_of(source, column, split)
    if rows.encloses(folder):
        raise InputError(
            f"{folder.address!r} must not lie within the source {rows.address!r}, which would read it too; name a folder"
            " elsewhere"
        )
    where = _Where(workers, ray, cores_per_worker, gpus_per_worker, timeout, max_failures)
    if learn is not None:
        learn = min(whole_number("learn", learn, LEAST_TEXTS), learn if limit is None else limit)
        whole_number("limit of a run that learns", learn, LEAST_TEXTS)
    settings["learn"] = learn
    if learn is not None and isinstance(source, Iterator):
        raise InputError("learn reads the first texts twice, and an iterator can be read once; pass a list or a file")
    corpus_run = _Run(folder, rows, settings, explainer, where, progress, command or {})
    with corpus_run.exclusive():
        corpus_run.explain_all()
    return Corpus(folder, corpus_run.manifest)


def retry_failed(
    out: str | Path,
    explainer: Explainer | Callable[[], Explainer] | None = None,
    *,
    source: Any = None,
    workers: int = 0,
    ray: str | None = None,
    cores_per_worker: int | None = None,
    gpus_per_worker: float | None = None,
    timeout: float | None = None,
    max_failures: int = MAX_FAILURES,
    progress: bool | None = None,
) -> dict[str, int]:
    """Try the texts again that have failed or ended their process.

    Args:
        out: The folder of a run.
        explainer: As in `run`, with the same model and options.
        source: As in `run`. Default: the file on this machine that the manifest names.
        workers: As in `run`, and so are the other arguments.

    Returns:
        Of the texts that were tried again, the number by status.

    Raises:
        InputError: As `run` does.
    """
    folder = Folder(out)
    manifest = read_manifest(folder)
    if source is None:
        source = manifest["source"]["address"]
        if manifest["source"]["kind"] == "iterable":
            raise InputError(f"the texts of {folder.address!r} came from an iterable; pass it as source=")
        if not Path(str(source)).exists():  # a manifest of someone else must not choose who is asked
            raise InputError(f"the texts came from {str(source)!r}, which is no file here; confirm it by source= (--source)")
    rows = source_of(source, manifest["text_column"], manifest["source"].get("split"))
    settings = {name: manifest[name] for name in SETTINGS}
    where = _Where(workers, ray, cores_per_worker, gpus_per_worker, timeout, max_failures)
    corpus_run = _Run(folder, rows, settings, explainer, where, progress, manifest["command"])
    with corpus_run.exclusive():
        return corpus_run.retry()


def _text_column(columns: str | Sequence[str], numeric: Sequence[str], form: Form) -> str | dict[str, Any]:
    """Return the column of the texts, or what the manifest says of fields."""
    names, numbers = ([given] if isinstance(given, str) else list(given) for given in (columns, numeric))
    several = [*names, *numbers]
    check_choice("form", form, get_args(Form))
    if not several or len(set(several)) < len(several) or several == numbers[:1]:
        raise InputError(f"text_column and numeric must name a column of texts, or different fields; got {several!r:.80}")
    return names[0] if len(several) == 1 else Fields(names, numbers, form)._asdict()


def _beginning(explainer: Explainer | Callable[[], Explainer], lexicon: Lexicon) -> Explainer:
    """Return an Explainer that begins with a lexicon."""
    made = explainer if isinstance(explainer, Explainer) else explainer()
    _check_learning(made)
    return made.with_prior(lexicon)


def _check_learning(explainer: Explainer) -> None:
    """Raise an InputError where an Explainer cannot begin with the lexicon that a run learns."""
    taking(explainer.options.method)
    if explainer.prior is not None:
        raise InputError("a run begins with the lexicon that it learns, or with prior=; got both")
    check_target(explainer.options.target)


@final
@dataclass(frozen=True)
class _Where:
    """Where a corpus is computed, and how long workers and failing texts are tolerated; the arguments of `run`."""

    workers: int
    ray: str | None
    cores: int | None
    gpus: float | None
    timeout: float | None
    max_failures: int

    def __post_init__(self) -> None:
        whole_number("workers", self.workers, 0)
        whole_number("max_failures", self.max_failures, 0)
        if self.cores is not None:
            whole_number("cores_per_worker", self.cores, 1)
        if self.timeout is not None and not 0.0 < self.timeout <= _MAX_TIMEOUT:
            raise InputError(f"timeout must be a number of seconds above 0 and up to {_MAX_TIMEOUT:g}; got {self.timeout!r}")
        if self.timeout is not None and self.ray is None and not self.workers:
            raise InputError("a timeout ends a worker, and this run has none; add workers (--workers 1 or more)")

    def executor(self) -> Executor | None:
        if self.ray is not None:
            return RayActors(self.ray, self.workers, self.cores or 1, self.gpus)
        return Processes(self.workers, self.cores) if self.workers else None


@final
@dataclass
class _Run:
    """A run under way, which holds the manifest."""

    folder: Folder
    source: Source
    settings: dict[str, Any]
    explainer: Explainer | Callable[[], Explainer] | None
    where: _Where
    shown: bool | None
    command: dict[str, Any]

    def __post_init__(self) -> None:
        settings, made = self.settings, Explainer if self.explainer is None else self.explainer
        self.part_size = int(settings["part_size"])
        column = settings["text_column"]
        column = Fields(**column) if isinstance(column, dict) else column
        self.columns = Columns(column, settings["id_column"], tuple(settings["keep"]))
        text, full = settings["text"], settings["full"]
        where, records = self.where, isinstance(column, Fields)
        self.setup = Setup(made, self.folder, self.columns.keep, text, full, where.timeout, where.max_failures, records)
        self.corpus = Corpus(self.folder, {})
        self.interrupted: set[int] = set()  # parts under which the last run was killed

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest; empty before the first worker has its model."""
        return self.corpus.manifest

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock of the folder, if the settings are those of its manifest; what is refused leaves nothing behind."""
        self._read_manifest()
        if not self.manifest and not self.source.verified:  # a generator can be read once
            next(rows_of(self.source, self.columns), None)  # a wrong column is an error now
        self.settings = {**self.settings, "source": {**self.source.fingerprint(), "address": self.source.place}}
        self._compare(self.settings)
        with locked(self.folder):
            self._read_manifest()  # another run may have begun the corpus meanwhile
            self._compare(self.settings)
            self.interrupted = {int(name) for name in self.folder.names(UNDER_WAY) if name.isdecimal()}
            try:
                yield
            finally:  # where this process is killed they stay
                for name in self.folder.names(UNDER_WAY):
                    self.folder.remove(f"{UNDER_WAY}/{name}")

    def _begin_with_lexicon(self) -> None:
        """Begin explanations with the lexicon of the folder; a run that wants one learns it first."""
        learn = self.settings.get("learn") or self.manifest.get("learn")
        if not learn:
            return
        content, explainer = self.folder.read(LEXICON), self.setup.explainer
        if content is None:
            made = explainer if isinstance(explainer, Explainer) else explainer()
            _check_learning(made)
            texts = (row.text for row in rows_of(self.source, self.columns, 0, learn))
            content = Lexicon.learn(made, texts).to_parquet()
            self.folder.write(LEXICON, content)
        found = Lexicon.from_parquet(content, self.folder.path(LEXICON))
        begins = partial(_beginning, explainer, found)
        self.setup = replace(self.setup, explainer=begins() if isinstance(explainer, Explainer) else begins)

    def explain_all(self) -> None:
        """Compute the parts that are not there, or not as they were written."""
        self._begin_with_lexicon()
        there = self.folder.parts()
        damaged = {part: reason for part in there if (reason := damage(self.folder, part)) is not None}
        if damaged:
            named = [f"{part_name(part)} ({reason})" for part, reason in damaged.items()]
            more = f" and {len(named) - 5} more" if len(named) > 5 else ""
            warnings.warn(f"damaged, and explained again: {', '.join(named[:5])}{more}", UserWarning, stacklevel=2)
        done = {part: self.corpus.facts(part) for part in there if part not in damaged}
        with self._progress(done) as self.progress:
            self._compute(self._missing_parts(done, max(there, default=-1)), self._write)
            if self.source.changed():
                raise InputError(
                    f"{self.source.address!r} has changed while it was read; explain it as it is now: name another folder"
                )
            texts = len(self.corpus)
            if not texts:
                raise InputError(f"{self.source.address!r} must have at least one row; it is empty")
            self.progress.finish(texts)

    def retry(self) -> dict[str, int]:
        """Compute the rows that are not explained, and put them into their parts; return their number by status."""
        self._begin_with_lexicon()
        facts = {part: self.corpus.facts(part) for part in self.corpus.numbers}
        failing = {part for part, about in facts.items() if about[EXPLAINED] < about["rows"]}
        result: dict[str, int] = {}

        def replaced(part: int, made: Any, _: Sequence[SourceRow]) -> None:
            before, again = self._read(part), set(made.column("number").to_pylist())
            kept = before.filter(arrow().array([number not in again for number in before.column("number").to_pylist()]))
            merged = arrow().concat_tables([kept, made]).sort_by("number")
            write_part(self.folder, part, encoded(merged, facts[part]["digest"]))
            self.progress.add(counts(made))
            for status, number in counts(made).items():
                result[status] = result.get(status, 0) + number

        with self._progress(facts, EXPLAINED) as self.progress:
            if failing:
                self._compute(self._failed_rows(failing), replaced)
        return result

    def _progress(self, parts: dict[int, dict[str, Any]], counted: str = "rows") -> "closing[Progress]":
        done = sum(facts[counted] for facts in parts.values())
        return closing(Progress(self.folder, self.source, done, self.settings["limit"], self.shown))

    # the manifest

    def _read_manifest(self) -> None:
        """Read the manifest; a folder without one must have no files of the names that a run writes."""
        if self.folder.read(MANIFEST) is not None:
            self.corpus.manifest = read_manifest(self.folder)
            return
        others = [PROGRESS] if self.folder.read(PROGRESS) is not None else []
        others += [name for name in (PARTS, DIGESTS, UNDER_WAY) if self.folder.names(name)]
        if others:
            raise InputError(f"{self.folder.address!r} has {others[0]} but no {MANIFEST}; name another folder")

    def _compare(self, now: dict[str, Any]) -> None:
        changes = differences({name: self.manifest.get(name) for name in now}, now) if self.manifest else []
        if changes:
            raise InputError(
                f"{self.folder.address!r} was begun otherwise: {'; '.join(changes[:4])}; use the same, or name another folder"
            )

    def _accept(self, description: dict[str, Any]) -> None:
        """Compare the model of a worker with that of the manifest; the first one makes the manifest."""
        self._compare(description)
        if not self.manifest:
            created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            about = {"format": FORMAT, "version": VERSION}
            manifest = {**about, **description, **self.settings, "created": created, "command": self.command}
            self.folder.write(MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode("utf-8", "replace"))
            self.corpus.manifest = manifest
        self.progress.save()

    # jobs, and what becomes of them

    def _parts(self, first: int) -> Iterator[tuple[int, tuple[SourceRow, ...]]]:
        """Yield the rows of all parts from one on."""
        rows = rows_of(self.source, self.columns, first * self.part_size, self.settings["limit"])
        part = first
        while chunk := tuple(islice(rows, self.part_size)):
            self.progress.read = part * self.part_size + len(chunk)
            yield part, chunk
            part += 1

    def _missing_parts(self, done: dict[int, dict[str, Any]], last: int) -> Iterator[Job]:
        """Yield the parts that are not there, and compare those that are with the source."""
        first = 0 if self.source.verified else next(part for part in range(len(done) + 1) if part not in done)
        part = first - 1
        for part, rows in self._parts(first):
            if part not in done:
                yield Job(part, rows)
            elif done[part]["digest"] != digest(rows):
                raise InputError(
                    f"{self.folder.address!r} was made from other texts: rows {part * self.part_size} to"
                    f" {part * self.part_size + len(rows) - 1} differ; use the same source, or name another folder"
                )
        if part < last:
            raise InputError(
                f"{self.folder.address!r} was made from more texts: the source has none for {part_name(last)};"
                " use the same source, name another folder, or delete this part"
            )

    def _failed_rows(self, failing: set[int]) -> Iterator[Job]:
        for part, rows in self._parts(min(failing)):
            if part in failing:
                statuses = self._read(part).column("status").to_pylist()
                again = [row for row, status in zip(rows, statuses, strict=True) if status != EXPLAINED]
                yield Job(part, tuple(again))

    def _read(self, part: int) -> Any:
        with part_file(self.folder, part) as file:
            return file.read()

    def _compute(self, jobs: Iterator[Job], finished: Callable[..., None]) -> None:
        """Compute jobs where the user wants it."""
        executor = self.where.executor() or self._here_or_apart()
        try:
            Dispatcher(executor, self.setup, self._accept, finished, self.progress.tick).run(jobs)
        finally:
            executor.close()

    def _here_or_apart(self) -> Executor:
        """Return this process, or another one where the last run was killed: one of its texts may be the reason."""
        if self.interrupted:
            try:
                pickled(self.setup)
            except InputError as error:
                reason = f"the last run ended within part {min(self.interrupted)}; if one of its texts ended it, it will again"
                warnings.warn(f"{reason}, as {error}", UserWarning, stacklevel=2)
            else:
                return Processes(1, self.where.cores)
        return InProcess(self.progress.bar.update)

    def _write(self, part: int, made: Any, source: Sequence[SourceRow]) -> None:
        write_part(self.folder, part, encoded(made, digest(source)))
        self.progress.add(counts(made))


def differences(before: Any, now: Any, name: str = "") -> list[str]:
    if name == "source":
        before, now = _content(before), _content(now)
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        return [line for key in keys for line in differences(before.get(key), now.get(key), f"{name} {key}".strip())]
    return [] if before == now else [f"{name} was {_shown(before)}, is {_shown(now)}"]


def _content(source: dict[str, Any]) -> dict[str, Any]:
    """Return what counts of a source: the hashes of its files where they are listed, and never where they lie."""
    if files := source.get("files"):
        return {"kind": source["kind"], "files": {name: hashed for name, _, hashed in files}}
    return {name: part for name, part in source.items() if name not in ("address", "files")}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
