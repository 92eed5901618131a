"""Whole corpora: texts per second, what executors add, bytes per text, memory, and a calculation for 100 million texts.

    python benchmarks/corpus.py [--device cuda] [--model bundled|PATH] [--texts N] [--method eff|joint] [--queries N]
                                        [--prior FILE]
                                        one process: explainer(texts), after a warm-up with a tenth of them
    python benchmarks/corpus.py --executors [--texts N] ...
                                        a plain loop, slalom.corpus.run here, with 1 and 2 workers, and on Ray
    python benchmarks/corpus.py --workers N [--texts N] ...
                                        slalom.corpus.run with so many processes; on one GPU start NVIDIA's MPS before
    python benchmarks/corpus.py --linear 500,1000,2000 ...
                                        slalom.corpus.run here with growing numbers of texts: rate and memory
    python benchmarks/corpus.py --bytes [--texts N] ...
                                        bytes per text of the table, of --full, and of JSON lines
    python benchmarks/corpus.py --paper RATE [--in-bytes B] [--out-bytes B] [--gpus 64] [--total 100e6]
                                        hours, network and storage of a large run, from a measured rate per GPU

IMDB test reviews (benchmarks/reviews.py says where they are looked for), the first N in an order by seed; where N is larger
than their number they are repeated with a number in front, so that no text is asked twice.
"""

import argparse
import gzip
import json
import os
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import slalom
from slalom.corpus.sources import Columns, rows_of, source_of
from slalom.corpus.table import SourceRow, encoded, explained_row, table
from slalom.result.plain import duration

SHARED = Path(os.environ.get("SLALOM_SHARED", Path(__file__).parents[2] / "shared"))


def reviews(number, seed=0):
    """Return IMDB test reviews."""
    with gzip.open(SHARED / "data" / "imdb_test.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    order = np.random.default_rng(seed).permutation(len(texts))
    rounds = -(-number // len(texts))
    return [f"{turn} {texts[i]}" if turn else texts[i] for turn in range(rounds) for i in order][:number]


def explainer(model, device, method, queries, prior):
    """Return the explainer; workers import this function."""
    chosen = None if model == "bundled" else model
    return slalom.Explainer(chosen, device=device, method=method, queries=queries, prior=prior, progress=False)


def one_process(texts, made):
    """Return texts per second of `explainer(texts)`."""
    made(texts[: max(len(texts) // 10, 1)], errors="keep")
    made.engine.forget()
    began = time.perf_counter()
    found = made(texts, errors="keep")
    seconds = time.perf_counter() - began
    r2 = [e.fidelity.far.r2 for e in found if e.fidelity.far is not None and e.fidelity.far.r2 is not None]
    print(
        f"{len(texts)} texts in {duration(seconds)}: {len(texts) / seconds:.2f} texts/s, {len(found.failures)} failed,"
        f" median R2 {np.median(r2) if r2 else float('nan'):.3f}, {memory():.2f} GB"
    )
    return len(texts) / seconds


def timed_run(source, build, **options):
    """Return the seconds of a run, the start of its workers included, and the bytes of its table."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        slalom.corpus.run(source, Path(folder) / "out", build, progress=False, **options)
        seconds = time.perf_counter() - began
        size = sum(path.stat().st_size for path in (Path(folder) / "out" / "parts").iterdir())
    return seconds, size


def executors(texts, build, part_size):
    """Compare executors in one run; rates include loading the model in every worker."""
    made = build()
    began = time.perf_counter()
    for text in texts:
        made(text)
    loop = time.perf_counter() - began
    print(f"{'plain loop':14s} {len(texts) / loop:7.2f} texts/s")
    kinds = {"this process": {}, "1 worker": {"workers": 1}, "2 workers": {"workers": 2}, "Ray, 2 actors": {"ray": "local"}}
    for name, options in kinds.items():
        seconds, _ = timed_run(texts, build, part_size=part_size, **options, **({"workers": 2} if "ray" in options else {}))
        print(f"{name:14s} {len(texts) / seconds:7.2f} texts/s  {loop / seconds:5.2f} x the loop")


def processes(texts, build, number, part_size):
    """Print the rate of a run with several processes, with and without the start of these.

    The second is that of the parts after the first two of each process, by the times at which parts were written.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        began = time.perf_counter()
        slalom.corpus.run(texts, out, build, workers=number, part_size=part_size, progress=False)
        seconds = time.perf_counter() - began
        table = slalom.corpus.open(out)
        failed = sum(status != "explained" for batch in table.batches(["status"]) for status in batch["status"].to_pylist())
        written = sorted(path.stat().st_mtime for path in (out / "parts").iterdir())
        skipped = min(2 * number, len(written) - 2)
        later = (len(written) - 1 - skipped) * part_size / (written[-1] - written[skipped])
        size = sum(path.stat().st_size for path in (out / "parts").iterdir())
    print(
        f"{len(texts)} texts, {number} processes: {len(texts) / seconds:.1f} texts/s with their start, {later:.1f} after it;"
        f" {failed} failed, {size / len(texts):.0f} bytes/text, largest process {children():.2f} GB",
        flush=True,
    )


def linear(numbers, build, part_size):
    """Print rate and memory for growing numbers of texts."""
    for number in numbers:
        seconds, size = timed_run(reviews(number), build, part_size=part_size)
        print(
            f"{number:7d} texts {number / seconds:8.2f} texts/s  {size / number:7.0f} bytes/text  peak {memory():.2f} GB",
            flush=True,
        )


def sizes(texts, build):
    """Print bytes per text of several forms."""
    explained = build()(texts)
    plain = sum(len(text.encode()) for text in texts) / len(texts)
    whole = sum(len(e.to_json().encode()) + 1 for e in explained) / len(texts)
    forms = {"the texts": plain, "JSON lines (slalom explain --out)": whole}
    for name, options in (("table", {}), ("table, --no-text", {"text": False}), ("table, --full", {"full": True})):
        rows = [explained_row(SourceRow(i, str(i), e.text, {}), e, **options) for i, e in enumerate(explained)]
        part = encoded(table(rows), "")
        footer = pq.read_metadata(pa.BufferReader(part)).serialized_size  # one per part: next to nothing in large ones
        forms[name] = (len(part) - footer) / len(texts)
    print(f"without the footer of a part, which has {footer} bytes:")
    for name, size in forms.items():
        print(f"{name:34s} {size:8.0f} bytes/text  {size / whole:6.3f} of JSON")


def reading_rate(texts):
    """Return the rows that a driver reads from JSON lines per second of a core."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        many = texts * (20_000 // len(texts) + 1)
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in many), encoding="utf-8")
        began = time.process_time()
        number = sum(1 for _ in rows_of(source_of(path), Columns()))
        return number / (time.process_time() - began)


def paper(rate, in_bytes, out_bytes, gpus, total, part_size, processes):
    """Print what a large run takes.

    Args:
        rate: Texts per second of one GPU, measured.
        in_bytes: Bytes per text of the source.
        out_bytes: Bytes per text of the table.
        gpus: Number of GPUs, one actor each.
        total: Number of texts.
        part_size: Texts per part.
        processes: Number of processes on one GPU.
    """
    together = rate * gpus
    seconds = total / together
    rows = {
        "texts/s, all GPUs": f"{together:,.0f}",
        "hours": f"{seconds / 3600:.2f}",
        "GPU hours": f"{seconds * gpus / 3600:,.0f}",
        "rows/s that the driver must read": f"{together:,.0f}",
        "from the driver, MB/s": f"{together * in_bytes / 1e6:.1f}",
        "to the storage, MB/s": f"{together * out_bytes / 1e6:.1f}",
        "storage, GB": f"{total * out_bytes / 1e9:,.0f}",
        "parts": f"{total / part_size:,.0f}",
        "parts/s": f"{together / part_size:.2f}",
        "lost by a kill, GPU seconds": f"{processes * part_size / rate:.0f}",
    }
    for name, value in rows.items():
        print(f"{name:34s} {value:>12s}")


def memory():
    """Return the peak of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform != "darwin" else 1e9)


def children():
    """Return the peak of the largest worker that has ended in GB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1e6 if sys.platform != "darwin" else 1e9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--method", default="eff")
    parser.add_argument("--queries", type=int)
    parser.add_argument("--part-size", type=int, default=50)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--executors", action="store_true")
    parser.add_argument("--prior", help="a lexicon, or bundled")
    parser.add_argument("--linear")
    parser.add_argument("--bytes", action="store_true")
    parser.add_argument("--paper", type=float, metavar="RATE")
    parser.add_argument("--in-bytes", type=float, default=1325.0)
    parser.add_argument("--out-bytes", type=float, default=5000.0)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--total", type=float, default=100e6)
    options = parser.parse_args()
    build = partial(explainer, options.model, options.device, options.method, options.queries, options.prior)
    if options.paper is not None:
        paper(
            options.paper,
            options.in_bytes,
            options.out_bytes,
            options.gpus,
            options.total,
            max(options.part_size, 500),
            options.workers or 1,
        )
        return
    if options.linear is not None:
        linear([int(number) for number in options.linear.split(",")], build, options.part_size)
        return
    texts = reviews(options.texts)
    if options.workers is not None:
        processes(texts, build, options.workers, options.part_size)
    elif options.executors:
        executors(texts, build, options.part_size)
    elif options.bytes:
        sizes(texts, build)
        print(f"a driver reads {reading_rate(texts):,.0f} rows/s of JSON lines")
    else:
        print(
            f"{options.model}, {options.method}, {options.queries or 'default'} queries, {options.device or 'default device'}"
        )
        one_process(texts, build())


if __name__ == "__main__":
    main()
