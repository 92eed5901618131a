"""Time and memory of `slalom corpus summary` on a synthetic table.

    python benchmarks/corpus_summary.py [--texts 1000000] [--words 30] [--unit word|token] [--old FOLDER]

Words are drawn by Zipf's law from 200,000; `--unit token` cuts words of more than five letters in two. `--old` names a folder
with the sources of another version (git archive COMMIT src | tar -x -C FOLDER), which summarises the same table in a process of
its own; words and means that both list are compared. Older sources add up the effects of units.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from slalom import corpus
from slalom.corpus.folder import MANIFEST, Folder, write_part
from slalom.corpus.opening import FORMAT, SETTINGS, VERSION

_WORDS, _PART = 200_000, 20_000


def _part(rng: np.random.Generator, first: int, n: int, length: int, unit: str, names: list[str]) -> pa.Table:
    from slalom.corpus.table import EXPLAINED, LONGEST, phrase_column, schema  # noqa: PLC0415

    drawn = (rng.pareto(0.9, (n, length)) * 20).astype(np.int64) % _WORDS
    effect = np.sin(np.arange(_WORDS)) * (np.arange(_WORDS) % 7 == 0)
    effects = (effect[drawn] + rng.normal(0, 0.3, (n, length))).astype(np.float32)
    lists: dict[str, list] = {name: [] for name in ("text", "words", "units", "starts", "ends", "removal", "unit_words")}
    for row in range(n):
        words = [names[i] for i in drawn[row].tolist()]
        pieces, starts, removal, of_word, at = [], [], [], [], 0
        for place, (word, y) in enumerate(zip(words, effects[row].tolist(), strict=True)):
            cut = [word[:4], word[4:]] if unit == "token" and len(word) > 5 else [word]
            for piece in cut:
                pieces.append(piece)
                starts.append(at)
                removal.append(y / len(cut))
                of_word.append(place)
                at += len(piece)
            at += 1
        ends = [a + len(piece) for a, piece in zip(starts, pieces, strict=True)]
        for name, cells in zip(lists, (" ".join(words), words, pieces, starts, ends, removal, of_word), strict=True):
            lists[name].append(cells)
    runs = np.lib.stride_tricks.sliding_window_view
    plain = {
        "number": np.arange(first, first + n),
        "id": [str(i) for i in range(first, first + n)],
        "status": [EXPLAINED] * n,
        "given_gold": rng.choice(["neg", "pos"], n),
        "given_source": rng.choice(["web", "mail", "paper"], n),
        "label": rng.choice(["neg", "pos"], n),
        "target": ["pos"] * n,
        "n_units": [len(pieces) for pieces in lists["units"]],
        "sizes": [np.ones(len(pieces), dtype=np.int32) for pieces in lists["units"]],
        **{phrase_column(k): list(runs(effects, k, axis=1).sum(axis=2)) for k in range(1, LONGEST + 1)},
        **lists,
    }
    kinds = schema(["gold", "source"])
    arrays = [pa.array(plain[field.name], field.type) if field.name in plain else pa.nulls(n, field.type) for field in kinds]
    return pa.Table.from_arrays(arrays, schema=kinds)


def _write(out: Path, options: argparse.Namespace) -> None:
    from slalom.corpus.table import encoded  # noqa: PLC0415

    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(_WORDS)]
    folder = Folder(out)
    model = {"name": "synthetic", "labels": ["neg", "pos"]}
    about = {"format": FORMAT, "version": VERSION, "part_size": _PART, "full": False, "model": model, "slalom": None}
    manifest = dict.fromkeys(SETTINGS) | about | {"options": {"unit": options.unit}, "command": {}}
    folder.write(MANIFEST, json.dumps(manifest).encode())
    for number, first in enumerate(range(0, options.texts, _PART)):
        part = _part(rng, first, min(_PART, options.texts - first), options.words, options.unit, names)
        write_part(folder, number, encoded(part, str(number)))


def measured(out: Path) -> dict:
    """Summarise a table and return the time, the peak of the memory, and what is listed."""
    manifest = out / MANIFEST  # of the version that reads it
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": VERSION}))
    start, cpu = time.perf_counter(), time.process_time()
    found = corpus.summary(out, gold="gold", slices="source")
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "about": {name: found.about[name] for name in ("explained", "min_texts", "candidates")},
        "words": {f"{word.kind} {word.name}": list(word.effect) for word in found.words},
    }


def _in_process(out: Path, sources: Path | None) -> dict:
    """Measure in a process of its own, with the sources of a folder."""
    path = [str(sources / "src")] if sources else []
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, __file__, "--measure", str(out)], env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _say(name: str, result: dict) -> None:
    about, seconds = result["about"], f"{result['seconds']:.0f} s ({result['cpu']:.0f} s of CPU)"
    print(
        f"{name}: {seconds}, peak memory {result['memory']:,.0f} MiB; {about['candidates']:,} words and phrases in at least"
        f" {about['min_texts']} of {about['explained']:,} texts, {len(result['words'])} listed",
        flush=True,
    )


def main() -> None:
    """Write a table, summarise it, print time and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--unit", choices=["word", "token"], default="word")
    parser.add_argument("--folder", type=Path, default=None, help="where the table is kept; an existing one is used")
    parser.add_argument("--old", type=Path, default=None, help="sources of another version")
    parser.add_argument("--measure", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        out = options.folder or Path(temporary) / "out"
        if not (out / MANIFEST).exists():
            _write(out, options)
        print(f"{options.texts:,} texts of {options.words} words, units: {options.unit}", flush=True)
        new = _in_process(out, None)
        _say("this version", new)
        if options.old:
            old = _in_process(out, options.old)
            _say("other version", old)
            both = sorted(set(new["words"]) & set(old["words"]))
            ends = np.array([[result["words"][word] for word in both] for result in (new, old)])
            texts, rest = np.abs(ends[0] - ends[1])[:, 0].max(), np.abs(ends[0] - ends[1])[:, 1:].max()
            print(f"both list {len(both)}: texts differ by at most {texts:g}, means, spreads and intervals by {rest:.1e}")


if __name__ == "__main__":
    main()
