"""Explainers of cheap functions for runs in other processes, which import them by name; and a script that runs them.

python -m tests.corpus.models SOURCE OUT KIND [KEY=NUMBER ...]
"""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from slalom import Explainer, corpus


def score(texts):
    """Log odds of a review."""
    return [1.5 * text.count("good") - text.count("bad") + 0.1 * len(text.split()) for text in texts]


def other(texts):
    """The same under another name."""
    return score(texts)


def held(folder, texts):
    """The same, but it waits for a file `released`; the process is noted. All in a folder."""
    if len(texts) > 1:  # an explainer that is made asks about single texts
        (Path(folder) / f"process-{os.getpid()}").touch()
        while not (Path(folder) / "released").exists():
            time.sleep(0.02)
    return score(texts)


def written(folder):
    """Number of parts of the table in a folder."""
    return len(list(Path(folder).glob("out/parts/*.parquet")))


def deadly(texts):
    """The same, but a text with the word kills the process like a crash does."""
    if any("boom" in text for text in texts):
        os.kill(os.getpid(), signal.SIGKILL)
    return score(texts)


def leaving(texts):
    """The same, but a text with the word leaves the program."""
    if any("boom" in text for text in texts):
        sys.exit("no licence")
    return score(texts)


def hanging(folder, texts):
    """The same, after a while, but a text with the word is never answered; processes that answer are noted in a folder."""
    if any("boom" in text for text in texts):
        time.sleep(600.0)
    if len(texts) > 1:  # an explainer that is made asks about single texts
        (Path(folder) / f"process-{os.getpid()}").touch()
        time.sleep(0.6)
    return score(texts)


def traced(folder, texts):
    """The same, but the process and its Ray node are noted in a folder, and it waits where the table has so many parts."""
    import ray  # noqa: PLC0415

    if len(texts) > 1:
        (Path(folder) / "trace" / f"{os.getpid()}-{ray.get_runtime_context().get_node_id()}").touch()
        while written(folder) >= int((Path(folder) / "most").read_text()):
            time.sleep(0.02)
    return score(texts)


def flaky(folder, texts):
    """The same, but a text with the word fails as long as the folder has no file `mended`."""
    if any("odd" in text for text in texts) and not (Path(folder) / "mended").exists():
        raise RuntimeError("the server is down")
    return score(texts)


def down(folder, first, texts):
    """The same, but the server goes away before a text with the word, and is back when the folder has a file `mended`."""
    away = Path(folder) / "away"
    if any(first in text for text in texts):
        away.touch()
    if away.exists() and not (Path(folder) / "mended").exists():
        with (Path(folder) / "refused").open("a") as file:
            file.write("x")
        raise ConnectionError(f"[Errno 111] Connection refused at {id(texts):#x}")
    return score(texts)


def films(rows):
    """Log odds of records."""
    return [score([row["title"]])[0] + 0.5 * ("long" in row["body"]) + 0.6 * (row["stars"] > 2) for row in rows]


def pairs(rows):
    """Log odds of pairs."""
    return [2.0 * ("sleeps" in first and "awake" in second) - len(second.split()) for first, second in rows]


def explainer(function):
    return Explainer(function, output="log_odds", labels=["bad", "good"], method="ridge", queries=30, check=10)


def rows(out, *without):
    """All rows of a table, but for the time that they took."""
    return [
        {name: value for name, value in row.items() if name not in ("seconds", *without)}
        for batch in corpus.open(out).batches()
        for row in batch.to_pylist()
    ]


if __name__ == "__main__":
    source, out, kind, *options = sys.argv[1:]
    named = {name: value if name == "ray" else int(value) for name, value in (option.split("=") for option in options)}
    place = Path(out).parent
    function = {"deadly": deadly, "traced": partial(traced, place), "down": partial(down, place, "leaf")}[kind]
    corpus.run(source, out, partial(explainer, function), **named)
