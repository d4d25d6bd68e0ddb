"""Probes of offsets inside transactions, and of their fencing by generation (S26, KIP-447)."""

from __future__ import annotations

from typing import Any

from .probes_groups import Member, commit_offset, fetch_offset
from .probing import Outcome, Producer, Target, error_of, probe
from .wire import Fields


def txn_commit(
    t: Target,
    who: Producer,
    group: str,
    topic: str,
    offset: int = 5,
    *,
    version: int = 4,
    member: str = "",
    generation: int = -1,
    partition: int = 0,
) -> str:
    """Send TxnOffsetCommit for one partition; returns its error."""
    more: Fields = (
        {} if version < 3 else {"member_id": member, "generation_id_or_member_epoch": generation}
    )
    answer = t.settled(
        "txn_offset_commit",
        version,
        **who.fields,
        group_id=group,
        **more,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_metadata": None,
                    }
                ],
            }
        ],
    )
    return error_of(answer["topics"][0]["partitions"][0])


def add_offsets(t: Target, who: Producer, group: str, version: int = 3) -> str:
    answer = t.settled("add_offsets_to_txn", version, **who.fields, group_id=group)
    return error_of(answer)


@probe("txn_offsets")
def pending_until_the_end(t: Target) -> Outcome:
    out = {}
    for committed in (True, False):
        topic, who, group = t.topic(), t.transactional(), t.name("g")
        t.coordinator(group, 0)
        before = commit_offset(t, group, topic, 2)
        steps = {
            "plain commit before": before,
            "AddOffsetsToTxn": add_offsets(t, who, group),
            "TxnOffsetCommit": txn_commit(t, who, group, topic),
            "stable fetch while pending": fetch_offset(t, group, topic, True),
            "unstable fetch while pending": fetch_offset(t, group, topic, False),
            "other partition, stable": fetch_offset(t, group, topic, True, partition=3),
            "EndTxn": t.end(who, committed),
        }
        steps["stable fetch at the end"] = stable_offset(t, group, topic)
        out["commit" if committed else "abort"] = steps
    return out


@probe("txn_offsets")
def all_partitions_stable(t: Target) -> Outcome:
    topic, who, group = t.topic(), t.transactional(), t.name("g")
    t.coordinator(group, 0)
    add_offsets(t, who, group)
    txn_commit(t, who, group, topic)
    request = {"groups": [{"group_id": group, "topics": None}], "require_stable": True}
    answer = t.call("offset_fetch", 8, **request)
    rows = [
        [p["committed_offset"], error_of(p)]
        for x in answer["groups"][0]["topics"]
        for p in x["partitions"]
    ]
    t.end(who, False)
    return [error_of(answer["groups"][0]), rows]


def stable_offset(t: Target, group: str, topic: str) -> list[Any]:
    """Fetch the offset until no transaction is about to change it."""
    while (end := fetch_offset(t, group, topic, True))[0] == "UNSTABLE_OFFSET_COMMIT":
        pass
    return end


@probe("txn_offsets")
def without_adding_the_group(t: Target) -> Outcome:
    out = {}
    for version in (0, 3, 4, 5):
        topic, who, group = t.topic(), t.transactional(), t.name("g")
        t.coordinator(group, 0)
        out[f"v{version}"] = txn_commit(t, who, group, topic, version=version)
    return out


@probe("txn_offsets")
def tv2_adds_the_group(t: Target) -> Outcome:
    topic, who, group = t.topic(), t.transactional(), t.name("g")
    t.coordinator(group, 0)
    sent = txn_commit(t, who, group, topic, version=5)
    pending = fetch_offset(t, group, topic, True)
    answer = t.end_txn(who, True, 5)
    end = stable_offset(t, group, topic)
    return {
        "sent": sent,
        "pending": pending,
        "ended": [error_of(answer), answer["producer_epoch"] - who.epoch],
        "after": end,
        "late, old epoch": txn_commit(t, who, group, topic, version=5),
    }


@probe("txn_offsets")
def wrong_identity(t: Target) -> Outcome:
    topic, who, group = t.topic(), t.transactional(), t.name("g")
    t.coordinator(group, 0)
    add_offsets(t, who, group)
    out: dict[str, object] = {}
    for name, id_add, epoch_add in (
        ("epoch ahead", 0, 1),
        ("epoch behind", 0, -1),
        ("another producer id", 1 << 40, 0),
    ):
        answer = {"producer_id": who.id + id_add, "producer_epoch": who.epoch + epoch_add}
        other = Producer(answer, who.transactional_id)
        out[name] = {
            "TxnOffsetCommit v3": txn_commit(t, other, group, topic, version=3),
            "TxnOffsetCommit v4": txn_commit(t, other, group, topic),
            "TxnOffsetCommit v5": txn_commit(t, other, group, topic, version=5),
            "AddOffsetsToTxn v1": add_offsets(t, other, group, 1),
            "AddOffsetsToTxn v3": add_offsets(t, other, group),
        }
    stranger = Producer({"producer_id": who.id, "producer_epoch": who.epoch}, t.name("t"))
    out["unknown transactional id"] = {
        "TxnOffsetCommit v4": txn_commit(t, stranger, group, topic),
        "AddOffsetsToTxn v3": add_offsets(t, stranger, group),
    }
    out["AddOffsetsToTxn, empty group"] = add_offsets(t, who, "")
    out["TxnOffsetCommit, empty group"] = txn_commit(t, who, "", topic)
    out["TxnOffsetCommit, unknown topic"] = txn_commit(t, who, group, "no-such-topic")
    out["TxnOffsetCommit, unknown partition"] = txn_commit(t, who, group, topic, partition=9)
    t.end(who, False)
    return out


@probe("txn_offsets")
def fenced_by_the_group(t: Target) -> Outcome:
    topic, who = t.topic(), t.transactional()
    member = Member(t, t.name("g"))
    member.join_alone()
    add_offsets(t, who, member.group)

    def send(name: str, generation: int) -> str:
        return txn_commit(t, who, member.group, topic, member=name, generation=generation)

    out = {
        "right": send(member.id, member.generation),
        "generation ahead": send(member.id, member.generation + 1),
        "generation behind": send(member.id, member.generation - 1),
        "unknown member": send("stranger", member.generation),
        "no member, right generation": send("", member.generation),
        "neither": send("", -1),
        "v2 cannot say": txn_commit(t, who, member.group, topic, version=2),
    }
    t.end(who, False)
    return out
