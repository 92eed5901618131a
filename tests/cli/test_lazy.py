"""Commands are imported when they are needed; help, options and completion do not tell the difference."""

import re
from functools import reduce
from operator import getitem
from pathlib import Path

import slalom.cli
from slalom.cli.app import COMMANDS, app
from tests.commands import invoke

SUBCOMMANDS = [f"corpus {name}" for name in ("run", "status", "retry-failed", "summary", "compare", "sql")]
SUBCOMMANDS += [f"lexicon {name}" for name in ("build", "show", "compare")]
DIFFERENT = (  # options whose meaning or default depends on the command; their help says so
    "--api --column --corpus --csv --file --gold --max-queries --limit --min-texts --mode --model --out --prior --queries"
    " --removal --seed --target --template --timeout --top --unit"
)


def help_of(command, columns=80):
    result = invoke([*command.split(), "--help"], columns)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_the_summary_is_the_first_paragraph_of_the_help():
    for name, summary in COMMANDS.items():
        assert f"\n{summary.replace('`', '')}" in help_of(name, 300)


def test_an_option_means_the_same_and_is_in_the_same_group_in_every_command():
    groups = {}
    for command in [*COMMANDS, *SUBCOMMANDS]:
        shown = help_of(command, 300)
        assert "\nOptions\n" not in shown.replace("COMMAND [OPTIONS]", ""), command  # an option without a group
        for block in shown.split("\n\n"):
            title, *lines = block.strip().splitlines() or [""]
            for option in re.findall(r"^  (--[a-z-]+)", "\n".join(lines), flags=re.M):
                if title != "Commands":
                    assert groups.setdefault(option, title) == title, (command, option)
        if "--column" in shown:
            assert re.search(r"Column of the rows (that holds|with) the texts \(default: text\)", shown)
    assert {"--model", "--queries", "--json"} <= set(groups)


def test_no_option_is_defined_twice():
    source = "".join(path.read_text(encoding="utf-8") for path in Path(slalom.cli.__file__).parent.glob("*.py"))
    definitions = {}
    for command in {*COMMANDS, *SUBCOMMANDS} - {"corpus", "lexicon"}:
        for option in reduce(getitem, command.split(), app).assemble_argument_collection(parse_docstring=True):
            if option.name != "*":  # a group
                definition = option.parameter.help, repr(option.field_info.default)
                definitions.setdefault(option.name, set()).add(definition)
                assert source.count(definition[0]) == 1, (command, option.name, definition)
    assert {name for name, several in definitions.items() if len(several) > 1} == set(DIFFERENT.split())


def test_the_help_of_explain_fits_on_a_page():
    assert len(help_of("explain").splitlines()) <= 60


def test_a_shell_completes_commands_their_options_and_choices():
    script = app.generate_completion(shell="bash")
    assert all(word in script for word in ("compare", "--tolerance", "sentence"))


def test_a_misspelt_command_or_option_is_refused_with_the_likeliest():
    for words, said in (
        (["explian"], 'Unknown command "explian". Did you mean "explain"?'),
        (["explain", "good", "--colum", "x"], "Unknown option: --colum. Did you mean --column?"),
        (["explain", "good", "--unit", "wrd"], 'Invalid value "wrd" for --unit. Choose from: "token", "type", "word"'),
    ):
        result = invoke(words)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert said in result.stderr


def test_values_may_begin_with_a_hyphen_and_texts_after_two():
    assert invoke(["explain", "--queries", "20", "--", "-good-"]).exit_code == 0
    assert "must contain {text} once" in invoke(["explain", "a", "--api", "m", "--template", "- x", "--labels", "a,b"]).stderr
