"""Commands whose modules are imported when they are called: `lacuna --help` imports none of them."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

MARKUP: Final = "markdown"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as the list of commands shows it; `source` is MODULE:NAME of its function or Typer app."""

    source: str
    help: str

    def load(self, name: str) -> Any:
        """The command itself."""
        module, _, attribute = self.source.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
            alone.command(name)(found)
            found = alone
        command = get_command(found)
        command.name = name
        return command


class LazyGroup(TyperGroup):
    """A group over `entries`. Its list needs their one line of help only."""

    entries: ClassVar[dict[str, Entry]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, entry in self.entries.items():
            self.add_command(TyperCommand(name, help=entry.help))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """In the order of the table, which is the order of a newcomer's steps."""
        return list(self.entries)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, imported now."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = self.entries[name].load(name)
        return name, command, rest
