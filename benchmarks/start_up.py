"""How long imports and commands take, beside `import numpy, scipy` in the same run, and how large an installation is.

Run: python benchmarks/start_up.py [--repeats 9] [--model FOLDER]

Everything runs in a fresh interpreter, in turn with the others. Seconds are medians: those on the clock, and those of the
processor (user and system), which a busy machine changes less. A ratio compares processor seconds with those of
`import numpy, scipy`, both less the time of an empty program. The last rows are `slalom explain` with a saved classifier in
torch (default: the bundled one by its folder), beside the import of nothing but its class from transformers; a table says what
that import spends its time on, by `python -X importtime`.

Sizes are those of the installed files of all distributions that a requirement brings along, by the metadata of this
environment.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import slalom
from slalom.models import EMBEDDED

PEER = "import numpy, scipy"
IMPORTS = ("import slalom", "from slalom import Explainer", "from slalom.core import Joint, fit", "from slalom import compare")
SENTENCE = "A dull film."
COMMANDS = (("--help",), ("explain", "--help"), ("explain", SENTENCE))
PARTS = {  # of the import of a class of transformers: the first pattern that an imported module matches
    "torch._dynamo, torch._inductor (torch.compile)": r"torch\._(dynamo|inductor|functorch)\b",
    "torch.distributed, torch.fx and sympy (several devices)": r"torch\.(distributed|fx)\b|sympy|mpmath",
    "the rest of torch": r"torch\b",
    "transformers: lists of its models and of installed packages": r"transformers(\.models|\.utils\.import_utils)?$",
    "the rest of transformers": r"transformers\b",
    "numpy and scipy (scipy.optimize for losses of object detection)": r"numpy|scipy",
    "accelerate, and what talks to the hub": r"accelerate|http|h11|trio|attr|huggingface_hub|anyio|ssl|certifi|idna",
    "other": "",
}


def seconds(arguments):
    """Run Python and return the seconds on the clock and of the processor."""
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def loading(model):
    """Return the import of the class of a saved classifier."""
    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    return f"from transformers import {config['architectures'][0]}"


def programs(model):
    """Return what is run, by its title."""
    rows = {title: ["-c", title] for title in ("pass", PEER, *IMPORTS)}
    rows |= {f"slalom {' '.join(words)}": ["-m", "slalom", *words] for words in COMMANDS}
    rows |= {title: ["-c", title] for title in ("import torch", loading(model))}
    rows[f"slalom explain --model {Path(model).name}"] = ["-m", "slalom", "explain", "--model", model, SENTENCE]
    return rows


def parts(program):
    """Return the shares of the time of a program's imports, by `PARTS`."""
    log = subprocess.run([sys.executable, "-X", "importtime", "-c", program], check=True, capture_output=True, text=True).stderr
    shares = dict.fromkeys(PARTS, 0.0)
    for own, module in re.findall(r"import time:\s+(\d+) \|\s+\d+ \| +(\S+)", log):
        shares[next(part for part, pattern in PARTS.items() if re.match(pattern, module))] += int(own) / 1e6
    return {part: share / sum(shares.values()) for part, share in shares.items()}


def closure(name, extras=()):
    """Return the names of the installed distributions that a requirement brings along, itself included."""
    found, todo = set(), [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while todo:
        item = todo.pop()
        if item in found:
            continue
        found.add(item)
        for line in metadata.requires(item[0]) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": item[1]}):
                todo += [(canonicalize_name(needed.name), extra) for extra in ("", *needed.extras)]
    return {name for name, _ in found}


def megabytes(names):
    """Return the size of the installed files of distributions; slalom's own may be linked."""
    own = canonicalize_name("slalom-xai")
    files = [path for path in Path(slalom.__file__).parent.rglob("*") if path.suffix != ".pyc"]
    files += [part.locate() for name in names - {own} for part in metadata.files(name) or () if part.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--model", default=str(EMBEDDED), help="folder of a saved classifier")
    options = parser.parse_args()
    rows = programs(options.model)
    times = {title: [] for title in rows}
    for _ in range(options.repeats):
        for title, arguments in rows.items():
            times[title].append(seconds(arguments))
    clock, work = ({title: statistics.median(pair[i] for pair in times[title]) for title in rows} for i in (0, 1))
    print(f"| {'':40} | seconds | of the processor | ratio to `{PEER}` |\n|---|---|---|---|")
    for title in rows:
        ratio = (work[title] - work["pass"]) / (work[PEER] - work["pass"])
        print(f"| {f'`{title}`':40} | {clock[title]:.2f} | {work[title]:.2f} | {ratio:.1f} |")
    print(f"\n| `{loading(options.model)}` | share of the time |\n|---|---|")
    for part, share in parts(loading(options.model)).items():
        print(f"| {part} | {share:.0%} |")
    print("\n| installation | distributions | megabytes |\n|---|---|---|")
    for extras in ((), ("hf",), ("all",)):
        names = closure("slalom-xai", extras)
        print(f"| `slalom-xai{f'[{extras[0]}]' if extras else ''}` | {len(names)} | {megabytes(names):,.0f} |")


if __name__ == "__main__":
    main()
