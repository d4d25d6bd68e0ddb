"""Tests each page in a real browser: no axe-core violation, no violated policy, and no sideways scrolling."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from lacuna.console import limits
from lacuna.console.reading import Reader
from lacuna.testing import Cluster
from tests.lacuna.console.conftest import HOSTILE, Browser, served
from tests.lacuna.console.test_pages import PAGES

SCRIPT = Path(__file__).with_name("browser.mjs")
PACKAGES = ("axe-core@4.14.1", "puppeteer-core@24.43.1")
SECONDS = 240
EDITS = (
    "/edit/topic",
    "/edit/topics/orders/record",
    "/edit/group/delete?id=billing",
    "/edit/acl",
    "/edit/user",
)
#: 25 messages, some of them aborted, open or waiting.
TWENTY_FIVE = "/topics/orders/messages?from=0&isolation=read_uncommitted"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with axe-core and a browser driver from npm."""
    if not shutil.which("chromium") or not shutil.which("npm"):
        pytest.skip("needs chromium and npm")
    folder = tmp_path_factory.mktemp("modules")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if ran.returncode:
        pytest.skip(f"npm cannot install {' and '.join(PACKAGES)}: {ran.stderr[-200:]}")
    return folder


@pytest.mark.slow
def test_every_page_in_a_browser(filled: Cluster, modules: Path, tmp_path: Path) -> None:
    with served(filled, may_write=True) as browser:
        pages = [path for path in PAGES if path != "/nothing"]  # a 404 is logged as an error
        pages += [f"/transactions/abort?id={quote(HOSTILE)}"]
        pages += [TWENTY_FIVE, *EDITS]
        found = _shown(browser, modules, tmp_path, pages)
    assert found["shown"] == 2 * len(pages)
    assert found["violations"] == []
    assert found["complaints"] == []
    assert found["sideways"] == []
    (narrow,) = (
        height
        for where, height in found["heights"].items()
        if where.startswith(f"{TWENTY_FIVE} ") and where.endswith(" 390")
    )
    assert narrow <= 2500


@pytest.mark.slow
def test_messages_are_followed(
    lacuna_private_cluster: Cluster, modules: Path, tmp_path: Path
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("news")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("news", value="old")
    producer.flush()
    with served(cluster) as browser:
        path = "/topics/news/0/messages"
        asked = _asked(browser, modules, tmp_path, [], follow=path)
        with subprocess.Popen(
            ["node", str(SCRIPT), str(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "following\n"
            # The stream begins at the current end, which may be after the first of them.
            while process.poll() is None:
                producer.produce("news", value=HOSTILE)
                producer.flush()
                try:
                    process.wait(0.5)
                except subprocess.TimeoutExpired:
                    continue
            assert process.stdout is not None
            found = json.loads(process.stdout.read())
    assert "<script>alert('x')</script>" in found["followed"]


@pytest.mark.slow
def test_a_search_goes_on_by_itself(
    filled: Cluster, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FETCH_BYTES", 1)
    monkeypatch.setattr(Reader.__init__, "__kwdefaults__", {"most_bytes": 1})
    with served(filled) as browser:
        path = "/topics/orders/messages?q=bold"
        found = _shown(browser, modules, tmp_path, [], search=path)
    assert re.search(r"\d+ more messages examined, 1 found\.", found["searched"])


def _asked(
    browser: Browser,
    modules: Path,
    folder: Path,
    pages: list[str],
    follow: str = "",
    search: str = "",
) -> Path:
    asked = folder / "asked.json"
    asked.write_text(
        json.dumps(
            {
                "base": f"http://{browser.address}",
                "pages": pages,
                "follow": follow,
                "search": search,
                "modules": str(modules / "node_modules"),
                "chromium": shutil.which("chromium"),
            }
        )
    )
    return asked


def _shown(
    browser: Browser,
    modules: Path,
    folder: Path,
    pages: list[str],
    search: str = "",
) -> dict[str, Any]:
    asked = _asked(browser, modules, folder, pages, search=search)
    ran = subprocess.run(
        ["node", str(SCRIPT), str(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
