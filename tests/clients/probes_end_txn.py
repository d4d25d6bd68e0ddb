"""Probes of EndTxn: correct, retried, delayed, contradicting an earlier one (S4, S5, S9)."""

from __future__ import annotations

from .probing import Outcome, Producer, Target, error_of, probe
from .wire import Fields


def _as(who: Producer, id_add: int = 0, epoch_add: int = 0, tid: str | None = None) -> Producer:
    answer = {"producer_id": who.id + id_add, "producer_epoch": who.epoch + epoch_add}
    return Producer(answer, tid or who.transactional_id)


def _shape(answer: Fields, who: Producer) -> list[object]:
    """Return the error, whether the producer id is the same, and how far the epoch moved; an id of -1 stays -1."""
    if answer["producer_id"] == -1:
        return [error_of(answer), -1, answer["producer_epoch"]]
    return [
        error_of(answer),
        answer["producer_id"] == who.id,
        answer["producer_epoch"] - who.epoch,
    ]


def _open(
    t: Target, version: int, who: Producer | None = None, sequence: int = 0
) -> tuple[str, Producer]:
    """Begin a transaction with one record, as a client with this EndTxn version does; returns topic and producer."""
    topic, who = t.topic(), who or t.transactional()
    if version < 5:
        assert t.add_partitions(who, topic) == "NONE"
    sent = t.txn_produce(who, topic, sequence, version=12 if version >= 5 else 11)
    assert sent == "NONE", sent
    return topic, who


@probe("end_txn")
def tv1_retries(t: Target) -> Outcome:
    out = {}
    for committed in (True, False):
        topic, who = _open(t, 4)
        first = t.end(who, committed)
        at_once = t.end(who, committed)
        t.await_stable(topic)
        out["commit" if committed else "abort"] = {
            "first": first,
            "retried at once": at_once,
            "retried after completion": t.end(who, committed),
            "retried, v1": t.end(who, committed, 1),
            "the other outcome": t.end(who, not committed),
            "then produce without adding": t.txn_produce(who, topic, 1),
        }
    return out


@probe("end_txn")
def tv2_retries(t: Target) -> Outcome:
    out = {}
    for committed in (True, False):
        topic, who = _open(t, 5)
        first = _shape(t.end_txn(who, committed, 5), who)
        at_once = _shape(t.end_txn(who, committed, 5), who)
        t.await_stable(topic)
        out["commit" if committed else "abort"] = {
            "first": first,
            "retried at once": at_once,
            "retried after completion": _shape(t.end_txn(who, committed, 5), who),
            "the other outcome": _shape(t.end_txn(who, not committed, 5), who),
            "retried as v4": t.end(who, committed, 4),
            "old epoch produces": t.txn_produce(who, topic, 1, version=12),
            "new epoch produces from 0": t.txn_produce(_as(who, epoch_add=1), topic, 0, version=12),
        }
    return out


@probe("end_txn")
def of_nothing(t: Target) -> Outcome:
    """EndTxn from a producer that never began a transaction."""
    out: dict[str, object] = {}
    for version in (3, 4, 5):
        for committed in (True, False):
            who = t.transactional()
            name = f"v{version} {'commit' if committed else 'abort'}"
            out[name] = (
                _shape(t.end_txn(who, committed, version), who)
                if version == 5
                else (t.end(who, committed, version))
            )
    who = t.transactional()
    one = _shape(t.end_txn(who, False, 5), who)
    out["v5 abort, at the old epoch again"] = [one, _shape(t.end_txn(who, False, 5), who)]
    ahead = _as(who, epoch_add=1)
    out["v5 abort, at the new epoch"] = _shape(t.end_txn(ahead, False, 5), who)
    out["v5 commit, two epochs on"] = _shape(t.end_txn(_as(who, epoch_add=2), True, 5), who)
    return out


@probe("end_txn")
def after_a_transaction_of_tv2(t: Target) -> Outcome:
    """EndTxn of an empty transaction, with the epoch that the previous EndTxn returned."""
    out = {}
    for committed in (True, False):
        _, who = _open(t, 5)
        t.end(who, committed, 5)
        now = _as(who, epoch_add=1)
        out["commit" if committed else "abort"] = {
            "empty commit": _shape(t.end_txn(now, True, 5), who),
            "empty abort": _shape(t.end_txn(now, False, 5), who),
            "empty abort again": _shape(t.end_txn(now, False, 5), who),
        }
    return out


@probe("end_txn")
def with_wrong_identity(t: Target) -> Outcome:
    out = {}
    for version in (1, 4, 5):
        _, who = _open(t, version)
        out[f"v{version}"] = {
            "unknown transactional id": t.end(_as(who, tid=t.name("t")), True, version),
            "empty transactional id": t.end(
                Producer({"producer_id": who.id, "producer_epoch": who.epoch}, ""), True, version
            ),
            "another producer id": t.end(_as(who, id_add=1000), True, version),
            "epoch ahead": t.end(_as(who, epoch_add=1), True, version),
            "epoch behind": t.end(_as(who, epoch_add=-1), True, version),
            "right": t.end(who, True, version),
        }
    return out


@probe("end_txn")
def delayed_into_the_next_transaction(t: Target) -> Outcome:
    """Seed 004_: the network delivers the commit of transaction T1 again while T2 is ongoing."""
    topic, who = _open(t, 4)
    t.end(who, True)
    t.await_stable(topic)
    _open(t, 4, who)
    tv1 = {"delayed commit": t.end(who, True), "the abort that was meant": t.end(who, False)}

    topic, who = _open(t, 5)
    t.end(who, True, 5)
    t.await_stable(topic)
    bumped = _as(who, epoch_add=1)
    _open(t, 5, bumped)
    tv2 = {
        "delayed commit": t.end(who, True, 5),
        "delayed commit as v4": t.end(who, True, 4),
        "the abort that was meant": t.end(bumped, False, 5),
    }
    return {"TV1": tv1, "TV2": tv2}


@probe("end_txn")
def mixed_protocols(t: Target) -> Outcome:
    """A producer that switches between the protocols, as in a rolling upgrade of clients."""
    topic, who = _open(t, 5)
    first = t.end(who, True, 4)
    t.await_stable(topic)
    _, tv1 = _open(t, 4)
    second = _shape(t.end_txn(tv1, True, 5), tv1)
    return {"produced as TV2, ended as v4": first, "produced as TV1, ended as v5": second}


@probe("end_txn")
def after_the_coordinator_aborted(t: Target) -> Outcome:
    out = {}
    for version in (4, 5):
        topic = t.topic()
        who = t.transactional(timeout=t.soon(300))
        if version < 5:
            t.add_partitions(who, topic)
        t.txn_produce(who, topic, 0, version=12 if version >= 5 else 11)
        t.time_out()
        t.await_stable(topic)
        out[f"v{version}"] = {
            "abort": _shape(t.end_txn(who, False, version), who)
            if version == 5
            else (t.end(who, False, version)),
            "commit": t.end(who, True, version),
        }
    return out


@probe("end_txn")
def with_a_deleted_topic(t: Target) -> Outcome:
    out = {}
    for version in (4, 5):
        topic, who = _open(t, version)
        keep = t.topic()
        if version < 5:
            t.add_partitions(who, keep)
        t.txn_produce(who, keep, 0, version=12 if version >= 5 else 11)
        t.call("delete_topics", 5, topic_names=[topic], timeout_ms=5000)
        ended = t.end(who, True, version)
        t.await_stable(keep)
        out[f"v{version}"] = [ended, t.list_offset(keep, -1, isolation=1)["offset"] > 0]
    return out
