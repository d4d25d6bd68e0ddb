"""Writes the tables of docs/configuration.md from the settings of the code: `python docs/draw_configuration.py`.

Text between `<!-- generated: NAME -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that
the page is up to date.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lacuna.base.setting import Setting
from lacuna.cli.command_line import Option
from lacuna.cli.tables import TABLES
from lacuna.cli.vocabulary import keyed_options, options_of

PAGE: Final = Path(__file__).with_name("configuration.md")
_SECTION: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The whole page with its tables made anew."""
    made = {"places": "\n".join(_places())}
    made |= {name: "\n".join(_settings(name)) for name in ("agent", "controlplane")}
    return _SECTION.sub(
        lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}", PAGE.read_text(encoding="utf-8")
    )


def _places() -> Iterator[str]:
    yield "| key | option | environment variable | commands | meaning |"
    yield "|---|---|---|---|---|"
    for option in keyed_options():
        cells = (f"`{option.key}`", f"`{option.opts[0]}`", f"`{option.envvar}`")
        yield f"| {' | '.join(cells)} | {_commands(option)} | {option.help} |"


def _commands(option: Option) -> str:
    from lacuna.cli.entries import ENTRIES

    return ", ".join(
        f"`{name}`"
        for name in TABLES
        if option.key in {each.key for each in options_of(ENTRIES[name].load(name))}
    )


def _settings(command: str) -> Iterator[str]:
    yield "| key | default | values | option | environment variable | meaning |"
    yield "|---|---|---|---|---|---|"
    for row in TABLES[command].values():
        option = f"`{row.option}`" if row.option else "`--set`"
        cells = (f"`{row.key}`", _default(row), _values(row), option, f"`{row.variable}`")
        yield f"| {' | '.join(cells)} | {row.documentation} |"


def _default(row: Setting) -> str:
    if isinstance(row.default, bool):
        return str(row.default).lower()
    return f"{row.default:,}" if isinstance(row.default, int) else row.default or "none"


def _values(row: Setting) -> str:
    if isinstance(row.default, bool | str):
        return row.allowed
    return f"{row.least:,} to {row.most:,}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
