"""Pages that are made from code are as the code is."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_state_diagrams_are_drawn_from_the_tables() -> None:
    """docs/states.md: run `python docs/draw_states.py` after a change."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_states.py"))
    assert (ROOT / "docs" / "states.md").read_text() == made["page"]()


def test_links_of_the_pages_lead_somewhere() -> None:
    """Every relative link in README.md and docs/ names a file that is there."""
    import re

    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
