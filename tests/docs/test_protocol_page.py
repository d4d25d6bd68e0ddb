"""docs/protocol.md is as the code is, and says what a running agent says."""

import json
import re
import runpy
from pathlib import Path

from kio.schema.index import api_key_map

from agent.apis.registry import Api, Registry, discover
from tests.agent.harness import RawClient
from tests.agent.plane import cluster

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?:\u2013(\d+))? \|", re.MULTILINE)
KAFKA = json.loads((ROOT / "tests" / "golden" / "api_versions_kafka_4_1.json").read_text())


def test_the_tables_are_written_from_the_code() -> None:
    """Run `python docs/draw_protocol.py` after a change of an API's versions or notes."""
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
        assert name.lower() == api_key_map[int(key)].replace("_", "")


def test_all_of_kafka_is_named() -> None:
    """What Kafka 4.1 answers is in one of the two tables."""
    served, missing = PAGE.read_text().split("## Not served")
    for name in KAFKA["names"].values():
        plain = "".join(word.capitalize() for word in name.split("_"))
        assert (f"| {plain} |" in served) != bool(re.search(rf"\b{plain}\b", missing))


def test_notes_of_all_that_serve_a_key_are_told() -> None:
    """The oldest versions first."""
    parts = [api for api in discover().apis() if api.key == 24]
    assert len(parts) == 2
    made = runpy.run_path(str(ROOT / "docs" / "draw_protocol.py"))

    def api(low: int, high: int, notes: str) -> Api:
        return Api(key=24, min_version=low, max_version=high, handle=parts[0].handle, notes=notes)

    page = made["page"](Registry([api(4, 5, "second"), api(0, 3, "first")]))
    assert "| 24 | AddPartitionsToTxn | 0\u20135 | first; second |" in page
