"""Probes of transactions: partitions, producing, fencing, timeouts, markers sent by others (S4, S8, S9)."""

from __future__ import annotations

import time

from .batch import TIMESTAMP, batch
from .probing import Outcome, Producer, Target, error_name, error_of, probe
from .wire import Fields


def _init(
    t: Target,
    tid: str,
    timeout: int = 60_000,
    who: Producer | None = None,
    version: int = 4,
    epoch_add: int = 0,
    id_add: int = 0,
) -> Fields:
    more = (
        {}
        if who is None
        else {"producer_id": who.id + id_add, "producer_epoch": who.epoch + epoch_add}
    )
    return t.settled(
        "init_producer_id", version, transactional_id=tid, transaction_timeout_ms=timeout, **more
    )


@probe("txn")
def init_producer_id_again(t: Target) -> Outcome:
    tid = t.name("t")
    one = t.transactional(tid)
    two = t.transactional(tid)
    recovered = _init(t, tid, who=two)
    behind = _init(t, tid, who=one)
    ahead = _init(t, tid, who=two, epoch_add=5)
    other = _init(t, tid, who=two, id_add=1000)
    old_version = _init(t, tid, who=one, version=3)
    return {
        "first epoch": one.epoch,
        "first id is 0": one.id == 0,
        "second": [two.id == one.id, two.epoch],
        "with its own id and epoch (KIP-360)": [
            error_of(recovered),
            recovered["producer_id"] == one.id,
            recovered["producer_epoch"],
        ],
        "with an old epoch": error_of(behind),
        "with an old epoch, v3": error_of(old_version),
        "with an epoch ahead": error_of(ahead),
        "with another id": error_of(other),
    }


@probe("txn")
def init_producer_id_arguments(t: Target) -> Outcome:
    t.coordinator("t", 1)
    return {
        "timeout 0": error_of(_init(t, t.name("t"), 0)),
        "timeout -1": error_of(_init(t, t.name("t"), -1)),
        "timeout 15 min": error_of(_init(t, t.name("t"), 900_000)),
        "timeout above 15 min": error_of(_init(t, t.name("t"), 900_001)),
        "id without epoch": error_of(
            t.call(
                "init_producer_id",
                4,
                transactional_id="x",
                transaction_timeout_ms=1000,
                producer_id=5,
            )
        ),
    }


@probe("txn")
def init_producer_id_aborts_the_ongoing(t: Target) -> Outcome:
    topic, tid = t.topic(), t.name("t")
    one = t.transactional(tid)
    added = t.add_partitions(one, topic)
    sent = t.txn_produce(one, topic, 0)
    first = t.call("init_producer_id", 4, transactional_id=tid, transaction_timeout_ms=60_000)
    two = t.transactional(tid)
    t.await_stable(topic)
    return {
        "added, sent": [added, sent],
        "first answer": error_of(first),
        "then": [two.id == one.id, two.epoch > one.epoch],
        "old one adds, v3": t.add_partitions(one, topic),
        "old one adds, v1": t.add_partitions(one, topic, version=1),
        "old one produces, v11": t.txn_produce(one, topic, 1),
        "old one produces, v12": t.txn_produce(one, topic, 1, version=12),
        "old one produces, v9": t.txn_produce(one, topic, 1, version=9),
        "old one commits, v1": t.end(one, True, 1),
        "old one commits, v4": t.end(one, True, 4),
        "old one commits, v5": t.end(one, True, 5),
        "old one aborts, v4": t.end(one, False, 4),
    }


@probe("txn")
def produce_without_adding(t: Target) -> Outcome:
    out = {}
    for version in (3, 9, 11, 12):
        topic, who = t.topic(), t.transactional()
        row = t.produce(
            topic, t.txn_batch(who, 0), version=version, transactional_id=who.transactional_id
        )
        out[f"v{version}"] = [error_of(row), row["base_offset"]]
    return out


@probe("txn")
def produce_first_sequence_not_zero(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()
    other, tv1 = t.topic(), t.transactional()
    t.add_partitions(tv1, other)
    return {"TV2": t.txn_produce(who, topic, 5, version=12), "TV1": t.txn_produce(tv1, other, 5)}


@probe("txn")
def produce_with_wrong_identity(t: Target) -> Outcome:
    topic = t.topic()
    who = t.transactional(t.transactional().transactional_id)  # so that an older epoch exists
    t.add_partitions(who, topic)

    def send(version: int, tid: str | None, id_add: int = 0, epoch_add: int = 0) -> str:
        data = batch(
            attributes=0x10,
            producer_id=who.id + id_add,
            producer_epoch=who.epoch + epoch_add,
            base_sequence=0,
        )
        return t.verdict(topic, data, version=version, transactional_id=tid)

    tid = who.transactional_id
    return {
        f"v{version} {name}": send(version, *arguments)
        for version in (11, 12)
        for name, arguments in {
            "epoch ahead": (tid, 0, 1),
            "epoch behind": (tid, 0, -1),
            "another producer id": (tid, 1 << 40, 0),
            "unknown transactional id": (t.name("t"), 0, 0),
            "empty transactional id": ("", 0, 0),
            "right": (tid, 0, 0),
        }.items()
    }


@probe("txn")
def plain_batch_inside_the_open_transaction(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()
    t.add_partitions(who, topic)
    sent = t.txn_produce(who, topic, 0)
    data = batch(producer_id=who.id, producer_epoch=who.epoch, base_sequence=1)
    return [sent, t.verdict(topic, data), t.verdict(topic, data, version=12)]


@probe("txn")
def two_partitions_one_wrong(t: Target) -> Outcome:
    topic, who = t.topic(partitions=2), t.transactional()
    t.add_partitions(who, topic, index=0)
    rows = t.produce_many(
        [(topic, 0, t.txn_batch(who, 0)), (topic, 1, t.txn_batch(who, 0))],
        transactional_id=who.transactional_id,
    )
    return sorted([row["index"], error_of(row)] for row in rows)


@probe("txn")
def add_partitions(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()

    def add(rows: list[Fields], version: int = 3) -> list[list[str]]:
        answer = t.settled(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=who.transactional_id,
            v3_and_below_producer_id=who.id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=rows,
        )
        return sorted(
            [
                "known" if row["name"] == topic else "unknown",
                error_name(part["partition_error_code"]),
            ]
            for row in answer["results_by_topic_v3_and_below"]
            for part in row["results_by_partition"]
        )

    good = {"name": topic, "partitions": [0]}
    stranger = Producer({"producer_id": who.id, "producer_epoch": who.epoch}, t.name("t"))
    wrong_id = Producer(
        {"producer_id": who.id + 1000, "producer_epoch": who.epoch}, who.transactional_id
    )
    ahead = Producer({"producer_id": who.id, "producer_epoch": who.epoch + 1}, who.transactional_id)
    return {
        "known": add([good]),
        "again": add([good]),
        "with an unknown topic": add([good, {"name": t.name(), "partitions": [0]}]),
        "unknown partition": add([{"name": topic, "partitions": [9]}]),
        "unknown transactional id": t.add_partitions(stranger, topic),
        "another producer id": t.add_partitions(wrong_id, topic),
        "epoch ahead": t.add_partitions(ahead, topic),
        "epoch ahead, v1": t.add_partitions(ahead, topic, version=1),
    }


@probe("txn")
def add_partitions_batched(t: Target) -> Outcome:
    topic, who, other = t.topic(partitions=2), t.transactional(), t.transactional()
    t.add_partitions(other, topic, index=0)
    rows = [
        {**who.fields, "topics": [{"name": topic, "partitions": [0]}]},
        {**other.fields, "verify_only": True, "topics": [{"name": topic, "partitions": [0, 1]}]},
    ]
    out = {}
    for version in (4, 5):
        answer = t.settled("add_partitions_to_txn", version, transactions=rows)
        found = [
            [
                "adds" if row["transactional_id"] == who.transactional_id else "verifies",
                part["partition_index"],
                error_name(part["partition_error_code"]),
            ]
            for row in answer["results_by_transaction"]
            for result in row["topic_results"]
            for part in result["results_by_partition"]
        ]
        out[f"v{version}"] = [error_of(answer), *sorted(found)]
    return out


@probe("txn")
def late_after_the_end(t: Target) -> Outcome:
    out = {}
    for name, (produce_version, end_version) in {"TV1": (11, 4), "TV2": (12, 5)}.items():
        topic, who = t.topic(), t.transactional()
        if end_version == 4:
            t.add_partitions(who, topic)
        sent = t.txn_produce(who, topic, 0, version=produce_version)
        ended = t.end(who, True, end_version)
        t.await_stable(topic)
        out[name] = {
            "sent, ended": [sent, ended],
            "late produce": t.txn_produce(who, topic, 1, version=produce_version),
            "late duplicate": t.txn_produce(who, topic, 0, version=produce_version),
            "late plain batch with the old epoch": t.verdict(
                topic, batch(producer_id=who.id, producer_epoch=who.epoch, base_sequence=1)
            ),
            "late AddPartitionsToTxn": t.add_partitions(who, topic),
        }
    return out


@probe("txn")
def timeout_aborts(t: Target) -> Outcome:
    out = {}
    for name, (produce_version, end_version) in {"TV1": (11, 4), "TV2": (12, 5)}.items():
        # with TV1 there is another request before the records, and they must not come after the timeout
        topic, who = t.topic(), t.transactional(timeout=t.soon(5000 if end_version == 4 else 300))
        if end_version == 4:
            t.add_partitions(who, topic)
        sent = t.txn_produce(who, topic, 0, version=produce_version)
        t.time_out()
        t.await_stable(topic)
        late = {
            "sent": sent,
            "produce": t.txn_produce(who, topic, 1, version=produce_version),
            "add": t.add_partitions(who, topic),
            "commit": t.end(who, True, end_version),
            "abort": t.end(who, False, end_version),
        }
        again = _init(t, str(who.transactional_id), who=who)
        late["KIP-360 init"] = error_of(again)
        fresh = t.transactional(who.transactional_id)
        late["epochs since"] = str(fresh.epoch - who.epoch)
        out[name] = late
    return out


def _write_marker(t: Target, who: Producer, topic: str, commit: bool, epoch_add: int = 0) -> str:
    marker = {
        "producer_id": who.id,
        "producer_epoch": who.epoch + epoch_add,
        "transaction_result": commit,
        "topics": [{"name": topic, "partition_indexes": [0]}],
    }
    answer = t.call("write_txn_markers", 1, markers=[marker])
    partition = answer["markers"][0]["topics"][0]["partitions"][0]
    return error_of(partition)


@probe("txn")
def write_txn_markers(t: Target) -> Outcome:
    out: dict[str, object] = {}
    for commit in (False, True):
        topic, who = t.topic(), t.transactional()
        t.add_partitions(who, topic)
        sent = t.txn_produce(who, topic, 0)
        row = {
            "sent": sent,
            "old epoch": _write_marker(t, who, topic, commit, -1),
            "marker": _write_marker(t, who, topic, commit),
            "again": _write_marker(t, who, topic, commit),
        }
        if row["marker"] == "NONE":
            t.await_stable(topic)
        row["then produce"] = t.txn_produce(who, topic, 1)
        row["then EndTxn commit"] = t.end(who, True)
        out["commit" if commit else "abort"] = row
    topic, who = t.topic(), t.transactional()
    out["no transaction"] = _write_marker(t, who, topic, False)
    out["unknown topic"] = _write_marker(t, who, t.name(), False)
    return out


@probe("txn")
def describe_and_list(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()
    out: dict[str, object] = {}

    def describe() -> list[object]:
        row = t.call("describe_transactions", 0, transactional_ids=[who.transactional_id])
        state = row["transaction_states"][0]
        topics = [[x["topic"] == topic, x["partitions"]] for x in state["topics"]]
        return [
            error_of(state),
            state["transaction_state"],
            state["transaction_timeout_ms"],
            state["producer_id"] == who.id,
            state["producer_epoch"] - who.epoch,
            topics,
        ]

    def producers() -> list[object]:
        answer = t.call("describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}])
        part = answer["topics"][0]["partitions"][0]
        return [error_of(part)] + [
            [
                row["producer_id"] == who.id,
                row["producer_epoch"] - who.epoch,
                row["last_sequence"],
                row["last_timestamp"] is not None,
                row["current_txn_start_offset"],
            ]
            for row in part["active_producers"]
        ]

    out["empty"] = [describe(), producers()]
    t.add_partitions(who, topic)
    out["ongoing, nothing sent"] = [describe(), producers()]
    t.txn_produce(who, topic, 0, b"a", b"b")
    out["ongoing"] = [describe(), producers()]
    t.end(who, True)
    t.await_stable(topic)
    time.sleep(0.2)  # CompleteCommit is written after the markers; nothing announces it
    out["committed"] = [describe(), producers()]
    unknown = t.call("describe_transactions", 0, transactional_ids=["no-such-id", ""])
    out["unknown ids"] = [error_of(x) for x in unknown["transaction_states"]]
    strange = t.call("list_transactions", 1, state_filters=["Nonsense"])
    out["unknown state filter"] = strange["unknown_state_filters"]
    filters = {"producer_id_filters": [who.id]}
    mine = t.of_all("list_transactions", 1, "transaction_states", **filters)
    out["listed by producer id"] = [x["transaction_state"] for x in mine]
    unknown_part = t.call(
        "describe_producers",
        0,
        topics=[
            {"name": topic, "partition_indexes": [5]},
            {"name": "nope", "partition_indexes": [0]},
        ],
    )
    out["producers of unknown partitions"] = [
        error_of(p) for x in unknown_part["topics"] for p in x["partitions"]
    ]
    return out


@probe("txn")
def epoch_exhaustion(t: Target) -> Outcome:
    """Bumps the epoch by KIP-360 up to almost the last one, then commits with TV2 across the rollover (S5, S8)."""
    topic, who = t.topic(), t.transactional()
    last = 32_760
    if t.raise_epoch is not None:
        who.epoch = last - 2
        t.raise_epoch(str(who.transactional_id), who.epoch)
    while who.epoch < last:
        # Many requests at a time. If one is refused, those behind it are too, and are sent again.
        epochs = range(who.epoch, min(who.epoch + 200, last))
        for epoch in epochs:
            asked = who.fields | {"producer_epoch": epoch, "transaction_timeout_ms": 60_000}
            t.connection.send("init_producer_id", 4, asked)
        answers = [t.connection.receive("init_producer_id", 4) for _ in epochs]
        bumped = [each["producer_epoch"] for each in answers if not each["error_code"]]
        who.epoch = max([who.epoch, *bumped])
    steps = []
    for _ in range(10):
        sent = t.txn_produce(who, topic, 0, version=12)
        old = who.fields
        answer = t.end_txn(who, True, 5)
        retry = t.settled("end_txn", 5, **old, committed=True)
        other = t.settled("end_txn", 5, **old, committed=False)
        same = [answer[x] == retry[x] for x in ("error_code", "producer_id", "producer_epoch")]
        steps.append(
            [
                sent,
                old["producer_epoch"],
                error_of(answer),
                answer["producer_epoch"],
                answer["producer_id"] == old["producer_id"],
                all(same),
                error_of(other),
            ]
        )
        who.id, who.epoch = answer["producer_id"], answer["producer_epoch"]
    return steps


@probe("txn")
def producers_after_the_end(t: Target) -> Outcome:
    """DescribeProducers after each way of ending a transaction (S21)."""
    out: dict[str, object] = {}
    for version, produce_version in ((4, 11), (5, 12)):
        for committed in (True, False):
            topic, who = t.topic(), t.transactional()
            first = who.epoch
            rows: list[object] = []
            for _ in range(2):
                if version < 5:
                    t.add_partitions(who, topic)
                next_sequence = 0 if version == 5 or not rows else 2
                t.txn_produce(who, topic, next_sequence, b"a", b"b", version=produce_version)
                rows.append(_producers(t, topic, who, first))
                answer = t.end_txn(who, committed, version)
                if version == 5:
                    who.id, who.epoch = answer["producer_id"], answer["producer_epoch"]
                t.await_stable(topic)
                rows.append(_producers(t, topic, who, first))
            how = "commit" if committed else "abort"
            out[f"EndTxn v{version}, {how}"] = rows
    topic, who = t.topic(), t.transactional()
    t.add_partitions(who, topic)
    t.txn_produce(who, topic, 0, b"a")
    _init(t, str(who.transactional_id))
    t.await_stable(topic)
    out["InitProducerId of the heir"] = _producers(t, topic, who, who.epoch)
    topic, who = t.topic(), t.transactional(timeout=t.soon(1000))
    t.add_partitions(who, topic)
    t.txn_produce(who, topic, 0, b"a")
    t.time_out()
    t.await_stable(topic)
    out["its timeout"] = _producers(t, topic, who, who.epoch)
    topic, who = t.topic(), t.transactional()
    t.add_partitions(who, topic)
    t.end(who, True)
    time.sleep(0.2)
    out["nothing was sent"] = _producers(t, topic, who, who.epoch)
    return out


def _producers(t: Target, topic: str, who: Producer, first_epoch: int) -> list[object]:
    """The producers of partition 0, each as values that do not vary between runs.

    These are: whether it is `who`, epochs since the first, the last sequence, whether a transaction is open, and
    whether the timestamp is that of the batch.
    """
    answer = t.call("describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}])
    (part,) = answer["topics"][0]["partitions"]
    return [
        [
            row["producer_id"] == who.id,
            row["producer_epoch"] - first_epoch,
            row["last_sequence"],
            row["current_txn_start_offset"] >= 0,
            row["last_timestamp"] == TIMESTAMP,
        ]
        for row in part["active_producers"]
    ]
