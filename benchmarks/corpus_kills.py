"""A long run under random kills: no row is lost, doubled or changed.

    python benchmarks/corpus_kills.py [--texts 20000] [--part-size 50] [--workers 2] [--seed 0] [--every 3] [--deadly 2]

A cheap function is explained in worker processes. After every few parts, at a random moment, a worker or now and then the
driver itself gets a kill -9; the driver is started again with the same command until it ends by itself. A few texts end their
worker whenever they are asked. The table is then compared, row by row, with one made in one process without any kill.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from slalom import Explainer, corpus

WORDS = ["the", "film", "was", "good", "bad", "long", "very", "not", "a", "of", "plot", "actor", "and", "dull", "bright"]


def score(texts):
    """Log odds of a review."""
    return [1.5 * text.count("good") - text.count("bad") + 0.1 * len(text.split()) for text in texts]


def deadly(texts):
    """The same, but some texts end the process."""
    if any("deadly" in text for text in texts):
        os.kill(os.getpid(), signal.SIGKILL)
    return score(texts)


def explainer(function):
    """Return the explainer; workers import this function."""
    return Explainer(function, output="log_odds", labels=["bad", "good"], method="ridge", queries=20, check=8)


def write(path, number, killers, seed):
    """Write texts, some of which are deadly."""
    generator = random.Random(seed)
    chosen = set(generator.sample(range(number), killers))
    with path.open("w") as file:
        for i in range(number):
            words = generator.choices(WORDS, k=generator.randint(3, 9)) + (["deadly"] if i in chosen else [])
            file.write(json.dumps({"text": " ".join(words)}) + "\n")
    return chosen


def rows(out):
    """Return all rows by number, without the time that they took; fails where a number comes twice."""
    found = {}
    for batch in corpus.open(out).batches():
        for row in batch.to_pylist():
            assert row["number"] not in found, f"row {row['number']} is there twice"
            found[row["number"]] = {name: value for name, value in row.items() if name not in ("seconds", "error")}
    return found


def children(process):
    """Return the worker processes of a driver."""
    try:
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [int(pid) for pid in listed if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    except OSError:
        return []


def written(out):
    """Return how many parts are there."""
    return len(list((out / "parts").glob("[0-9]*.parquet")))


def campaign(arguments, every, seed):
    """Run the driver to its end under kills; return how many workers and drivers were killed."""
    generator = random.Random(seed + 1)
    workers = drivers = 0
    while True:
        process = subprocess.Popen([sys.executable, __file__, "--drive", *map(str, arguments)])
        goal = written(arguments[1]) + 1 + int(generator.expovariate(1.0 / every))
        while process.poll() is None:
            if written(arguments[1]) < goal:
                time.sleep(0.02)
                continue
            goal = written(arguments[1]) + 1 + int(generator.expovariate(1.0 / every))
            time.sleep(generator.uniform(0.0, 0.3))
            alive = children(process)
            if generator.random() < 0.25:
                process.kill()
                process.wait()
                drivers += 1
            elif alive:
                with suppress(ProcessLookupError):
                    os.kill(generator.choice(alive), signal.SIGKILL)
                    workers += 1
        if process.returncode == 0:
            return workers, drivers
        assert process.returncode == -signal.SIGKILL, f"the driver ended with {process.returncode}"


def main():
    if sys.argv[1:2] == ["--drive"]:
        source, out, size, workers = sys.argv[2:]
        corpus.run(source, out, partial(explainer, deadly), part_size=int(size), workers=int(workers), progress=False)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--part-size", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=3.0, help="mean number of parts between kills")
    parser.add_argument("--deadly", type=int, default=2, help="texts that end their worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.jsonl"
        killers = write(source, options.texts, options.deadly, options.seed)
        began = time.perf_counter()
        corpus.run(source, Path(folder) / "undisturbed", explainer(score), part_size=options.part_size, progress=False)
        quiet = time.perf_counter() - began
        out = Path(folder) / "out"
        killed = campaign([source, out, options.part_size, options.workers], options.every, options.seed)
        seconds = time.perf_counter() - began - quiet
        expected, found = rows(Path(folder) / "undisturbed"), rows(out)
    marked = {number for number, row in found.items() if row["status"] == "killed"}
    missing = expected.keys() - found.keys()
    different = [number for number in found if number not in marked and found[number] != expected[number]]
    print(f"{options.texts} texts in {seconds:.0f} s ({quiet:.0f} s undisturbed in one process)")
    print(f"kills: {killed[0]} of workers, {killed[1]} of the driver")
    print(f"rows: {len(missing)} lost, {len(found) - len(expected.keys() & found.keys())} too many, {len(different)} different")
    print(f"marked as killed: {len(marked & killers)} of the {len(killers)} deadly ones, {len(marked - killers)} others")
    sys.exit(bool(missing or different or marked != killers))


if __name__ == "__main__":
    main()
