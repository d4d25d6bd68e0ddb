"""Regenerates acls_kafka_4_4.json from a real Kafka: `python -m tests.golden.capture_acls DIR`.

DIR holds Kafka's jars, as for capture.py. Its users are those of acls.py, on a SASL/PLAIN listener.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import socket
import time
from typing import Final

from tests.golden.acls import ADMIN, PASSWORD, USERS, as_text, outcomes
from tests.golden.broker import kafka

GOLDEN: Final = pathlib.Path(__file__).parent / "acls_kafka_4_4.json"
_USERS: Final = " ".join(f'user_{each}="{PASSWORD}"' for each in USERS)
_EXTRA: Final = f"""
listeners=PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:SASL_PORT,CONTROLLER://127.0.0.1:{{controller}}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:SASL_PORT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{ADMIN};User:ANONYMOUS
"""


def _await(port: int) -> None:
    """Wait for this listener, which opens after the first one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    arguments = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with kafka(arguments.directory, extra=_EXTRA.replace("SASL_PORT", str(port))):
        _await(port)
        found = outcomes(f"127.0.0.1:{port}")
    GOLDEN.write_text(as_text(found))


if __name__ == "__main__":
    main()
