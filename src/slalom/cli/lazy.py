"""Commands whose modules are imported when they are needed, so that `slalom --help` and completion are fast."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from slalom.cli.options import GROUPS


def lazy_group(package: str, summaries: Mapping[str, str]) -> type[TyperGroup]:
    """Return a class of groups with one command per module of a package.

    The command `name` is the function `name` of the module `name`, or a `typer.Typer` with commands of its own. It is imported
    when the command runs, when its own help is shown or when its options are completed; the help of the group and the
    completion of its commands need the summaries alone.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            for name, summary in summaries.items():
                self.add_command(TyperCommand(name, help=summary))

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            return name, _loaded(package, name) if name and name in summaries else command, rest

    return LazyGroup


def _loaded(package: str, name: str) -> Any:
    """Import a command and return it as typer parses and calls it."""
    command = getattr(import_module(f"{package}.{name}"), name)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
        group = typer.main.get_group(app).commands[name]
        return _grouped(group, *group.commands.values())  # type: ignore[attr-defined]
    app.command(name)(command)
    return _grouped(typer.main.get_command(app))


def _grouped(*commands: Any) -> Any:
    """Put the options of commands into the groups of their help, in one order; return the first command."""
    group_of, order = {name: group for group, names in GROUPS.items() for name in names.split()}, [None, *GROUPS]
    for command in commands:
        for option in command.params:
            if option.param_type_name == "option":
                option.rich_help_panel = option.rich_help_panel or group_of.get(option.name)
        command.params.sort(key=lambda option: order.index(group) if (group := option.rich_help_panel) in order else len(order))
    return commands[0]
