"""Tests that the checked-in messages are what the generator writes from Kafka's definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.wire import generator


@pytest.mark.java
def test_the_messages_are_as_kafka_defines_them(tmp_path: Path) -> None:
    """Run `python -m lacuna.wire.generator` after changing it or Kafka's version."""
    versions = (generator.KAFKA, generator.BEFORE_KAFKA_4)
    generator.write([generator.bring_jar(version, tmp_path) for version in versions], tmp_path)
    assert_same(tmp_path, generator.MESSAGES)


@pytest.mark.java
def test_the_records_of_internal_topics_are_as_kafka_defines_them(tmp_path: Path) -> None:
    jars = {
        name: generator.bring_jar(generator.KAFKA, tmp_path, name) for name in generator.RECORDS
    }
    generator.write_records(jars, tmp_path)
    assert_same(tmp_path, generator.RECORD_MESSAGES)


def assert_same(written: Path, checked_in: Path) -> None:
    made = {path.name: path.read_text() for path in written.glob("*.py")}
    there = {path.name: path.read_text() for path in checked_in.glob("*.py")}
    assert there.keys() - made.keys() == {"__init__.py"}
    for name, text in made.items():
        assert there[name] == text
