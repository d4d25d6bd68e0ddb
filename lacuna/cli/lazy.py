"""Commands whose modules are imported when they are called. `lacuna --help` imports none of them."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from lacuna.cli.command_line import Command, Group, make_command


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the list of commands. `source` is the MODULE:NAME of its function or group.

    A function that `shows` tables has options for the output format.
    """

    source: str
    help: str
    shows: bool = False

    def load(self, name: str) -> click.Command:
        """Imports the command's module and returns the command, named `name`."""
        module, _, attribute = self.source.partition(":")
        target = getattr(import_module(module), attribute)
        if not isinstance(target, click.Command):
            return make_command(name, target, shows=self.shows)
        target.name = name
        return target


class LazyGroup(Group):
    """A group of the commands in `entries`. The list of commands shows each entry's line of help without imports."""

    def __init__(self, name: str, entries: dict[str, Entry], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.entries = entries
        for each, entry in entries.items():
            self.add_command(Command(each, help=entry.help))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Imports the called command. Returns its name, the command, and the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = self.entries[name].load(name)
        return name, command, rest
