"""Generates docs/clients.md from the results."""

from __future__ import annotations

from typing import Any

from tests.compat.clients import ROOT
from tests.compat.expected import SCENARIOS, SECURED
from tests.compat.verdicts import Outcome

PAGE = ROOT / "docs" / "clients.md"
_COLUMNS = (*SCENARIOS, *SECURED)

_MARKS = {
    Outcome.SAME: "✓",
    Outcome.RIGHT: "✓",
    Outcome.AS_KAFKA: "as Kafka",
    Outcome.UNSUPPORTED: "–",
    Outcome.DIFFERS: "✗",
}
_WHAT = {
    "produce": "produces with each of its codecs, idempotent if it can, and reads the records back",
    "transactions": "commits and aborts transactions; read_committed returns only the committed ones",
    "holes": "reads partitions whose start, middle, end or whole was aborted, with read_committed; its "
    "position reaches the end offset, so lag is 0",
    "holes_inside": "starts in the middle of such partitions, including inside holes",
    "commit": "commits offsets, closes, and continues from them; lag is 0 after an aborted tail",
    "group": "two members share a topic's partitions; one leaves, and the other gets all of them",
    "eos": "consumes, transforms and produces in transactions that include the offsets; one is aborted and repeated",
    "legacy": "uses message sets (magic 0 and 1), as clients before 0.11 do",
    "scram": "`eos` over TLS, with a password (SASL_SSL, SCRAM-SHA-512)",
    "oauthbearer": "`eos` over TLS, with a token of an identity provider (SASL_SSL, OAUTHBEARER)",
}
_HEAD = """\
# Clients

This page shows how clients for Apache Kafka behave with Lacuna. Each client did the same work on Lacuna and on Apache
Kafka, with the same records: interleaved transactions, aborted ones at the start, in the middle and at the end of
partitions, all codecs, large batches, null keys and values, and headers. Its reads and its answers must be the same
on both, except for offsets, because Kafka's transaction markers take some. `lacuna doctor --client NAME@VERSION`
reports the results of the nearest tested version.

`python -m tests.compat.run` writes this page. [tests/compat](../tests/compat/README.md) has the programs, and
explains how to add a client.
"""
_BEHAVIOUR = """\
## Over TLS, with SASL

The clients had the certificate of the listener's authority, and a user's password or a token signed with ES256. Both
clusters read the keys from the same file. All three Kafkas had the same listener.

- **Kafka 4.1.0** accepted a token with a broken signature until `sasl.oauthbearer.jwt.validator.class` was set to its
  `BrokerJwtValidator`, without the name of a listener in front.
- **sarama** has no SCRAM of its own; its program uses `github.com/xdg-go/scram`.
- **aiokafka** 0.14.0 does not authenticate again when a session ends (KIP-368). The agent disconnects it, and it
  connects again. With sessions of two seconds, none of its sends failed.
- **kafkajs** 2.2.4 authenticates again, according to its source, `reauthenticationThreshold` before the end (10 s by
  default). Its SCRAM has no `tokenauth`, so it cannot log in with a delegation token (KIP-48).

## Tools beside a cluster

Kafka Connect, two schema registries, kminion and Burrow need the same settings as for Kafka: `KARAPACE_BOOTSTRAP_URI`
for Karapace, `APICURIO_STORAGE_KIND=kafkasql` and `APICURIO_KAFKASQL_BOOTSTRAP_SERVERS` for Apicurio Registry, and
`kafka.brokers` for kminion. Both registries registered Avro schemas, rejected an incompatible one, deleted a subject,
were killed, and read everything back from their topic. Karapace, kminion and Burrow run only if the commands
`karapace`, `kminion` and `burrow` are on the PATH. Apicurio Registry runs only if you name it. Otherwise, the table
keeps the last result.

One of about 30 starts of Karapace 6.2.0 missed the only record of `_schemas`, and never reported
`"schema_registry_ready":true`. The likely reason: it waits for its partition with polls, and discards their record.
The same calls lost a record on Kafka 4.1 once in 160 times, on a busy machine. Start it again if it is not ready
after a minute.

Burrow, and kminion in its mode `offsetsTopic`, read committed offsets from
[`__consumer_offsets`](protocol.md#internal-topics). In this mode, kminion 2.1.0 cannot read the records of Kafka 4.1,
so it runs beside Kafka 3.9.

**Lag.** kminion counts offsets, on Lacuna and on Kafka: aborted records count until the group has passed them.
[`lacuna groups lag`](commands/administration.md#lacuna-groups) counts the records that the group will
receive. The same group, 2026-11-26:

| state | kminion 2.1.0 | `lacuna groups lag` |
|---|---|---|
| the group has read everything; the last transaction was aborted | 0 | 0 |
| then a transaction of 3 records is open | 3 | 0, and 3 waiting |
| it was aborted, and the group has not continued | 3 | 0 |
| 2 records were committed after it | 5 | 2 |

**Kafbat UI** 1.0.0 was tested in Chromium on 2026-11-26, with Karapace 6.2.0 beside it. It was built from source with
Java 17, kafka-clients 3.5.2 and Confluent's serializers 7.4.4. Its pages show brokers, topics, messages (Avro values,
decoded with the schemas from Karapace), settings, schemas and groups. A group that had read up to an aborted end has
a lag of 0. Through its API, it created a topic, produced to it, changed its settings, added partitions, counted and
purged its records, reset and deleted a group, and deleted the topic. With `isolation.level: read_committed` among the
`properties` of its cluster, it shows the 10 committed records of 20; without it, also the aborted ones. It shows the
version as `1.0-UNKNOWN`, because it reads `inter.broker.protocol.version`, which neither Lacuna nor Kafka 4 has. It
hides the page of ACLs.

## When agents join and leave

librdkafka (2.16, and others since 2.11) can wait forever in `send_offsets_to_transaction`
([#5511](https://github.com/confluentinc/librdkafka/issues/5511)), on Kafka as well. The call also ignores its time
limit ([#5456](https://github.com/confluentinc/librdkafka/issues/5456)). It waits for the group's coordinator,
although it has dropped that broker. Two events make it drop a broker: the broker leaves Metadata, if only for a
moment; or librdkafka considers all brokers down and starts again from `bootstrap.servers`, for example when two
agents restart one after the other. It looks for the coordinator again when a connection to any broker comes up or
breaks. Lacuna does two things about this, and neither needs a client setting:

- An agent closes a connection that has announced offsets (AddOffsetsToTxn) and then sent nothing for 3 seconds. Such
  a producer continues within 4 seconds. Other producers connect again with their next request.
- Metadata keeps a missing agent among the brokers for 20 minutes, but only for librdkafka's producers, so that they
  do not drop it. Meanwhile, the agent leads and coordinates nothing, and producers that try it move on to the next
  broker. At most the last 16 missing agents are listed. All other clients, and tools that ask every broker, see only
  present agents.

`metadata.recovery.strategy=none` prevents librdkafka from starting again from `bootstrap.servers`, which saves these
seconds.

## After an abort

librdkafka (2.16.0) may skip sequence numbers if `abort_transaction` finds unsent messages in its queue. The next
transaction then fails with an abortable OUT_OF_ORDER_SEQUENCE_NUMBER, "skipped sequence numbers". Apache Kafka 4.1
returns the same for the same workload. Abort and continue, as after any abortable error.
"""


def page(made: dict[str, Any]) -> str:
    """Return the text of the page. `made` is the content of lacuna/operating/clients.json."""
    notes: list[str] = []
    clients = made["clients"]
    parts = [_HEAD, _made(made["made"]), _legend()]
    parts.append("## Clients\n\n" + _matrix(_ran(clients, "client"), notes))
    others = [one for kind in ("tool", "framework") for one in _ran(clients, kind)]
    if others:
        parts.append("## Tools and frameworks\n\n" + _others(others, notes))
    parts.append(_BEHAVIOUR)
    if notes:
        parts.append("## Notes\n\n" + "\n".join(notes) + "\n")
    if absent := [one for one in clients if "outcome" in one]:
        parts.append("## Not run\n\n" + _absent(absent))
    return "\n".join(parts)


def _made(made: dict[str, str]) -> str:
    return (
        f"Last run: {made['on']}, Lacuna {made['lacuna']} ({made['cluster']}) beside Apache Kafka "
        f"{made['kafka']} (one node).\n"
    )


def _legend() -> str:
    rows = "".join(f"| `{name}` | {_WHAT[name]} |\n" for name in _COLUMNS)
    return (
        "| scenario | the client |\n|---|---|\n"
        + rows
        + "\n✓ the same as on Kafka. **as Kafka**: fails, as it does on Kafka. – the client lacks this"
        " feature. **✗** a different outcome than on Kafka. Small numbers refer to the notes below. "
        "A ✓ with a note is correct on Lacuna but not on Kafka. Empty cells were not run.\n"
    )


def _ran(clients: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in clients if one["kind"] == kind and "cells" in one]


def _matrix(clients: list[dict[str, Any]], notes: list[str]) -> str:
    head = ["client", "version", "language", *(f"`{name}`" for name in _COLUMNS), "beside Kafka"]
    lines = [_line(head), _line(["---"] * len(head))]
    for one in clients:
        cells = [_cell(one["cells"].get(name), notes) for name in _COLUMNS]
        name = one["name"] + _note(one.get("notes", ""), notes)
        lines.append(_line([name, one["version"], one["language"], *cells, one["kafka"]]))
    return "\n".join(lines) + "\n"


def _others(clients: list[dict[str, Any]], notes: list[str]) -> str:
    lines = [_line(["what", "version", "beside Kafka", "scenarios"]), _line(["---"] * 4)]
    for one in clients:
        said = ", ".join(f"{name} {_cell(cell, notes)}" for name, cell in one["cells"].items())
        name = one["name"] + _note(one.get("notes", ""), notes)
        lines.append(_line([name, one["version"], one["kafka"], said]))
    return "\n".join(lines) + "\n"


def _absent(clients: list[dict[str, Any]]) -> str:
    rows = [_line(["what", "version", "why"]), _line(["---"] * 3)]
    rows += [
        _line([one["name"], one["version"], f"{one['outcome']}: {one['what']}"]) for one in clients
    ]
    return "\n".join(rows) + "\n"


def _cell(cell: dict[str, str] | None, notes: list[str]) -> str:
    if cell is None:
        return ""
    mark = _MARKS[Outcome(cell["outcome"])]
    return mark + _note(cell.get("what", ""), notes)


def _note(text: str, notes: list[str]) -> str:
    """Return a superscript reference to a note, or "" without text. Adds the note to `notes` if it is new."""
    if not text:
        return ""
    said = text.replace("|", "\\|").replace("<", "&lt;")
    found = [number for number, note in enumerate(notes, 1) if note == f"{number}. {said}"]
    if not found:
        notes.append(f"{len(notes) + 1}. {said}")
        found = [len(notes)]
    return f" <sup>{found[0]}</sup>"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
