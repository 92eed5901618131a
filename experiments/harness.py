"""What an experiment is made of, and the lab that it is run in.

An experiment is a module of this folder, named in experiments/registry.py, with

    run(lab) -> Result              the measurements, and whether each claim of the paper holds in them
    draw(result, figure) -> None    the picture (optional)

Work that takes long is done in parts: `lab.part` and `lab.parts` keep what comes out as JSON, so that a run that was stopped
goes on, and experiments that share a group share their parts (and the models that were trained for them).
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from signal import SIG_DFL, SIGINT, signal
from threading import Thread
from typing import Any

import numpy as np
from tqdm.auto import tqdm

ROOT = Path(__file__).parent.parent
TRAINING = ("epochs", "length", "test", "train")  # settings that decide what is trained
SETTINGS = (*TRAINING, "correlated", "deeper", "queries", "relations", "samples", "several", "texts", "timed")
SETTINGS += tuple(f"{data}_{name}" for data in ("imdb", "yelp") for name in ("samples", "texts"))
Cell = str | float | int | None | tuple[float, float]  # a pair is a mean with its standard error


class Absent(Exception):
    """Something that an experiment needs is not on this machine; the message says what, and where it is looked for."""


@dataclass(frozen=True)
class Table:
    """Our figures, and the paper's printed ones beside them. A cell that is a pair is a mean with its standard error."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"the table {self.title!r} has {len(self.columns)} columns, but a row of {len(row)}: {row}")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether our run bears it out, the figure, and where it is not borne out why that may be."""

    says: str
    holds: bool
    because: str
    otherwise: str = ""

    @property
    def reason(self) -> str:
        """The figure, and why the claim does not hold where it does not."""
        return self.because if self.holds or not self.otherwise else f"{self.because}. {self.otherwise}"


@dataclass(frozen=True)
class Result:
    """Tables, claims, remarks (what differs from the paper's setting), and whatever the picture is drawn from."""

    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    remarks: tuple[str, ...] = ()
    series: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as lists, numbers and strings."""
        return plain(asdict(self))

    @staticmethod
    def of(kept: Mapping[str, Any]) -> "Result":
        """Return what `to_dict` has written."""
        tables = tuple(
            Table(t["title"], tuple(t["columns"]), tuple(tuple(map(_cell, row)) for row in t["rows"])) for t in kept["tables"]
        )
        claims = tuple(Claim(**claim) for claim in kept["claims"])
        return Result(tables, claims, tuple(kept["remarks"]), kept["series"])


def _cell(kept: Any) -> Cell:
    return tuple(kept) if isinstance(kept, list) else kept


@dataclass(frozen=True)
class Lab:
    """Where an experiment runs.

    quick: a small version, under a minute on two cores, that needs no data of other people. device: for torch. jobs: how many
    parts are worked on at once (each in a process of its own). folder: where results and parts are kept. settings: sizes that
    replace an experiment's own, by name.
    """

    name: str
    quick: bool = False
    device: str = "cpu"
    seed: int = 0
    jobs: int = 1
    folder: Path = ROOT / "results"
    progress: bool = True
    settings: tuple[tuple[str, int], ...] = ()

    def number(self, name: str, full: int, quick: int) -> int:
        """Return the size of this name for this run, unless told otherwise (--set NAME=NUMBER)."""
        return int(dict(self.settings).get(name, self.of(full, quick)))

    def each(self, data: str, name: str, full: int, quick: int) -> int:
        """Return a size for one data set: that of --set DATA_NAME=NUMBER, else that of NAME."""
        return self.number(f"{data}_{name}", self.number(name, full, quick), self.number(name, full, quick))

    def of(self, full: Any, quick: Any) -> Any:
        """Return the size for this run."""
        return quick if self.quick else full

    def place(self, key: str, group: str | None = None) -> Path:
        """Return the path (without an ending) under which a part is kept; a trained model can be saved there as a folder.

        Another seed, or another size that decides what is trained, has a folder of its own.
        """
        other = [f"{name}{number}" for name, number in self.settings if name in TRAINING]
        other = ([f"seed{self.seed}"] if self.seed else []) + other
        path = self.folder / "parts" / "-".join([group or self.name, *(["quick"] if self.quick else []), *other]) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def part(self, key: str, make: Callable[[], Any], group: str | None = None) -> Any:
        """Return what `make` gives, from the last run where it was kept. It must be made of lists, numbers and strings."""
        kept = self.place(key, group).with_suffix(".json")
        if kept.exists():
            return json.loads(kept.read_text(encoding="utf-8"))["found"]
        start = time.perf_counter()
        found = plain(make())
        _write(kept, json.dumps({"found": found, "seconds": time.perf_counter() - start}))
        return found

    def parts(
        self, work: Callable[..., Any], arguments: Mapping[str, Mapping[str, Any]], group: str | None = None, what: str = "part"
    ) -> dict[str, Any]:
        """Return work(lab, **arguments) for each key, `jobs` at a time; what an earlier run has kept is not done again.

        `work` must be a function at the top of a module.
        """
        found: dict[str, Any] = {}
        with tqdm(total=len(arguments), unit=what, desc=self.name, disable=None if self.progress else True) as bar:
            if self.jobs == 1:
                for key, given in arguments.items():
                    bar.set_postfix_str(key)
                    found[key] = self.part(key, lambda given=given: work(self, **given), group)
                    bar.update()
                return found
            worker = replace(self, jobs=1, progress=False)
            with ProcessPoolExecutor(self.jobs, get_context("spawn"), _worker) as pool:
                tasks = {pool.submit(_part, worker, key, work, given, group): key for key, given in arguments.items()}
                try:
                    for task in as_completed(tasks):
                        found[tasks[task]] = task.result()
                        bar.update()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        return {key: found[key] for key in arguments}

    def steps(self, items: Iterable[Any], what: str) -> Iterable[Any]:
        """Go through items with a progress bar."""
        return tqdm(items, desc=f"{self.name}: {what}", disable=None if self.progress else True)

    def shared(self, kind: str, name: str) -> Path:
        """Return a file or folder of other people's data or models: `shared("data", "imdb_train.jsonl.gz")`."""
        base = Path(os.environ.get("SLALOM_SHARED", ROOT.parent / "shared"))
        path = base / kind / name
        if not path.exists():
            raise Absent(f"{name} must be at {kind}/{name} in the folder that SLALOM_SHARED names, or in ../shared")
        return path


def _part(lab: Lab, key: str, work: Callable[..., Any], given: Mapping[str, Any], group: str | None) -> Any:
    return lab.part(key, lambda: work(lab, **given), group)


def _worker() -> None:
    """Prepare a process for parts: one thread, and an end without a word on Ctrl-C or when the main process is gone."""
    signal(SIGINT, SIG_DFL)  # parts are written all or nothing
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # of a torch that is imported later
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def lots(number: int, size: int) -> dict[str, int]:
    """Return the first text of each lot by its key, which names the number of texts only where it cuts the lot short.

    So a run with more texts takes the whole lots of a smaller one.

    >>> lots(12, 5)
    {'0': 0, '5': 5, '10of12': 10}
    """
    return {f"{first}" if first + size <= number else f"{first}of{number}": first for first in range(0, number, size)}


def mean(found: Iterable[float]) -> tuple[float, float]:
    """Return mean and standard error (0 for a single number)."""
    numbers = np.asarray(list(found), dtype=np.float64)
    error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else 0.0
    return float(numbers.mean()), error


def plain(found: Any) -> Any:
    """Return lists, dictionaries, numbers and strings for arrays, tuples and numpy's numbers."""
    if isinstance(found, Mapping):
        return {str(key): plain(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [plain(one) for one in found]
    if isinstance(found, np.ndarray):
        return found.tolist()
    return found.item() if isinstance(found, np.generic) else found


def _write(path: Path, text: str) -> None:
    """Write all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def save(lab: Lab, result: Result, about: Mapping[str, Any], draw: Callable[[Result, Any], None] | None) -> list[Path]:
    """Write NAME.json and NAME.png; return the paths."""
    stem = lab.folder / (lab.name + ("-quick" if lab.quick else ""))
    _write(stem.with_suffix(".json"), json.dumps({"about": plain(about), **result.to_dict()}, indent=1) + "\n")
    if draw is None:
        return [stem.with_suffix(".json")]
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    draw(result, figure)
    figure.savefig(stem.with_suffix(".png"), dpi=130)
    return [stem.with_suffix(".json"), stem.with_suffix(".png")]
