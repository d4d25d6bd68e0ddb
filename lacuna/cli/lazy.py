"""Commands whose modules are imported only when they are called: `lacuna --help` imports none of them."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from lacuna.cli.command_line import Command, Group, make_command


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the list of commands; `source` is the MODULE:NAME of its function or group.

    A function that `shows` tables has options for how they are printed.
    """

    source: str
    help: str
    shows: bool = False

    def load(self, name: str) -> click.Command:
        """Imports the command's module and returns the command, named `name`."""
        module, _, attribute = self.source.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, click.Command):
            return make_command(name, found, shows=self.shows)
        found.name = name
        return found


class LazyGroup(Group):
    """A group of the commands in `entries`. Listing them uses each entry's line of help and imports nothing."""

    def __init__(self, name: str, entries: dict[str, Entry], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.entries = entries
        for each, entry in entries.items():
            self.add_command(Command(each, help=entry.help))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called, which is imported now: its name, the command, and the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = self.entries[name].load(name)
        return name, command, rest
