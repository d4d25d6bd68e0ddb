"""Writes the tables of docs/configuration.md from the settings of the code: `python docs/draw_configuration.py`.

Text between `<!-- generated: NAME -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that
the page is up to date.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from lacuna.base.setting import Setting
from lacuna.cli.entries import ENTRIES
from lacuna.cli.places import PLACES
from lacuna.cli.tables import AGENT, CONTROL_PLANE, rows_of

PAGE: Final = Path(__file__).with_name("configuration.md")
COMMANDS: Final = ("up", "agent", "controlplane", "console")
PARTS: Final = {"agent": AGENT, "controlplane": CONTROL_PLANE}
_SECTION: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The whole page with its tables made anew."""
    made = {"places": "\n".join(_places())}
    made |= {name: "\n".join(_settings(kinds)) for name, kinds in PARTS.items()}
    return _SECTION.sub(
        lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}", PAGE.read_text(encoding="utf-8")
    )


def _places() -> Iterator[str]:
    yield "| key | option | environment variable | commands | meaning |"
    yield "|---|---|---|---|---|"
    for row in rows_of(PLACES).values():
        cells = (f"`{row.key}`", f"`{row.option}`", f"`{row.variable}`")
        yield f"| {' | '.join(cells)} | {_commands(row)} | {row.documentation} |"


def _commands(row: Setting) -> str:
    rows = {name: getattr(ENTRIES[name].load(name), "rows", {}) for name in COMMANDS}
    return ", ".join(f"`{name}`" for name in COMMANDS if row.key in rows[name])


def _settings(kinds: Iterable[type[Any]]) -> Iterator[str]:
    yield "| key | default | values | option | environment variable | meaning |"
    yield "|---|---|---|---|---|---|"
    for row in rows_of(kinds).values():
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
