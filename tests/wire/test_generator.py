"""What is checked in is what the generator writes from Kafka's definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.wire import generator


@pytest.mark.java
def test_the_messages_are_as_kafka_defines_them(tmp_path: Path) -> None:
    """Run `python -m lacuna.wire.generator` after a change of it or of Kafka's version."""
    versions = (generator.KAFKA, generator.BEFORE_KAFKA_4)
    generator.write([generator.bring_jar(version, tmp_path) for version in versions], tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.py")}
    there = {path.name: path.read_text() for path in generator.MESSAGES.glob("*.py")}
    assert there.keys() - made.keys() == {"__init__.py"}
    for name, text in made.items():
        assert there[name] == text
