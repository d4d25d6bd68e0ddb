"""Tests that docs/protocol.md matches the code and the answers of a running agent."""

import json
import re
import runpy
from pathlib import Path

from tests.agent.harness import RawClient
from tests.agent.plane import cluster
from tests.golden.messages import API_NAMES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?:\u2013(\d+))? \|", re.MULTILINE)
KAFKA = json.loads((ROOT / "tests" / "golden" / "api_versions_kafka_4_1.json").read_text())


def test_the_tables_are_written_from_the_code() -> None:
    """Run `python docs/draw_protocol.py` after changing an API's versions or notes."""
    made = runpy.run_path(str(ROOT / "docs" / "draw_protocol.py"))
    assert PAGE.read_text() == made["page"]()


async def test_the_table_is_what_an_agent_answers() -> None:
    """S24: key, name and range of every API."""
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
    """One of the two tables lists each API of Kafka 4.1."""
    before, rest = PAGE.read_text().split("## Not served\n")
    missing, after = rest.split("\n## ", 1)
    served = before + after
    for name in KAFKA["names"].values():
        plain = "".join(word.capitalize() for word in name.split("_"))
        assert (f"| {plain} |" in served) != bool(re.search(rf"\b{plain}\b", missing))
