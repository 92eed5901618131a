"""Ask models, run methods, print the table."""

import argparse
from pathlib import Path

from arena.answers import ask
from arena.cases import CASES, TEXTS


def main():
    parser = argparse.ArgumentParser(prog="python -m arena", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    asking = steps.add_parser("ask", help="ask the models of cases about all rows, and write their answers")
    asking.add_argument("cases", nargs="+", choices=[*(case.name for case in CASES), "all"])
    asking.add_argument("--models", type=Path, default=Path("arena-models"), help="folder of trained models")
    asking.add_argument("--device", default="cpu")
    asking.add_argument("--texts", type=int, default=TEXTS)
    running = steps.add_parser("run", help="fit and test methods on the stored answers")
    running.add_argument("methods", nargs="+")
    running.add_argument("--jobs", type=int, default=2, help="processes, each with one thread (default 2)")
    running.add_argument(
        "--cases", nargs="+", choices=[case.name for case in CASES], help="default: all; scores of others stay"
    )
    weighing = steps.add_parser("memory", help="measure the memory of methods on the largest text")
    weighing.add_argument("methods", nargs="+")
    steps.add_parser("table", help="print the table of all methods that have run, and write results/arena.md")
    options = parser.parse_args()
    if options.step == "ask":
        if not options.models.is_dir():
            parser.error(f"--models must be a folder; {options.models} is none")
        for case in CASES:
            if case.name in options.cases or "all" in options.cases:
                ask(case, options.models, options.device, options.texts)
        return
    from arena.methods import METHODS  # noqa: PLC0415
    from arena.scoring import memory, run  # noqa: PLC0415

    if options.step in ("run", "memory"):
        unknown = sorted(set(options.methods) - {*METHODS, "all"})
        if unknown:
            parser.error(f"there is no method {unknown[0]!r}; there are {', '.join(METHODS)}")
        names = list(METHODS) if "all" in options.methods else list(dict.fromkeys(options.methods))
        if options.step == "memory":
            memory(names)
            return
        if options.jobs < 1:
            parser.error(f"--jobs must be at least 1; got {options.jobs}")
        run(names, options.jobs, [case for case in CASES if case.name in (options.cases or [case.name])])
        return
    from arena.page import page  # noqa: PLC0415

    text = page()
    (Path(__file__).parents[1] / "results" / "arena.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted; methods that were finished keep their scores") from None
