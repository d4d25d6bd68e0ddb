"""Follows README.md and then docs/start.md literally on one cluster."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from lacuna.cli.explain import show
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, kind: str) -> Iterator[str]:
    """Return the code blocks of one language in a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    yield from (code for found, code in _BLOCK.findall(text) if found == kind)


def run(code: str, cluster: Cluster) -> str:
    """Run a page's program against the cluster. Return its output."""
    assert "127.0.0.1:9092" in code
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code.replace("127.0.0.1:9092", cluster.bootstrap), "page", "exec"), {})
    return printed.getvalue()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Starts a new cluster without merges, however long the walk takes."""
    with Cluster(parts=AgentParts(housekeeping=None)) as made:
        yield made


def test_readme_and_then_first_steps(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    run(next(blocks("README.md", "python")), cluster)
    show(cluster.explain("orders", 0))
    told = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    (promised,) = (code for code in blocks("README.md", "console") if "$ lacuna explain" in code)
    rows = [line.split("\t") for line in promised.splitlines() if not line.startswith("$")]
    assert told == rows

    write, read = blocks("docs/start.md", "python")
    run(write, cluster)
    text = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    shown = re.search(r"^It prints\n\n((?:    .*\n)+)", text, re.MULTILINE)
    assert shown is not None
    assert run(read, cluster).splitlines() == [line.strip() for line in shown[1].splitlines()]


def test_the_first_command_needs_no_release() -> None:
    for page in ("README.md", "docs/start.md"):
        code = next(code for code in blocks(page, "console") if "pip install" in code)
        first = next(line for line in code.splitlines() if "pip install" in line)
        assert first.startswith("$ pip install '.[console")


def test_no_page_is_in_the_menu_twice() -> None:
    pages = re.findall(
        r"^\s+- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert len(pages) > 20
    assert len(pages) == len(set(pages))
