"""Tests real processes with their own Spark sessions: tasks that die, and a command that is killed."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lacuna.testing import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("place", ["folder"], indirect=True),
]


def _produce(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, os.urandom(2000), b"%d" % number)
        if number % 200 == 199:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def test_tasks_that_die_once(cluster: Cluster, topic: Any, consume: Any, place: Any) -> None:
    name = topic()
    _produce(cluster, name, 600)
    script = str(Path(__file__).with_name("failing.py"))
    subprocess.run(
        [sys.executable, script, str(cluster.data), name, place.url],
        check=True,
        timeout=280,
        capture_output=True,
    )
    assert place.rows(name) == consume(name)
    assert place.names("_staging") == []


def test_a_command_that_is_killed_while_spark_writes(
    cluster: Cluster, topic: Any, consume: Any, place: Any
) -> None:
    name = topic()
    _produce(cluster, name, 4000)
    command = [sys.executable, "-m", "lacuna", "export", name, "--data", str(cluster.data)]
    command += ["--to", place.url, "--spark", "--master", "local[1]", "--task-mib", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    waiting = threading.Event()
    try:
        for _ in range(5600):  # 280 s, as for the commands that run to their end
            if place.names("_staging"):
                break
            assert process.poll() is None, process.communicate()
            waiting.wait(0.05)
    finally:
        process.kill()
        process.communicate()
    assert place.names("_staging") != []
    assert place.rows(name) == []
    done = subprocess.run([*command, "--json"], check=True, timeout=280, capture_output=True)
    assert b'"records": 4000' in done.stdout
    assert place.rows(name) == consume(name)
