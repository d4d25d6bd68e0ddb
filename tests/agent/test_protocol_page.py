"""docs/protocol.md says what ApiVersions says."""

import re
from pathlib import Path

from kio.schema.index import api_key_map

from agent.apis.registry import discover

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?:\u2013(\d+))? \|", re.MULTILINE)


def test_the_table_is_what_is_advertised() -> None:
    """S24: key, name and range of every API."""
    rows = ROW.findall(PAGE.read_text())
    told = {int(key): (int(low), int(high or low)) for key, _, low, high in rows}
    assert told == dict(discover().advertised())
    for key, name, _, _ in rows:
        assert name.lower() == api_key_map[int(key)].replace("_", "")
