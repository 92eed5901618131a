"""Time and memory of `slalom corpus summary` on a synthetic table.

    python benchmarks/corpus_summary.py [--texts 1000000] [--units 30] [--unit word|token] [--surrogate two-scale|additive]

Words are drawn by Zipf's law from 200,000; `--unit token` cuts words of more than five letters in two, so that units are merged
into words by the text. With `--surrogate additive` effects of words and phrases are sums, else they come from the parameters of
two-scale surrogates.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from slalom import corpus
from slalom.corpus.folder import MANIFEST, LocalFolder
from slalom.corpus.opening import FORMAT, VERSION
from slalom.corpus.parts import write_part
from slalom.corpus.table import EXPLAINED, encoded, schema

_WORDS, _PART = 200_000, 20_000


def _part(rng: np.random.Generator, first: int, n: int, units: int, unit: str, names: list[str], surrogate: str) -> pa.Table:
    drawn = (rng.pareto(0.9, (n, units)) * 20).astype(np.int64) % _WORDS
    texts, columns = [], {"units": [], "starts": [], "ends": [], "removal": []}
    effect = np.sin(np.arange(_WORDS)) * (np.arange(_WORDS) % 7 == 0)
    noise = rng.normal(0, 0.3, (n, units)).astype(np.float32)
    for row in range(n):
        words = [names[i] for i in drawn[row].tolist()]
        texts.append(" ".join(words))
        pieces, starts, effects, at = [], [], [], 0
        for word, y in zip(words, (effect[drawn[row]] + noise[row]).tolist(), strict=True):
            cut = [word[:4], word[4:]] if unit == "token" and len(word) > 5 else [word]
            for piece in cut:
                pieces.append(piece)
                starts.append(at)
                effects.append(y / len(cut))
                at += len(piece)
            at += 1
        columns["units"].append(pieces)
        columns["starts"].append(starts)
        columns["ends"].append([a + len(piece) for a, piece in zip(starts, pieces, strict=True)])
        columns["removal"].append(np.array(effects, dtype=np.float32))
    label = rng.choice(["neg", "pos"], n)
    plain = {
        "number": np.arange(first, first + n),
        "id": [str(i) for i in range(first, first + n)],
        "status": [EXPLAINED] * n,
        "text": texts,
        "given_gold": rng.choice(["neg", "pos"], n),
        "given_source": rng.choice(["web", "mail", "paper"], n),
        "label": label,
        "target": ["pos"] * n,
        "n_units": [len(pieces) for pieces in columns["units"]],
        "sizes": [np.ones(len(pieces), dtype=np.int32) for pieces in columns["units"]],
        "surrogate": [surrogate] * n,
        **columns,
    }
    if surrogate == "two-scale":
        plain["importances"] = [rng.normal(size=len(pieces)).astype(np.float32) for pieces in columns["units"]]
        plain["values"] = [10 * effects for effects in columns["removal"]]
        plain |= {"background_value": np.zeros(n), "background_importance": np.full(n, 2.0)}
        plain |= {"near_offset": rng.normal(size=n), "near_power": np.full(n, 2)}
    kinds = schema(["gold", "source"])
    arrays = [pa.array(plain[field.name], field.type) if field.name in plain else pa.nulls(n, field.type) for field in kinds]
    return pa.Table.from_arrays(arrays, schema=kinds)


def main() -> None:
    """Write a table, summarise it, print time and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=30)
    parser.add_argument("--unit", choices=["word", "token"], default="word")
    parser.add_argument("--surrogate", choices=["two-scale", "additive"], default="two-scale")
    parser.add_argument("--folder", type=Path, default=None, help="where the table is kept; an existing one is used")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = options.folder or Path(temporary) / "out"
        if not (out / MANIFEST).exists():
            _write(out, options)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start, cpu = time.perf_counter(), time.process_time()
        found = corpus.summary(out, gold="gold", slices="source")
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{options.texts:,} texts of {options.units} words, units: {options.unit}, {options.surrogate}")
    print(f"summary: {seconds:.0f} s ({cpu:.0f} s of CPU), peak memory {after:,.0f} MiB ({before:,.0f} MiB before it)")
    print(
        f"{found.about['candidates']:,} words and phrases in at least {found.about['min_texts']} texts;"
        f" {len(found.words)} listed"
    )


def _write(out: Path, options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(_WORDS)]
    folder = LocalFolder(out)
    model = {"name": "synthetic", "labels": ["neg", "pos"]}
    about = {"format": FORMAT, "version": VERSION, "part_size": _PART, "full": False, "model": model}
    folder.write(MANIFEST, json.dumps({**about, "options": {"unit": options.unit}}).encode())
    for number, first in enumerate(range(0, options.texts, _PART)):
        part = _part(rng, first, min(_PART, options.texts - first), options.units, options.unit, names, options.surrogate)
        write_part(folder, number, encoded(part, str(number)))


if __name__ == "__main__":
    main()
