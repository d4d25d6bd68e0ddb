"""Tests the start messages of `lacuna up`, --verbose, and the health of its agent."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

from lacuna.testing.ports import lasting_ports
from tests.forked import start_process


def test_a_cluster_says_what_happens(tmp_path: Path, clients: SimpleNamespace) -> None:
    (port,) = lasting_ports(1)
    health = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "lacuna", "up", "--data", str(tmp_path / "data"), "--verbose"]
    up = start_process(
        [*command, "--listen", "127.0.0.1:0", "--health", health, "--console", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stdout is not None
    try:
        bootstrap = up.stdout.readline().removeprefix("bootstrap: ").strip()
        said = "".join(up.stdout.readline() for _ in range(6))
        for path in ("healthz", "readyz"):
            with urlopen(f"http://{health}/{path}", timeout=60) as answer:
                assert answer.read() == b"ok\n"
        console = re.search(r"console (http://127\.0\.0\.1:\d+)", said)
        assert console is not None
        with urlopen(f"{console[1]}/readyz", timeout=60) as answer:
            assert answer.read() == b"ok\n"
        producer = clients.transactional(bootstrap, "shop")
        producer.begin_transaction()
        clients.send(producer, "orders", ["x"])
        producer.abort_transaction(60)
    finally:
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=280)
    assert f"serves  Kafka clients at {bootstrap}; topics are created when first used" in said
    assert f"data    {tmp_path}/data (new: records and journal)" in said
    assert f"health  http://{health}/readyz" in said
    for line in (
        f"agent {bootstrap} (node 1) has joined",
        "created orders (1)",
        "aborted the transaction of 'shop': its producer requested it",
        f"agent {bootstrap} (node 1) has left: it was shut down",
    ):
        assert f"INFO lacuna.controlplane: {line}\n" in err
