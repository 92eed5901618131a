"""The documentation as a user meets it: commands print what is written there, and every link and picture exists."""

import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "results").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
]
EXAMPLES = re.findall(r"```console\n\$ slalom (.*?)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)


NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def words_and_numbers(printed):
    """Split what a command printed into its words, with # for every number, and its numbers. Times are no part of either."""
    without_time = re.sub(r"[\d.]+ s$", "time", printed.strip(), flags=re.M)
    words = [" ".join(line.split()) for line in NUMBER.sub("#", without_time).splitlines()]
    return words, NUMBER.findall(without_time)


@pytest.mark.parametrize(("command", "printed"), EXAMPLES)
def test_commands_of_the_readme_print_what_it_shows(command, printed, monkeypatch, capsys):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from slalom import cli  # noqa: PLC0415

    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "argv", ["slalom", *shlex.split(command)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    words, numbers = words_and_numbers(capsys.readouterr().out)
    shown_words, shown_numbers = words_and_numbers(printed)
    assert words == shown_words
    for number, shown in zip(numbers, shown_numbers, strict=True):  # the last digit may be rounded up on another machine
        unit = 10.0 ** -len(shown.partition(".")[2])
        assert abs(float(number) - float(shown)) < 1.5 * unit, f"{number} is not {shown}"


def test_the_readme_has_commands_to_test():
    assert EXAMPLES
    assert all(len(words_and_numbers(printed)[1]) > 10 for _, printed in EXAMPLES)


def test_links_lead_somewhere():
    for page in PAGES:
        content = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        targets = re.findall(r"\]\(([^)#\s]+)", content) + re.findall(r'(?:src|srcset)="([^"]+)"', content)
        missing = [target for target in targets if not target.startswith("http") and not (page.parent / target).exists()]
        assert not missing, page


def test_every_target_of_the_makefile_is_explained_in_it():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^(\w[\w-]*):", makefile, flags=re.M)
    assert [target for target in targets if f"# make {target} " not in makefile] == []
