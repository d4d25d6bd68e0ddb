"""Makes docs/clients.md from the results."""

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
    "produce": "produces with each codec that it has, idempotent where it can be, and reads it back",
    "transactions": "commits and aborts transactions; read_committed gets only the committed ones",
    "holes": "reads partitions whose start, middle, end or whole was aborted, with read_committed; its "
    "position reaches the end offset, so lag is 0",
    "holes_inside": "starts in the middle of such partitions, also inside holes",
    "commit": "commits offsets, closes, and continues from them; lag is 0 after an aborted tail",
    "group": "two members share a topic's partitions; one leaves, the other gets all",
    "eos": "consume, transform, produce in transactions with the offsets in them; one is aborted and repeated",
    "legacy": "speaks message sets (magic 0 and 1), as clients before 0.11 do",
    "scram": "`eos` again over TLS, with a password (SASL_SSL, SCRAM-SHA-512)",
    "oauthbearer": "`eos` again over TLS, with a token of an identity provider (SASL_SSL, OAUTHBEARER)",
}
_HEAD = """\
# Clients

What happens when a client that was written for Apache Kafka is pointed at Lacuna. Each program below did the same
things to Lacuna and to Apache Kafka, with the same records in both: transactions that interleave, aborted ones at the
start, in the middle and at the end of partitions, all codecs, large batches, null keys and values, headers. What it
read and what it was answered must be the same on both, except for offsets: Kafka's transaction markers take some, and
Lacuna has none. `lacuna doctor --client NAME@VERSION` shows the results of the nearest version that was run.

Written by `python -m tests.compat.run`; [tests/compat](../tests/compat/README.md) has the programs and explains how to
add a client.
"""
_BEHAVIOUR = """\
## Over TLS, with SASL

The clients were given the certificate of the listener's authority, and a user's password or a token signed with ES256,
whose keys both clusters read from the same file. Kafka 4.1 and 3.9 had the same listener. Kafka 4.1.0 took a token
with a broken signature until it was told `sasl.oauthbearer.jwt.validator.class` (its `BrokerJwtValidator`), without a
listener's name in front. sarama has no SCRAM of its own: its program brings it with `github.com/xdg-go/scram`.

aiokafka 0.14.0 does not authenticate again over a connection whose session ends (KIP-368): it is cut off and connects
anew. With sessions of two seconds none of its sends failed. kafkajs 2.2.4 does so, by its source,
`reauthenticationThreshold` before the end (10 s by default), but its SCRAM has no `tokenauth`, so it cannot log in with
a delegation token (KIP-48).

## What runs beside a cluster

Kafka Connect, two schema registries, kminion and Burrow are in the table above. They need no setting that they do not
need for Kafka: Karapace takes `KARAPACE_BOOTSTRAP_URI`, Apicurio Registry `APICURIO_STORAGE_KIND=kafkasql` and
`APICURIO_KAFKASQL_BOOTSTRAP_SERVERS`, kminion `kafka.brokers`. Both registries registered Avro schemas, refused an
incompatible one, deleted a subject, were killed, and read everything back from their topic. Karapace, kminion and
Burrow run only where the commands `karapace`, `kminion` and `burrow` are on the PATH, and Apicurio Registry only when
it is named; otherwise the last result stays.

One of about 30 starts of Karapace 6.2.0 missed the only record of `_schemas`, and never said
`"schema_registry_ready":true`. The likely reason: it waits for its partition with polls whose record it throws away.
The same calls lost a record on Kafka 4.1 once in 160 times, on a busy machine. Start it again if it is not ready after
a minute.

Burrow, and kminion in its mode `offsetsTopic`, read what groups have committed from
[`__consumer_offsets`](protocol.md#internal-topics). In this mode kminion 2.1.0 cannot read what
Kafka 4.1 writes there, so it runs beside Kafka 3.9.

**Lag.** kminion counts offsets, here and on Kafka: what was aborted counts until the group has read past it.
[`lacuna groups lag`](commands/groups.md) counts the records that the group will get. The same group, 2026-11-26:

| | kminion 2.1.0 | `lacuna groups lag` |
|---|---|---|
| all was read; the last transaction was aborted | 0 | 0 |
| then a transaction of 3 records is open | 3 | 0, and 3 waiting |
| it was aborted, and the group has not read on | 3 | 0 |
| 2 records were committed behind it | 5 | 2 |

**Kafbat UI** 1.0.0, looked at in Chromium on 2026-11-26, with Karapace 6.2.0 beside it. Built from its source with Java
17, Apache's kafka-clients 3.5.2 and Confluent's serializers 7.4.4, which were compiled from source too. The pages of
brokers, topics, messages (Avro values, decoded with the schemas from Karapace), settings, schemas and groups show what
is there; a group that had read up to an aborted end has a lag of 0. Through its API it created a topic, produced to
it, changed its settings, gave it more partitions, counted and purged its records, reset and deleted a group, and
deleted the topic. With `isolation.level: read_committed` among the `properties` of its cluster it shows the 10
committed records of 20; without, the aborted ones too. It shows the version as `1.0-UNKNOWN`, since it
takes it from `inter.broker.protocol.version`, which Lacuna, as Kafka 4, does not have. It hides the page of ACLs.

## When agents come and go

librdkafka (2.16 and others since 2.11) can wait in `send_offsets_to_transaction` for ever
([#5511](https://github.com/confluentinc/librdkafka/issues/5511)), on Kafka as well. The call also ignores its time
limit ([#5456](https://github.com/confluentinc/librdkafka/issues/5456)). It waits for the coordinator that it
remembers for the group, although it has dropped that broker: because the broker left Metadata, if only for a moment,
or because it considered all brokers down and started again from `bootstrap.servers`, which happens when two agents
restart one after the other. It looks for the coordinator again as soon as a connection to any broker comes up or
breaks. Lacuna does two things about this, and neither needs a client setting:

- An agent closes a connection that has announced offsets (AddOffsetsToTxn) and then said nothing for 3 seconds. Such
  a producer goes on within 4 seconds. Others connect again when they next send something.
- An agent that has gone, or was away for longer than its lease, stays among the brokers for 20 minutes in what
  librdkafka's producers get from Metadata, so that they do not drop it in the first place. Meanwhile it leads and
  coordinates nothing, and producers that try it move on to the next broker. At most the last 16 that have gone are
  listed. All other clients, and tools that ask every broker, are told only of agents that are present.

`metadata.recovery.strategy=none` keeps librdkafka from starting again from `bootstrap.servers`, and saves it those
seconds.

## After an abort

librdkafka (2.16.0) may skip sequence numbers if `abort_transaction` finds messages in its queue that were not
sent: the next transaction then ends in an abortable OUT_OF_ORDER_SEQUENCE_NUMBER, "skipped sequence numbers". Apache
Kafka 4.1 answers the same to the same workload. Abort and continue, as after any abortable error.
"""


def page(made: dict[str, Any]) -> str:
    """The text of the page; `made` is the content of lacuna/clients.json."""
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
        "| scenario | what the client does |\n|---|---|\n"
        + rows
        + "\n✓ the same as on Kafka. **as Kafka**: fails, and fails on Kafka too. – the client has no such"
        " feature. **✗** another outcome than on Kafka. Small numbers are notes below; "
        "a ✓ with a note is correct here but not on Kafka. An empty cell was not run.\n"
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
    """A superscript reference to a note, which is added to `notes` unless it is there already; "" without text."""
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
