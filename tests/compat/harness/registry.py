"""The scenarios of a schema registry that stores its schemas in a topic of the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from tests.compat.harness.tools import Refused, Said, Server

ORDERS, PAYMENTS, REFUNDS = "orders-value", "payments-value", "refunds-value"
CONFLICT = 409


def record(name: str, *fields: dict[str, Any]) -> dict[str, str]:
    """Return the body that registers an Avro record."""
    return {"schema": json.dumps({"type": "record", "name": name, "fields": list(fields)})}


ORDER = record("Order", {"name": "id", "type": "string"})
PAYMENT = record("Payment", {"name": "amount", "type": "long"})
#: No reader of this one can read an Order, which has no such field.
BREAKING = record("Order", {"name": "id", "type": "string"}, {"name": "paid", "type": "boolean"})
EVOLVED = record(
    "Order",
    {"name": "id", "type": "string"},
    {"name": "paid", "type": "boolean", "default": False},
)


class Registry:
    """The scenarios on one cluster. Each one continues from the state that the previous one left."""

    def __init__(self, server: Server, bootstrap: str, topic: str) -> None:
        self._server, self._topic = server, topic
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def scenarios(self) -> dict[str, Callable[[], Said]]:
        """Return the scenarios by name, in their order."""
        return {
            "schemas": self.schemas,
            "compatibility": self.compatibility,
            "deleted": self.deleted,
            "kill": self.kill,
            "topic": self.topic,
        }

    def _register(self, subject: str, schema: dict[str, str]) -> int:
        answer = self._server.ask("POST", f"/subjects/{subject}/versions", schema)
        return int(answer["id"])

    def _kept(self) -> dict[str, Any]:
        """Return everything that it stores: the versions of each subject, with their ids and schemas."""
        found: dict[str, Any] = {}
        for subject in sorted(self._server.ask("GET", "/subjects")):
            versions = self._server.ask("GET", f"/subjects/{subject}/versions")
            for version in versions:
                one = self._server.ask("GET", f"/subjects/{subject}/versions/{version}")
                found[f"{subject} {version}"] = [one["id"], json.loads(one["schema"])]
        return found

    def schemas(self) -> Said:
        """Two schemas are registered. Registering one again returns its id, and each is found by its id."""
        first, second = self._register(ORDERS, ORDER), self._register(PAYMENTS, PAYMENT)
        again = self._register(ORDERS, ORDER)
        by_id = self._server.ask("GET", f"/schemas/ids/{second}")["schema"]
        facts = {"same id": first == again, "by id": json.loads(by_id), "kept": self._kept()}
        return {}, facts

    def compatibility(self) -> Said:
        """A schema that cannot read existing records is rejected. A compatible one becomes version 2."""
        self._server.ask("PUT", f"/config/{ORDERS}", {"compatibility": "BACKWARD"})
        try:
            self._register(ORDERS, BREAKING)
        except Refused as refused:
            if refused.code != CONFLICT:
                raise
            answered = refused.code
        else:
            raise ValueError("it took a schema that cannot read what was written before")
        self._register(ORDERS, EVOLVED)
        latest = self._server.ask("GET", f"/subjects/{ORDERS}/versions/latest")
        return {}, {"breaking": answered, "latest": latest["version"], "kept": self._kept()}

    def deleted(self) -> Said:
        """A deleted subject leaves the list."""
        versions = self._server.ask("DELETE", f"/subjects/{PAYMENTS}")
        return {}, {"versions": versions, "kept": self._kept()}

    def kill(self) -> Said:
        """After a kill and restart, it reads everything from its topic and assigns no id twice."""
        before = self._kept()
        self._server.kill()
        self._server.start()
        after = self._kept()
        ids = [one[0] for one in after.values()]
        is_new = self._register(REFUNDS, record("Refund")) not in ids
        config = self._server.ask("GET", f"/config/{ORDERS}")
        return {}, {"same": before == after, "new id": is_new, "kept": after, "config": config}

    def topic(self) -> Said:
        """Report the settings with which it created its topic."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        config = self._admin.describe_configs([resource])[resource].result(30)
        partitions = self._admin.list_topics(self._topic, 30).topics[self._topic].partitions
        policy = config["cleanup.policy"].value
        return {}, {"cleanup.policy": policy, "partitions": len(partitions)}
