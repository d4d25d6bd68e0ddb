"""Draws the rooms of the package in docs/architecture.md from what they import: `python docs/draw_rooms.py`.

Text between `<!-- generated: rooms -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks
that the page is up to date.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).with_name("architecture.md")
PACKAGE: Final = PAGE.parents[1] / "lacuna"
_SECTION: Final = re.compile(r"(<!-- generated: rooms -->\n).*?(<!-- end -->)", re.DOTALL)


def imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    """The other rooms that each room imports, at the top of a module or inside a function."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if not room.startswith("__"):
            found.setdefault(room, set()).update(_imported(path, package.name) - {room})
    return found


def _imported(path: Path, package: str) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def page() -> str:
    """The whole page with its drawing made anew."""
    lines = [f"    {room} --> {each}" for room, each in arrows(imports())]
    drawn = "\n".join(["```mermaid", "flowchart TD", *lines, "```"])
    return _SECTION.sub(
        lambda match: f"{match[1]}{drawn}\n{match[2]}", PAGE.read_text(encoding="utf-8")
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
