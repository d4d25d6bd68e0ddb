"""Draws in docs/architecture.md the rooms of the package and the table of verbs: `python docs/draw_architecture.py`.

Text between `<!-- generated: NAME -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that
the page is up to date.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lacuna.controlplane.client.repeating import NOT_REPEATED
from lacuna.controlplane.v1.control_pb2 import Command

PAGE: Final = Path(__file__).with_name("architecture.md")
PACKAGE: Final = PAGE.parents[1] / "lacuna"
_SECTION: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    """The other rooms that each room imports, at the top of a module or inside a function."""
    found: dict[str, set[str]] = {}
    named = re.compile(rf"\b{package.name}(?:\.| import )(\w+)")
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if room.startswith("__"):
            continue
        known, text = found.setdefault(room, set()), path.read_text(encoding="utf-8")
        # A file that names only rooms which are known is not parsed: that would take a hundred times as long.
        if not {room, *known}.issuperset(named.findall(text)):
            known |= _imported(text, package.name) - {room}
    return found


def _imported(text: str, package: str) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith(f"{package}.")}
    return rooms


def arrows(rooms: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The imports without those that follow from others, from the top to the ground.

    Raises ValueError for a circle.
    """
    below = {room: _below(room, rooms, ()) for room in rooms}
    order = sorted(rooms, key=lambda room: (-len(below[room]), room))
    return [
        (room, each)
        for room in order
        for each in order
        if each in rooms[room] and not any(each in below[other] for other in rooms[room])
    ]


def _below(room: str, rooms: Mapping[str, set[str]], above: tuple[str, ...]) -> set[str]:
    """All rooms that a room imports, itself or by way of others."""
    if room in above:
        raise ValueError(f"a circle of imports: {' -> '.join((*above, room))}")
    found = set(rooms[room])
    for each in rooms[room]:
        found |= _below(each, rooms, (*above, room))
    return found


def _rooms() -> Iterator[str]:
    yield "```mermaid"
    yield "flowchart TD"
    for room, each in arrows(imports()):
        yield f"    {room} --> {each}"
    yield "```"


def _verbs() -> Iterator[str]:
    """What becomes of each verb if its reply is lost: the options of its line in control.proto."""
    verbs = [field.name for field in Command.DESCRIPTOR.oneofs_by_name["verb"].fields]
    repeated = ", ".join(f"`{verb}`" for verb in verbs if verb not in NOT_REPEATED)
    yield "| verbs | a second decision | so the client |"
    yield "|---|---|---|"
    yield f"| {repeated} | has no further effect, and returns the same reply | repeats the command, up to three times |"
    for verb, effect in NOT_REPEATED.items():
        yield f"| `{verb}` | {effect} | fails the call with ControlPlaneUnavailable |"


def page() -> str:
    """The whole page with its drawings made anew."""
    made = {"rooms": "\n".join(_rooms()), "verbs": "\n".join(_verbs())}
    return _SECTION.sub(
        lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", PAGE.read_text(encoding="utf-8")
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
