"""Judges honest multi-process clusters whose clients log in over TLS.

    python -m tests.judge.clusters kafka --runs 10     # three brokers of Apache Kafka 4.4, all of them controllers
    python -m tests.judge.clusters lacuna --runs 10    # two agents

Runs cycle through SCRAM, PLAIN and no security. The program prints a line for each. Its exit code is 1 if any of them
shows an anomaly or cannot be judged.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lacuna.testing.ports import lasting_ports
from tests.compat.clusters import Address, fetch, lacuna
from tests.compat.security import PASSWORD, USER, Security
from tests.faults.processes import end_by_exception
from tests.forked import LACUNA
from tests.golden.broker import Secured, brokers

MECHANISMS: Final = ("SCRAM-SHA-512", "PLAIN", "")
BROKERS: Final = 3
KAFKA: Final = "4.4"


@contextmanager
def apache_kafka(folder: Path, security: Security) -> Iterator[Address]:
    """Run three brokers. Yield all of their addresses."""
    ports = lasting_ports(BROKERS)
    properties = security.properties(KAFKA)
    secured = [Secured(port, properties, USER, PASSWORD, security.keys) for port in ports]
    with brokers(folder / "kafka", fetch(KAFKA), "512m", secured) as started:
        yield Address(
            ",".join(each.bootstrap for each in started),
            ",".join(f"127.0.0.1:{port}" for port in ports),
        )


CLUSTERS: Final = {"kafka": apache_kafka, "lacuna": lacuna}


def judged(address: Address, security: Security, mechanism: str, options: list[str]) -> int:
    """Judge a cluster once with the command, whose output is passed on. Return its exit code."""
    where = ["-b", address.bootstrap]
    if mechanism:
        file = security.authorities.with_name("judge.properties")
        file.write_text(
            f"security.protocol=SASL_SSL\nssl.ca.location={security.authorities}\n"
            f"sasl.mechanism={mechanism}\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
        )
        where = ["-b", address.secured, "--command-config", str(file)]
    return subprocess.run([*LACUNA, "judge", *where, *options], check=False).returncode


def main() -> int:
    """Judge the clusters, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge.clusters")
    parser.add_argument("cluster", choices=list(CLUSTERS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run")
    parser.add_argument("--histories", type=Path, help="keep the histories in this folder")
    given = parser.parse_args()
    end_by_exception()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="lacuna-judged-") as folder:
        security = Security(Path(folder) / "security")
        with CLUSTERS[given.cluster](Path(folder), security) as address:
            mechanisms = itertools.cycle(MECHANISMS)
            for seed, mechanism in zip(range(1, given.runs + 1), mechanisms, strict=False):
                options = [f"--seconds={given.seconds}", f"--seed={seed}"]
                if given.histories:
                    options.append(f"--history={given.histories / f'{given.cluster}-{seed}'}")
                sys.stdout.write(f"{given.cluster}, seed {seed}, {mechanism or 'no security'}: ")
                sys.stdout.flush()
                bad += judged(address, security, mechanism, options) != 0
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
