"""Tests that generated pages match the code."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What would install the package `lacuna`, which is another project's.
FOREIGN = re.compile(r"\blacuna\[|pip3? install\b[^\n`&;|]*[\s'\"=]lacuna(?![-\w./])")


def test_the_state_diagrams_are_drawn_from_the_tables() -> None:
    """docs/states.md: run `python docs/draw_states.py` after a change."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_states.py"))
    assert (ROOT / "docs" / "states.md").read_text() == made["page"]()


def test_the_rooms_and_the_verbs_are_drawn_from_the_code() -> None:
    """docs/architecture.md: run `python docs/draw_architecture.py` after a room imports another one, or after a verb
    changes.
    """
    made = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))
    assert (ROOT / "docs" / "architecture.md").read_text() == made["page"]()


def test_arrows_that_follow_from_others_are_left_out() -> None:
    arrows = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))["arrows"]
    house = {"ground": set(), "wall": {"ground"}, "stairs": {"ground"}, "roof": {"wall", "ground"}}
    assert arrows(house) == [("roof", "wall"), ("stairs", "ground"), ("wall", "ground")]
    with pytest.raises(ValueError, match="a circle of imports"):
        arrows(house | {"wall": {"roof"}})


def test_the_pages_of_commands_are_written_from_them() -> None:
    """docs/commands.md, docs/commands/: run `python docs/draw_commands.py` after a change."""
    pages = runpy.run_path(str(ROOT / "docs" / "draw_commands.py"))["pages"]()
    docs = ROOT / "docs"
    assert {docs / "commands.md", *docs.glob("commands/*.md")} == set(pages)
    assert [path for path, text in pages.items() if path.read_text() != text] == []


def test_links_of_the_pages_lead_somewhere() -> None:
    """Every relative link of a page names an existing file. `make docs` checks anchors too."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def told_to_users() -> Iterator[Path]:
    """Return everything that may contain a hint: pages, messages and build files."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in (".ci", "bench", "docs", "examples", "lacuna"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file())


def test_nobody_is_told_to_install_what_is_not_ours() -> None:
    suffixes = {"", ".md", ".py", ".toml", ".yaml", ".sh"}
    told = {
        path: path.read_text(errors="replace")
        for path in told_to_users()
        if path.suffix in suffixes
    }
    assert [path for path, text in told.items() if FOREIGN.search(text)] == []
    assert sum("pip install 'lacuna-log[spark]'" in text for text in told.values()) > 3


@pytest.mark.parametrize(
    ("text", "is_foreign"),
    [
        ("pip install lacuna", True),
        ("pip install 'lacuna[spark]'", True),
        ("python -m pip install -U lacuna, then", True),
        ("install lacuna[spark] there", True),
        ("pip install lacuna-log", False),
        ("pip install 'lacuna-log[spark]'", False),
        ("pip install . && lacuna up", False),
    ],
)
def test_what_would_install_another_project(text: str, is_foreign: bool) -> None:
    assert (FOREIGN.search(text) is not None) == is_foreign
