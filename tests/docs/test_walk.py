"""Follows pages literally: README.md and then docs/start.md on one cluster, and the walkthrough in docs/security.md."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

import pytest

from lacuna.cli.explain import show
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.compat.clusters import free_ports

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, kind: str) -> Iterator[str]:
    """Return the code blocks in a page that are in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    yield from (code for found, code in _BLOCK.findall(text) if found == kind)


def run(code: str, cluster: Cluster) -> str:
    """Run a program from a page against the cluster. Return its output."""
    assert "127.0.0.1:9092" in code
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code.replace("127.0.0.1:9092", cluster.bootstrap), "page", "exec"), {})
    return printed.getvalue()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Starts a new cluster. It does not merge, however long the walkthrough takes."""
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
    shown = re.search(r"^The program prints:\n\n((?:    .*\n)+)", text, re.MULTILINE)
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


#: A block of these lines serves until the reader ends it, and prints such a line when the next step may begin.
SERVES = {"lacuna controlplane": "control plane:", "lacuna agent": "bootstrap:"}


@contextmanager
def serving(code: str, ready: str, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run a code block in the background, as in a separate terminal, until the body ends."""
    command = ["bash", "-euc", f"exec {code}"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith(ready) for line in process.stdout), code
            yield
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_walkthrough_of_security(tmp_path: Path) -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    walk = text[text.index("## Walkthrough") : text.index("### Checklist for production")]
    control, agent = (str(port) for port in free_ports(2))
    walk = walk.replace("7070", control).replace("9093", agent)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "200"}
    printed: list[str] = []
    exports = ""
    with ExitStack() as terminals:
        for prose, code in re.findall(r"(.*?)^```sh\n(.*?)^```", walk, re.MULTILINE | re.DOTALL):
            ready = next((said for start, said in SERVES.items() if code.startswith(start)), None)
            if ready is not None:
                terminals.enter_context(serving(code, ready, tmp_path, environment))
                continue
            fails = "commands fail" in prose
            for part in code.splitlines() if fails else [code]:
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", exports + part],
                    cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
                    check=False,
                )  # fmt: skip
                assert (done.returncode != 0) == fails, (part, done.stdout, done.stderr)
                printed.append(done.stdout + done.stderr)
            exports += "".join(re.findall(r"^export .*\n", code, re.MULTILINE))
    read, *refused, explained = printed[-4:]
    assert "hello" in read
    assert "ACLs do not allow it" in refused[0]
    assert "--control-tls-ca" in refused[1]
    assert "delivered" in explained
