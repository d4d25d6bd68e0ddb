"""kminion, which exports the lag of consumer groups to Prometheus. Requires the command `kminion` on the PATH."""

from __future__ import annotations

import tempfile
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.compat.harness.lag import Lag
from tests.compat.harness.tools import Server, free_port, parser, tell

SETTINGS = """\
kafka:
  brokers: [{brokers}]
minion:
  consumerGroups:
    scrapeMode: {mode}
exporter:
  host: 127.0.0.1
  port: {port}
"""


class Exported:
    """Reads kminion's metrics. kminion queries the cluster at each scrape."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def _samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(self._server.text("GET", "/metrics"))
        samples = (sample for family in families for sample in family.samples)
        return [(sample.labels, sample.value) for sample in samples if sample.name == name]

    def lag(self, group: str, topic: str) -> int | None:
        wanted = {"group_id": group, "topic_name": topic, "partition_id": "0"}
        samples = self._samples("kminion_kafka_consumer_group_topic_partition_lag")
        return next((int(value) for labels, value in samples if labels == wanted), None)

    def members(self, group: str) -> int | None:
        samples = self._samples("kminion_kafka_consumer_group_info")
        counts = (labels["member_count"] for labels, _ in samples if labels["group_id"] == group)
        return next(map(int, counts), None)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--mode", default="adminApi", choices=["adminApi", "offsetsTopic"])
    arguments = made.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="kminion-") as folder:
        file = Path(folder) / "kminion.yaml"
        brokers = ", ".join(f'"{broker}"' for broker in arguments.bootstrap.split(","))
        file.write_text(SETTINGS.format(brokers=brokers, mode=arguments.mode, port=port))
        environment = {"CONFIG_FILEPATH": str(file)}
        server = Server(["kminion"], f"http://127.0.0.1:{port}", "/metrics", environment)
        try:
            server.start()
            tell(Lag(Exported(server), arguments.bootstrap, arguments.prefix).scenarios())
        finally:
            server.kill()


if __name__ == "__main__":
    main()
