"""Writes docs/commands.md and docs/commands/ from the commands themselves: `python docs/draw_commands.py`.

docs/commands/ has one page for each group of PAGES. In docs/commands.md, the list between `<!-- generated:
commands -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that all pages are up to date.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from lacuna.cli.app import app
from lacuna.cli.entries import LazyGroup

PAGE: Final = Path(__file__).with_name("commands.md")
FOLDER: Final = Path(__file__).with_name("commands")
#: The pages of docs/commands/: the title of each, and its commands.
PAGES: Final = {
    "servers": ("Servers", ("up", "controlplane", "agent", "console")),
    "administration": (
        "Administration",
        ("status", "topics", "groups", "transactions", "acls", "users", "quotas"),
    ),
    "records": ("Records", ("produce", "consume", "sql", "time-travel", "explain")),
    "jobs": ("Jobs", ("compact", "export", "import", "judge", "verify", "metadata")),
    "help": ("First steps and help", ("demo", "doctor", "profile", "config", "completion")),
}
_SECTION: Final = re.compile(r"(<!-- generated: commands -->\n).*?(<!-- end -->)", re.DOTALL)
_HELP: Final = "--help"  # every command has it, which the page says once


def pages() -> dict[Path, str]:
    """Every page, with its text drawn anew."""
    root = click.Context(app, info_name="lacuna")
    drawn = {PAGE: _list(root)}
    commands = dict(_commands_of(app, root))
    for page, (title, names) in PAGES.items():
        lines = [f"# {title}", ""]
        for name in names:
            command = commands.pop(name)
            context = click.Context(command, parent=root, info_name=name)
            lines += [*_command(command, context, 2), *_below(command, context, 3)]
        drawn[FOLDER / f"{page}.md"] = "\n".join(lines)
    assert not commands, f"{', '.join(commands)}: PAGES lists no page"
    return drawn


def _list(root: click.Context) -> str:
    rows = ["| command | |", "|---|---|"]
    page_of = {name: page for page, (_, names) in PAGES.items() for name in names}
    for name, command in _commands_of(app, root):
        first = inspect.cleandoc(command.help or "").split("\n\n")[0]
        rows.append(
            f"| [`lacuna {name}`](commands/{page_of[name]}.md#lacuna-{name}) "
            f"| {_plain(' '.join(first.split()))} |"
        )
    return _SECTION.sub(
        lambda found: "\n".join([f"{found[1]}{rows[0]}", *rows[1:], found[2]]),
        PAGE.read_text(encoding="utf-8"),
    )


def _commands_of(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.entries[name].load(name) if isinstance(group, LazyGroup) else None
        yield name, command or group.commands[name]


def _below(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name, each in _commands_of(command, context):
            inner = click.Context(each, parent=context, info_name=name)
            yield from _command(each, inner, level)
            yield from _below(each, inner, level + 1)


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{context.command_path}`"
    yield ""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _plain(" ".join(paragraph.split()))
        yield ""
    yield f"    {' '.join(command.get_usage(context).removeprefix('Usage:').split())}"
    yield ""
    rows = [each for each in command.get_params(context) if _HELP not in each.opts]
    if rows:
        yield "| option | value | default | variable | meaning |"
        yield "|---|---|---|---|---|"
        for parameter in rows:
            yield _row(parameter, context)
        yield ""


def _row(parameter: click.Parameter, context: click.Context) -> str:
    value = "" if getattr(parameter, "is_flag", False) else parameter.make_metavar(context)
    name = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
    extra: dict[str, Any] = {}
    if isinstance(parameter, click.Option):
        extra = dict(parameter.get_help_extra(context))
    elif isinstance(parameter, click.Argument):
        name, value = f"`{_without_brackets(value)}`", ""
    if isinstance(parameter.type, click.Choice):
        value = _without_brackets(value)
    if bounds := extra.get("range"):
        value += f", {bounds}"
    cells = (
        name,
        f"`{value.replace('|', ', ')}`" if value else "",
        _plain(str(extra.get("default", ""))),
        ", ".join(f"`{each}`" for each in extra.get("envvars", ())),
        _plain(getattr(parameter, "help", None) or ""),
    )
    return f"| {' | '.join(cells)} |"


def _without_brackets(value: str) -> str:
    """What click puts into brackets: an argument that may be left out, `[PARTITION]`, and choices, `[one|other]`."""
    return re.sub(r"^\[(.*)\](\.\.\.)?$", r"\1\2", value)


def _plain(text: str) -> str:
    """A text in which nothing is a table's or HTML's."""
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    drawn = pages()
    FOLDER.mkdir(exist_ok=True)
    for stale in set(FOLDER.glob("*.md")) - set(drawn):
        stale.unlink()
    for path, text in drawn.items():
        path.write_text(text, encoding="utf-8")
