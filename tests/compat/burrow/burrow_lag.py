"""Burrow, which reads group offsets from __consumer_offsets. Requires the command `burrow` on the PATH."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.compat.harness.lag import Lag
from tests.compat.harness.tools import Refused, Server, free_port, parser, tell

SETTINGS = """\
[general]
pidfile="{folder}/burrow.pid"

[client-profile.plain]
client-id="burrow"
kafka-version="3.3.0"

[cluster.here]
class-name="kafka"
servers={brokers}
client-profile="plain"
topic-refresh=2
offset-refresh=1

[consumer.here]
class-name="kafka"
cluster="here"
servers={brokers}
client-profile="plain"
backfill-earliest=true

[httpserver.default]
address="127.0.0.1:{port}"

[storage.default]
class-name="inmemory"
min-distance=0
"""
NOT_FOUND = 404


class Watched:
    """Reads the state of groups from Burrow."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def lag(self, group: str, topic: str) -> int | None:
        try:
            answer = self._server.ask("GET", f"/v3/kafka/here/consumer/{group}/lag")
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise
            return None
        partitions = answer["status"]["partitions"]
        lags = (one["current_lag"] for one in partitions if one["topic"] == topic)
        return next(map(int, lags), None)

    def members(self, group: str) -> int | None:
        raise NotImplementedError("Burrow knows owners of partitions, not members")


def main() -> None:
    arguments = parser(__doc__).parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="burrow-") as folder:
        brokers = json.dumps(arguments.bootstrap.split(","))
        settings = SETTINGS.format(folder=folder, brokers=brokers, port=port)
        Path(folder, "burrow.toml").write_text(settings)
        command = ["burrow", "--config-dir", folder]
        server = Server(command, f"http://127.0.0.1:{port}", "/burrow/admin")
        try:
            server.start()
            scenarios = Lag(Watched(server), arguments.bootstrap, arguments.prefix).scenarios()
            del scenarios["members"]
            tell(scenarios)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
