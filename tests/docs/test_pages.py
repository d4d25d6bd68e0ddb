"""Tests that generated pages, docs/protocol.md and docs/glossary.md match the code."""

import ast
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.harness import RawClient
from tests.agent.plane import cluster
from tests.golden.messages import API_NAMES

ROOT = Path(__file__).resolve().parents[2]
#: What would install the package `lacuna`, which is another project's.
FOREIGN = re.compile(r"\blacuna\[|pip3? install\b[^\n`&;|]*[\s'\"=]lacuna(?![-\w./])")


def test_the_state_diagrams_are_drawn_from_the_tables() -> None:
    """docs/states.md: run `python docs/draw_states.py` after a change."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_states.py"))
    assert (ROOT / "docs" / "states.md").read_text() == made["page"]()


@pytest.mark.slow
def test_the_rooms_and_the_verbs_are_drawn_from_the_code() -> None:
    """docs/architecture.md: run `python docs/draw_architecture.py` after changing a room's imports or a verb."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))
    assert (ROOT / "docs" / "architecture.md").read_text() == made["page"]()


def test_arrows_that_follow_from_others_are_left_out() -> None:
    arrows = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))["arrows"]
    house = {"ground": set(), "wall": {"ground"}, "stairs": {"ground"}, "roof": {"wall", "ground"}}
    assert arrows(house) == [("roof", "wall"), ("stairs", "ground"), ("wall", "ground")]
    with pytest.raises(ValueError, match="a circle of imports"):
        arrows(house | {"wall": {"roof"}})


@pytest.mark.slow
def test_the_pages_of_commands_are_written_from_them() -> None:
    """docs/commands.md, docs/commands/: run `python docs/draw_commands.py` after a change."""
    pages = runpy.run_path(str(ROOT / "docs" / "draw_commands.py"))["pages"]()
    docs = ROOT / "docs"
    assert {docs / "commands.md", *docs.glob("commands/*.md")} == set(pages)
    assert [path for path, text in pages.items() if path.read_text() != text] == []


def test_links_of_the_pages_lead_somewhere() -> None:
    """Every relative link in a page refers to an existing file. `make docs` also checks anchors."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def told_to_users() -> Iterator[Path]:
    """Return every file that may contain a hint: pages, messages and build files."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in (".ci", "bench", "docs", "examples", "lacuna"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file())


@pytest.mark.slow
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


PAGE = ROOT / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?:\u2013(\d+))? \|", re.MULTILINE)
KAFKA = json.loads((ROOT / "tests" / "golden" / "api_versions_kafka_4_4.json").read_text())


def test_the_tables_are_written_from_the_code() -> None:
    """Run `python docs/draw_protocol.py` after changing an API's versions or notes."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_protocol.py"))
    assert PAGE.read_text() == made["page"]()


async def test_the_table_is_what_an_agent_answers() -> None:
    """S24: the key, name and range of every API."""
    rows = ROW.findall(PAGE.read_text())
    told = {int(key): (int(low), int(high or low)) for key, _, low, high in rows}
    async with cluster() as running:
        client = await RawClient.connect(running.server.port)
        answer = await client.ask(18, 0)
        await client.close()
    assert told == {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    for key, name, _, _ in rows:
        assert name.lower() == API_NAMES[int(key)].replace("_", "")


def test_all_of_kafka_is_named() -> None:
    """Every API in Kafka 4.4 is listed in one of the two tables."""
    before, rest = PAGE.read_text().split("## Not served\n")
    missing, after = rest.split("\n## ", 1)
    served = before + after
    for name in KAFKA["names"].values():
        plain = "".join(word.capitalize() for word in name.split("_"))
        assert (f"| {plain} |" in served) != bool(re.search(rf"\b{plain}\b", missing))


#: These only point elsewhere: whoever reads the code sees no more than its name.
SAYS_NOTHING = re.compile(r"(Nothing|None|See \S+|As .{1,40} says)\.")


def glossary() -> dict[str, str]:
    rows = re.findall(
        r"^\| (.+?) \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE
    )
    assert rows[0] == ("word", "what it is")
    return dict(rows[1:])


def modules() -> Iterator[Path]:
    return (ROOT / "lacuna").rglob("*.py")


def docstrings() -> Iterator[tuple[str, str]]:
    """Return the docstrings in files with empty words, each with its file and name."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in modules():
        code = path.read_text()
        if SAYS_NOTHING.search(code) is None:
            continue  # to parse all of the code takes a second
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(ROOT)} {getattr(node, 'name', '')}", text


def test_it_is_alphabetical_and_has_each_word_once() -> None:
    page = (ROOT / "docs/glossary.md").read_text()
    words = re.findall(r"^\| ([^|]+?) \| ", page, re.MULTILINE)[1:]
    assert len(words) > 40
    assert words == sorted(set(words))


@pytest.mark.slow
def test_its_words_are_those_of_the_code() -> None:
    code = " ".join(path.read_text() for path in modules()).lower()
    spelt = {word: word.replace(" ", r"[_\s]*") for word in glossary()}
    assert [word for word, form in spelt.items() if not re.search(rf"\b{form}", code)] == []


def test_a_line_does_not_explain_a_word_by_itself() -> None:
    for word, text in glossary().items():
        assert not re.search(rf"\b{re.escape(word)}\b", text.split(",")[0]), word


@pytest.mark.slow
def test_docstrings_say_something() -> None:
    assert [where for where, text in docstrings() if SAYS_NOTHING.fullmatch(text)] == []
