"""Regenerates the golden files from a real Apache Kafka: `python -m tests.golden.capture --kafka DIR`.

DIR holds Kafka's jars (fetched with Maven the first time), its data and its log. Needs JDK 17+, Maven and the client
tests' packages. Ids and times differ between runs, and each run regenerates the index files with the bytes.
`--bootstrap` uses a running broker, and omits the part "cleaning", which reads the broker's files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import struct
import subprocess
from collections.abc import Callable
from typing import Any

from tests.clients import probes
from tests.clients.probing import Target
from tests.clients.wire import Connection
from tests.golden import capture_records, cleaning
from tests.golden.broker import VERSION, kafka
from tests.golden.messages import API_NAMES

HERE = pathlib.Path(__file__).parent


def _ranges(rows: list[dict[str, Any]], key: str, low: str, high: str) -> dict[str, list[int]]:
    return {str(row[key]): [row[low], row[high]] for row in sorted(rows, key=lambda r: str(r[key]))}


def _api_versions_at(connection: Connection, version: int) -> dict[str, Any]:
    log: list[tuple[str, int, bytes, bytes]] = []
    connection.log = log
    names = {"client_software_name": "lacuna", "client_software_version": "1"}
    answer = connection.call("api_versions", version, **(names if version >= 3 else {}))
    rows = sorted(answer["api_keys"], key=lambda row: row["api_key"])
    found: dict[str, Any] = {
        "raw_response_hex": log[0][3].hex(),
        "error_code": answer["error_code"],
        "api_keys": {str(r["api_key"]): [r["min_version"], r["max_version"]] for r in rows},
    }
    if version >= 3:
        found["supported_features"] = _ranges(
            answer["supported_features"], "name", "min_version", "max_version"
        )
        found["finalized_features_epoch"] = answer["finalized_features_epoch"]
        found["finalized_features"] = _ranges(
            answer["finalized_features"], "name", "min_version_level", "max_version_level"
        )
        found["zk_migration_ready"] = answer["zk_migration_ready"]
    return found


def api_versions(bootstrap: str) -> None:
    """api_versions_kafka_4_4.json: ranges and features for each version, and the raw answers."""
    with Connection(bootstrap) as connection:
        versions = {str(v): _api_versions_at(connection, v) for v in range(6)}
        connection.send_frame(struct.pack(">hhih", 18, 6, 99, -1) + b"\0")
        unsupported = connection.receive_frame().hex()
    keys = versions["5"]["api_keys"]
    out = {
        "broker": "Apache Kafka 4.4.0",
        "note": "api_keys: key -> [min, max] at that ApiVersions version; names are Kafka's",
        "names": {key: API_NAMES.get(int(key)) for key in keys},
        "versions": versions,
        "unsupported_version": {
            "request_api_version": 6,
            "raw_response_hex": unsupported,
            "note": "answered as v0, error 35, api_keys holds only api_versions itself",
        },
    }
    text = json.dumps(out, indent=1) + "\n"
    (HERE / "api_versions_kafka_4_4.json").write_text(text)


def records(bootstrap: str) -> None:
    """records.json: record sets. Some are written by the Java client."""
    java = capture_records.JAVA
    goals = ["compile", "dependency:copy-dependencies"]
    goals.append(f"-DoutputDirectory={java / 'target' / 'libs'}")
    subprocess.run(["mvn", "-q", "-f", str(java / "pom.xml"), *goals], check=True)
    target = Target(bootstrap)
    capture_records.capture(target, HERE / "records.json")
    target.close()


def answers(bootstrap: str) -> None:
    """probes_kafka_4_4.json: the answers to every probe of tests/clients."""
    text = json.dumps(probes.run_all(bootstrap), indent=1, sort_keys=True)
    probes.GOLDEN.write_text(text + "\n")


PARTS: dict[str, Callable[[str], None]] = {
    "api_versions": api_versions,
    "records": records,
    "probes": answers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--kafka", type=pathlib.Path, help="start Kafka in this directory")
    where.add_argument("--bootstrap", help="use a Kafka that runs already")
    parser.add_argument("--version", default=VERSION, help="of the Kafka to start")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        bootstrap = arguments.bootstrap or stack.enter_context(
            kafka(arguments.kafka, version=arguments.version, extra=cleaning.BROKER)
        )
        if arguments.kafka:
            data = arguments.kafka / "data"
            PARTS["cleaning"] = lambda bootstrap: cleaning.capture(
                bootstrap, lambda: cleaning.clean_offsets(data)
            )
        for part in arguments.parts or PARTS:
            PARTS[part](bootstrap)


if __name__ == "__main__":
    main()
