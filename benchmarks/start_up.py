"""How long imports take, beside `import numpy, scipy` in the same run.

Run: python benchmarks/start_up.py [--repeats 9]

Every import runs in a fresh interpreter, in turn with the others; the time of the interpreter itself is subtracted. slalom
loads its parts on first use, so the ratio of `import slalom` should stay well below 1.
"""

import argparse
import statistics
import subprocess
import sys
import time

PEER = "import numpy, scipy"
EXPLAIN = "from slalom.cli import main; import sys; sys.argv = ['slalom', {}]; main()"
IMPORTS = (
    "import slalom",
    "from slalom import Explainer",
    "from slalom.core import Joint, fit",
    "from slalom.cli import main",
    "from slalom import compare",
    EXPLAIN.format("'--help'"),
    EXPLAIN.format("'explain', 'A dull film.'"),
)


def seconds(code):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    rows = ("pass", PEER, *IMPORTS)
    times = {code: [] for code in rows}
    for _ in range(repeats):
        for code in rows:
            times[code].append(seconds(code))
    empty, peer = (statistics.median(times[code]) for code in ("pass", PEER))
    print(f"{'':36} {'seconds':>8} {'ratio to ' + PEER:>30}")
    for code in rows[1:]:
        took = statistics.median(times[code]) - empty
        print(f"{code.partition('sys.argv = ')[2] or code:36.60} {took:8.3f} {took / (peer - empty):30.2f}")


if __name__ == "__main__":
    main()
