"""Text tables: a command, an arrow, and the expected result. Comments and blank lines separate them.

topic NAME PARTITIONS [config=value]     put PARTITION xCOUNT [PID/EPOCH@SEQ [txn|tv2|follows]] [lat=MS]
epoch EPOCH (a topic `a` with two partitions, and producer 1 of `x` with this epoch)
init ID|- [timeout=MS] [from=PID/EPOCH]  end1|end2 ID PID/EPOCH commit|abort   (TV1 | TV2)
add|verify ID PID/EPOCH PARTITION…       offsets ID PID/EPOCH GROUP
commit-offset|commit-offset2 ID PID/EPOCH GROUP PARTITION=OFFSET    fetch-offset GROUP PARTITION
abort ID | abort PID/EPOCH               state ID
see PARTITION -> start..lso..hw [first,end) of each dead range
delete-records PARTITION OFFSET          delete-topic NAME
clock +MS (the lease is renewed, a tick)  producers PARTITION -> pid/epoch@lastsequence:txnstart
"""

from collections.abc import Callable, Iterable
from typing import Any

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, DeleteTopics, RenewLease
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    OffsetFetch,
    OffsetFetchGroup,
    TxnOffsetCommit,
)
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, TransactionEnded
from lacuna.controlplane.v1.log_pb2 import DeleteRecords, DeleteRecordsPartition
from lacuna.controlplane.v1.transactions_pb2 import (
    AbortTxn,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribeProducers,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
)
from tests.controlplane.verbs.cluster import (
    ADDS_PARTITION,
    FOLLOWS,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Cluster,
)


def run(table: str, cluster: Cluster | None = None) -> Cluster:
    """Run a table line by line, then check that replaying the journal gives the same state."""
    cluster = cluster or Cluster()
    for number, line in enumerate(table.splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        command, arrow, expected = text.partition("->")
        verb, *words = command.split()
        got = VERBS[verb](cluster, *words)
        if arrow:
            assert got == " ".join(expected.split()), f"line {number}: {text}: got {got}"
    cluster.check()
    return cluster


def _name(code: int) -> str:
    return ErrorCode(code).name


def _names(codes: Iterable[int]) -> str:
    return " ".join(_name(code) for code in codes)


def _producer(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


def _named(name: str, producer: str) -> dict[str, Any]:
    """Return the fields that identify a transactional producer."""
    producer_id, epoch = _producer(producer)
    return {"transactional_id": _id(name), "producer_id": producer_id, "producer_epoch": epoch}


def _options(words: Iterable[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _topic(cluster: Cluster, name: str, count: str, *words: str) -> str:
    topic = CreateTopic(name=name, partition_count=int(count), configs=_options(words))
    return _name(cluster.do("create_topics", CreateTopics(topics=[topic])).topics[0].error_code)


def _put(cluster: Cluster, partition: str, count: str, *words: str) -> str:
    given: dict[str, Any] = {"flags": 0}
    for word in words:
        if word == "txn":
            given["flags"] |= TRANSACTIONAL
        elif word == "tv2":
            given["flags"] |= TRANSACTIONAL | ADDS_PARTITION
        elif word == "follows":
            given["flags"] |= FOLLOWS
        elif word.startswith("lat="):
            given["flags"] |= LOG_APPEND_TIME
            given["timestamp"] = int(word[4:])
        else:
            producer, _, sequence = word.partition("@")
            given |= {"producer": _producer(producer), "sequence": int(sequence)}
    return str(cluster.put(partition, int(count.removeprefix("x")), **given))


def _init(cluster: Cluster, name: str, *words: str) -> str:
    options = _options(words)
    producer_id, epoch = _producer(options.get("from", "-1/-1"))
    answer = cluster.do(
        "init_producer_id",
        InitProducerId(
            has_transactional_id=name != "-",
            transactional_id="" if name in ("-", "''") else name,
            transaction_timeout_ms=int(options.get("timeout", "60000")),
            producer_id=producer_id,
            producer_epoch=epoch,
        ),
    )
    if answer.error_code:
        return _name(answer.error_code)
    return f"{answer.producer_id}/{answer.producer_epoch}"


def _epoch(cluster: Cluster, epoch: str) -> str:
    run("topic a 2\ninit x -> 1/0", cluster)
    ended = TransactionEnded(producer_id=1, next_producer_id=1, next_producer_epoch=int(epoch))
    record = JournalRecord(now_ms=cluster.now_ms, transaction_ended=ended)
    cluster.journal.append(record.SerializeToString())
    machine.replay(cluster.state, record)
    return ""


def _id(name: str) -> str:
    return "" if name == "''" else name


def _add(verify: bool) -> Callable[..., str]:
    def add(cluster: Cluster, name: str, producer: str, *partitions: str) -> str:
        answer = cluster.do(
            "add_partitions_to_txn",
            AddPartitionsToTxn(
                **_named(name, producer),
                partitions=[cluster.partition(text) for text in partitions],
                verify_only=verify,
            ),
        )
        assert len(answer.error_codes) == len(partitions)
        return _name(answer.error_code) if answer.error_code else _names(answer.error_codes)

    return add


def _offsets(cluster: Cluster, name: str, producer: str, group: str) -> str:
    command = AddOffsetsToTxn(
        **_named(name, producer),
        group_id=_id(group),
    )
    return _name(cluster.do("add_offsets_to_txn", command).error_code)


def _commit_offset(adds_group: bool) -> Callable[..., str]:
    def commit(cluster: Cluster, name: str, producer: str, group: str, offset: str) -> str:
        partition, _, number = offset.partition("=")
        wanted = CommittedOffset(
            partition=cluster.partition(partition), offset=int(number), leader_epoch=-1
        )
        answer = cluster.do(
            "txn_offset_commit",
            TxnOffsetCommit(
                group_id=_id(group),
                **_named(name, producer),
                generation_id=-1,
                offsets=[wanted],
                adds_group=adds_group,
            ),
        )
        return _names(answer.error_codes) or _name(answer.error_code)

    return commit


def _fetch_offset(cluster: Cluster, group: str, partition: str) -> str:
    wanted = OffsetFetchGroup(group_id=group, partitions=[cluster.partition(partition)])
    answer = cluster.do("offset_fetch", OffsetFetch(groups=[wanted], require_stable=True))
    offset = answer.groups[0].offsets[0]
    return _name(offset.error_code) if offset.error_code else str(offset.offset)


def _end(bumps_epoch: bool) -> Callable[..., str]:
    def end(cluster: Cluster, name: str, producer: str, outcome: str) -> str:
        answer = cluster.do(
            "end_txn",
            EndTxn(
                **_named(name, producer),
                committed=outcome == "commit",
                bumps_epoch=bumps_epoch,
            ),
        )
        if answer.error_code:
            assert answer.producer_id == -1
            return _name(answer.error_code)
        return f"{answer.producer_id}/{answer.producer_epoch}"

    return end


def _abort(cluster: Cluster, who: str) -> str:
    if "/" in who:
        producer_id, epoch = _producer(who)
        command = AbortTxn(producer_id=producer_id, producer_epoch=epoch)
    else:
        command = AbortTxn(transactional_id=who)
    return _name(cluster.do("abort_txn", command).error_code)


def _state(cluster: Cluster, name: str) -> str:
    command = DescribeTransactions(transactional_ids=[_id(name)])
    answer = cluster.do("describe_transactions", command).transactions[0]
    if answer.error_code:
        return _name(answer.error_code)
    return f"{answer.state} {answer.producer_id}/{answer.producer_epoch}"


def _see(cluster: Cluster, text: str) -> str:
    found = cluster.found(text)
    dead = zip(found.dead.firsts, found.dead.ends, strict=True)
    ranges = [f"[{first},{end})" for first, end in dead]
    offsets = f"{found.log_start_offset}..{found.last_stable_offset}..{found.high_watermark}"
    return " ".join([offsets, *ranges])


def _producers(cluster: Cluster, text: str) -> str:
    command = DescribeProducers(partitions=[cluster.partition(text)])
    answer = cluster.do("describe_producers", command).partitions[0]
    if answer.error_code:
        return _name(answer.error_code)
    return " ".join(
        f"{each.producer_id}/{each.producer_epoch}@{each.last_sequence}"
        f":{each.current_txn_start_offset}"
        for each in answer.producers
    )


def _delete_records(cluster: Cluster, partition: str, offset: str) -> str:
    wanted = DeleteRecordsPartition(
        partition=cluster.partition(partition), before_offset=int(offset)
    )
    answer = cluster.do("delete_records", DeleteRecords(partitions=[wanted])).partitions[0]
    if answer.error_code:
        return _name(answer.error_code)
    found = cluster.found(partition)
    assert answer.version == found.version
    assert answer.last_stable_offset == found.last_stable_offset
    return str(answer.log_start_offset)


def _delete_topic(cluster: Cluster, name: str) -> str:
    topic = cluster.state.topics_by_name.get(name)
    topic_id = b"?" * 16 if topic is None else topic.topic_id
    answer = cluster.do("delete_topics", DeleteTopics(topic_ids=[topic_id]))
    return _name(answer.topics[0].error_code)


def _clock(cluster: Cluster, forward: str) -> str:
    cluster.now_ms += int(forward)
    cluster.do("renew_lease", RenewLease(lease_id=cluster.lease_id))
    return " ".join(cluster.tick())


VERBS: dict[str, Callable[..., str]] = {
    "topic": _topic,
    "put": _put,
    "epoch": _epoch,
    "init": _init,
    "add": _add(verify=False),
    "verify": _add(verify=True),
    "offsets": _offsets,
    "commit-offset": _commit_offset(adds_group=False),
    "commit-offset2": _commit_offset(adds_group=True),
    "fetch-offset": _fetch_offset,
    "end1": _end(bumps_epoch=False),
    "end2": _end(bumps_epoch=True),
    "abort": _abort,
    "state": _state,
    "see": _see,
    "producers": _producers,
    "delete-records": _delete_records,
    "delete-topic": _delete_topic,
    "clock": _clock,
}
