"""Apache Kafka 4.4 as a source, under load and faults. `python -m tests.importing.moving_in` runs it at full size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.importing.moving_in import Plan, run


@pytest.mark.slow
@pytest.mark.java
def test_apache_kafka_is_copied_exactly_whatever_is_killed(tmp_path: Path) -> None:
    plan = Plan(seconds=5, pause=0.1, kills=2, restarts=1, takeovers=1)
    found, load, said = run(tmp_path, "4.4", plan)
    assert (found.differences, load.failures) == ([], [])
    assert (found.partitions, bool(found.records), bool(found.offsets)) == (38, True, True)
    assert load.committed
    assert load.aborted
    assert not re.findall(r"^\S+ cannot .*", said, re.MULTILINE), (
        "a topic or a partition was stopped"
    )
