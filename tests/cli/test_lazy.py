"""Commands are imported when they are needed; help and completion do not tell the difference."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from slalom.cli.app import COMMANDS, app
from slalom.cli.lazy import lazy_group


def loaded(name, *arguments):
    """The command as the group resolves it."""
    group = typer.main.get_command(app)
    with group.make_context("slalom", [name, *arguments]) as context:
        return group.resolve_command(context, [name, *arguments])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_paragraph_of_the_help(name):
    _, command, _ = loaded(name)
    assert COMMANDS[name] == " ".join(command.help.split("\n\n")[0].split())


def test_an_option_means_the_same_and_is_in_the_same_group_in_every_command():
    seen = {}
    for name in COMMANDS:
        _, command, _ = loaded(name)
        for sub in (command, *getattr(command, "commands", {}).values()):
            for option in sub.params:
                if option.param_type_name == "option":
                    assert option.rich_help_panel, (
                        f"{option.opts[0]} of {sub.name} is in no group: see GROUPS in cli/options.py"
                    )
                    assert seen.setdefault(option.opts[0], option.rich_help_panel) == option.rich_help_panel
                if "--column" in option.opts:
                    assert (option.help, option.name) == ("Column of the rows that holds the texts.", "column"), name
                if "--file" in option.opts:
                    assert option.help.startswith(("File with one text per line, or rows", "Text file with the context")), name
                    assert "- is stdin" in option.help


def completed(words):
    """What a shell offers in place of the last of these words."""
    asked = {"_SLALOM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; sys.argv = ['slalom']; from slalom.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=False
    )
    return run.stdout.split()


def test_a_shell_completes_commands_their_options_and_choices():
    assert completed("slalom com") == ["compare"]
    assert completed("slalom explain --to") == ["--tolerance", "--top"]
    assert completed("slalom explain --unit w") == ["word"]


def test_options_of_a_command_are_those_of_its_function():
    name, command, rest = loaded("methods", "--json")
    assert (name, rest) == ("methods", ["--json"])
    assert [option for parameter in command.params for option in parameter.opts] == ["--json"]
    assert command.help.startswith(COMMANDS["methods"])


def test_a_misspelt_command_is_refused(capsys, monkeypatch):
    from slalom.cli import main  # noqa: PLC0415

    monkeypatch.setattr(sys, "argv", ["slalom", "explian"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "error: No such command 'explian'" in capsys.readouterr().err


def test_a_module_may_hold_commands_of_its_own(tmp_path, monkeypatch):
    package = tmp_path / "commands_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "fruit.py").write_text(
        "import typer\nfruit = typer.Typer(help='All fruit.')\n"
        "@fruit.command()\ndef eat(n: int): print(n + 1)\n@fruit.command()\ndef buy(): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    outer = typer.Typer(cls=lazy_group("commands_of_a_test", {"fruit": "All fruit."}))
    outer.callback()(lambda: None)
    run = CliRunner().invoke
    assert "All fruit." in run(outer, ["--help"]).output
    assert "commands_of_a_test.fruit" not in sys.modules
    assert {"eat", "buy"} <= set(run(outer, ["fruit", "--help"]).output.split())
    assert run(outer, ["fruit", "eat", "2"]).output == "3\n"
