"""Time of `joint` beside that of earlier versions, each with its own sources in its own process; they take turns.

Run: git archive COMMIT src benchmarks/reviews.py | tar -x -C FOLDER
     python benchmarks/turns.py FOLDER [FOLDER ...] [--device cuda] [--texts 24] [--queries 1000] [--passes 3]
       [--models imdb-bert-2 bundled] [--ways all one]

Cells are milliseconds a text, medians over the passes: texts one by one, and all of them in one call. Only one process computes
at a time, so that all meet the machine alike. The model answers anew in every pass. Leave OMP_NUM_THREADS unset: how many
threads are used is part of the time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).resolve().parents[1]


def work(options):
    """Answer each line of the standard input, "one" or "all", with the seconds that the texts took that way."""
    from slalom import Explainer  # noqa: PLC0415  (that of the version to be timed)

    from reviews import classifier, reviews  # noqa: PLC0415

    model, tokenizer = classifier(options.device)
    texts = reviews(tokenizer, options.texts)
    explainers = {"imdb-bert-2": Explainer(model, tokenizer), "bundled": Explainer(device=options.device)}
    for line in sys.stdin:
        name, way = json.loads(line)
        explain = explainers[name]
        explain.engine.forget()  # answers of the pass before
        began = perf_counter()
        for part in [texts] if way == "all" else [[text] for text in texts]:
            explain(part, method="joint", queries=options.queries)
        sys.stderr.write(json.dumps(perf_counter() - began) + "\n")
        sys.stderr.flush()


class Version:
    """A process that explains with the sources of a folder."""

    def __init__(self, folder, arguments):
        path = os.pathsep.join([str(folder / "src"), str(folder / "benchmarks"), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments, "--work"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def seconds(self, name, way):
        """Return how long this version takes now."""
        with suppress(BrokenPipeError):  # it has ended; what it said is below
            self.process.stdin.write(json.dumps([name, way]) + "\n")
            self.process.stdin.flush()
        said = []
        for line in self.process.stderr:  # warnings come here, too
            try:
                return float(line)
            except ValueError:
                said.append(line)
        raise SystemExit("".join(said))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, nargs="+", help="folder with src/ and benchmarks/reviews.py of an earlier version")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["imdb-bert-2", "bundled"])
    parser.add_argument("--ways", nargs="+", default=["all", "one"], choices=["all", "one"])
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    versions = [Version(folder.resolve(), sys.argv[1:]) for folder in (HERE, *options.before)]
    print(f"{'ms a text':<14}{'way':<6}{'now':>8}  before, ratio of the medians (of single passes)", flush=True)
    for name in options.models:
        for way in options.ways:
            for version in versions:
                version.seconds(name, way)  # the first time captures graphs
            times = [[version.seconds(name, way) for version in versions] for _ in range(options.passes)]
            now, *before = (1e3 * statistics.median(column) / options.texts for column in zip(*times, strict=True))
            cells = []
            for number, old in enumerate(before, start=1):
                passes = ", ".join(f"{row[0] / row[number]:.2f}" for row in times)
                cells.append(f"{old:.0f} {now / old:.2f} ({passes})")
            print(f"{name:<14}{way:<6}{now:>8.0f}  {'   '.join(cells)}", flush=True)
    for version in versions:
        version.process.terminate()


if __name__ == "__main__":
    main()
