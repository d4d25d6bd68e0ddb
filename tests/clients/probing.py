"""Probes, and the calls that most of them make.

A probe is a function from a `Target` to an outcome that JSON can represent: error names, offsets, counts. Values that
differ from run to run (producer ids, topic ids, member ids, times) are reduced to comparisons before they enter an
outcome, so that an outcome recorded from Apache Kafka can be compared with every later run.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from lacuna.controlplane.shared.errors import ErrorCode

from .batch import batch
from .wire import ClosedError, Connection, Fields

Outcome = Any
Probe = Callable[["Target"], Outcome]
PROBES: dict[str, Probe] = {}
RETRIED = {"CONCURRENT_TRANSACTIONS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}
RETRIED |= {"COORDINATOR_LOAD_IN_PROGRESS"}
AMPLE_MS = 60_000


def error_name(code: int) -> str:
    return ErrorCode(code).name


def error_of(row: Fields) -> str:
    """The name of the error in an answer, or in a row of it."""
    return error_name(row["error_code"])


def fetched(offset: int, index: int = 0, most_bytes: int = 1 << 20) -> Fields:
    """A partition as a row of a Fetch request."""
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": most_bytes}


def probe(theme: str) -> Callable[[Probe], Probe]:
    """A decorator that registers a probe as `theme.function_name`."""

    def register(function: Probe) -> Probe:
        name = f"{theme}.{function.__name__}"
        PROBES[name] = function
        return function

    return register


class Producer:
    """A producer id with its epoch, as InitProducerId returned them."""

    def __init__(self, answer: Fields, transactional_id: str | None) -> None:
        self.id: int = answer["producer_id"]
        self.epoch: int = answer["producer_epoch"]
        self.transactional_id = transactional_id

    @property
    def fields(self) -> Fields:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }


class Target:
    """A broker to probe: a connection to it, calls, and unique names."""

    def __init__(
        self,
        bootstrap: str,
        advance: Callable[[int], None] | None = None,
        raise_epoch: Callable[[str, int], None] | None = None,
    ):
        """Where possible, `advance` moves the broker's time forward by this many milliseconds, and `raise_epoch` sets
        the epoch of a transactional id.
        """
        self.bootstrap = bootstrap
        self.advance = advance
        self.raise_epoch = raise_epoch
        self.connection = Connection(bootstrap)
        self.topic_ids: dict[str, uuid.UUID] = {}

    def close(self) -> None:
        self.connection.close()

    def connect(self, timeout: float = 60.0) -> Connection:
        return Connection(self.bootstrap, timeout=timeout)

    def connect_again(self) -> Connection:
        """Connect again to this connection's broker, whereas `connect` may reach another one."""
        return Connection("{}:{}".format(*self.connection.peer))

    def node_id(self) -> int:
        """Return the node id of this connection's broker."""
        brokers = self.call("describe_cluster", 1)["brokers"]
        _, port = self.connection.peer
        return int(next(each["broker_id"] for each in brokers if each["port"] == port))

    def now(self) -> float:
        """Return the time in seconds, for time limits."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait before a retry."""
        time.sleep(seconds)

    def soon(self, milliseconds: int) -> int:
        """Return a timeout (ms) that a probe waits for, or AMPLE_MS if `time_out` skips it, so that no delay can exceed
        it.
        """
        return milliseconds if self.advance is None else AMPLE_MS

    def time_out(self) -> None:
        """Let a timeout of `soon` pass, if the broker's time can be moved. A probe then waits for its effects."""
        if self.advance is not None:
            self.advance(AMPLE_MS)

    def name(self, stem: str = "p") -> str:
        return f"{stem}-{uuid.uuid4().hex[:12]}"

    def call(self, api: str, version: int, /, **fields: Any) -> Fields:
        return self.connection.call(api, version, **fields)

    def of_all(self, api: str, version: int, key: str, /, **fields: Any) -> list[Fields]:
        """Return the rows under `key` in every broker's answer, since each lists only the groups and ids it
        coordinates.
        """
        rows: list[Fields] = []
        for address in self.bootstrap.split(","):
            with Connection(address) as connection:
                rows += connection.call(api, version, **fields)[key]
        return rows

    def settled(self, api: str, version: int, /, **fields: Any) -> Fields:
        """Call an API, and repeat it while the coordinator answers that it is still busy with earlier requests."""
        deadline = self.now() + 60
        while True:
            answer = self.call(api, version, **fields)
            if not (RETRIED & _errors(answer)) or self.now() > deadline:
                return answer
            self.sleep(0.02)

    def topic(self, partitions: int = 1, **configs: object) -> str:
        """Create a topic (config names are written with _), wait until it can be produced to, and return its name."""
        name = self.name()
        configs = {"retention_ms": -1} | configs  # the probes' records have old timestamps
        rows = [{"name": key.replace("_", "."), "value": str(v)} for key, v in configs.items()]
        answer = self.call("create_topics", 7, topics=[_creatable(name, partitions, 1, rows)])
        assert answer["topics"][0]["error_code"] == 0, answer
        self.topic_ids[name] = answer["topics"][0]["topic_id"]
        deadline = self.now() + 60
        while not self.has_logs(name, partitions) and self.now() < deadline:
            self.sleep(0.01)
        if self.advance is None:
            self.sleep(0.1)  # Kafka's coordinators learn of a topic after its leader does
        return name

    def has_logs(self, name: str, partitions: int) -> bool:
        """Whether all partitions can be read: Metadata may name a leader before that leader has created its log."""
        return all(
            self.list_offset(name, -1, index=index)["error_code"] == 0
            for index in range(partitions)
        )

    def metadata(self, name: str) -> Fields:
        answer = self.call(
            "metadata",
            12,
            topics=[{"topic_id": uuid.UUID(int=0), "name": name}],
            allow_auto_topic_creation=False,
        )
        topic: Fields = answer["topics"][0]
        return topic

    def id_of(self, name: str) -> uuid.UUID:
        found: uuid.UUID = self.metadata(name)["topic_id"]
        return found

    def produce_many(
        self,
        partitions: list[tuple[str, int, bytes | None]],
        *,
        version: int = 11,
        transactional_id: str | None = None,
        acks: int = -1,
    ) -> list[Fields]:
        """Send one Produce request for several partitions; returns the partitions' answers in their order."""
        topics = [
            {"name": name, "partition_data": [{"index": index, "records": records}]}
            for name, index, records in partitions
        ]
        answer = self.call(
            "produce",
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=topics,
        )
        return [row for topic in answer["responses"] for row in topic["partition_responses"]]

    def produce(self, topic: str, records: bytes | None, *, index: int = 0, **rest: Any) -> Fields:
        return self.produce_many([(topic, index, records)], **rest)[0]

    def verdict(self, topic: str, records: bytes | None, **rest: Any) -> str:
        """Produce one batch, and return the name of the error in the answer."""
        return error_of(self.produce(topic, records, **rest))

    def verdict_or_hang_up(self, topic: str, records: bytes | None, **rest: Any) -> str:
        """As `verdict`, on a new connection; returns "closed" or "no answer" if the broker does that instead."""
        try:
            with self.connect() as self.connection:
                return self.verdict(topic, records, **rest)
        except ClosedError:
            return "closed"
        except TimeoutError:
            return "no answer"
        finally:
            self.connection = self.connect()

    def idempotent(self) -> Producer:
        answer = self.settled(
            "init_producer_id", 4, transactional_id=None, transaction_timeout_ms=60_000
        )
        assert answer["error_code"] == 0, answer
        return Producer(answer, None)

    def coordinator(self, key: str, key_type: int) -> None:
        """Call FindCoordinator until it succeeds: Kafka creates its internal topics on the first call."""
        self.settled("find_coordinator", 4, key_type=key_type, coordinator_keys=[key])

    def transactional(self, tid: str | None = None, timeout: int = 60_000) -> Producer:
        tid = tid or self.name("t")
        self.coordinator(tid, 1)
        answer = self.settled(
            "init_producer_id", 4, transactional_id=tid, transaction_timeout_ms=timeout
        )
        assert answer["error_code"] == 0, answer
        return Producer(answer, tid)

    def add_partitions(self, who: Producer, topic: str, version: int = 3, index: int = 0) -> str:
        """Send AddPartitionsToTxn for one partition, as a TV1 client does; returns the partition's error."""
        answer = self.settled(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=who.transactional_id,
            v3_and_below_producer_id=who.id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": [index]}],
        )
        topic_row = answer["results_by_topic_v3_and_below"][0]
        return error_name(topic_row["results_by_partition"][0]["partition_error_code"])

    def txn_batch(self, who: Producer, sequence: int, *values: bytes, **rest: Any) -> bytes:
        return batch(
            values or (b"v",),
            attributes=0x10,
            producer_id=who.id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
            **rest,
        )

    def txn_produce(
        self,
        who: Producer,
        topic: str,
        sequence: int,
        *values: bytes,
        version: int = 11,
    ) -> str:
        """Produce in a transaction, with retries while the previous transaction is still ending; return the error."""
        deadline = self.now() + 60
        while True:
            name = self.verdict(
                topic,
                self.txn_batch(who, sequence, *values),
                version=version,
                transactional_id=who.transactional_id,
            )
            if name not in RETRIED or self.now() > deadline:
                return name
            self.sleep(0.02)

    def end_txn(self, who: Producer, committed: bool, version: int = 4) -> Fields:
        return self.settled("end_txn", version, **who.fields, committed=committed)

    def end(self, who: Producer, committed: bool, version: int = 4) -> str:
        return error_of(self.end_txn(who, committed, version))

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        isolation: int = 0,
        index: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        version: int = 12,
        max_bytes: int = 1 << 24,
        partition_max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
    ) -> Fields:
        """Fetch one partition without a session; returns the partition's answer."""
        part = fetched(offset, index, partition_max_bytes) | {"current_leader_epoch": leader_epoch}
        answer = self.call(
            "fetch",
            version,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            topics=[{"topic": topic, "partitions": [part]}],
        )
        row: Fields = answer["responses"][0]["partitions"][0]
        return row

    def list_offset(
        self,
        topic: str,
        timestamp: int,
        *,
        isolation: int = 0,
        index: int = 0,
        leader_epoch: int = -1,
        version: int = 8,
    ) -> Fields:
        partition = {
            "partition_index": index,
            "current_leader_epoch": leader_epoch,
            "timestamp": timestamp,
        }
        answer = self.call(
            "list_offsets",
            version,
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": topic, "partitions": [partition]}],
        )
        row: Fields = answer["topics"][0]["partitions"][0]
        return row

    def await_stable(self, topic: str) -> None:
        """Wait until no transaction is open in partition 0: Kafka writes its markers after answering EndTxn."""
        deadline = self.now() + 60
        while self.now() < deadline:
            row = self.fetch(topic, 0)
            if row["last_stable_offset"] == row["high_watermark"]:
                return
            self.sleep(0.02)


def _creatable(name: str, partitions: int, factor: int, configs: list[Fields]) -> Fields:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "configs": configs,
    }


def creatable(name: str, partitions: int = 1, factor: int = 1, **configs: object) -> Fields:
    """A topic as a row of a CreateTopics request; config names are written with _."""
    rows = [{"name": key.replace("_", "."), "value": str(v)} for key, v in configs.items()]
    return _creatable(name, partitions, factor, rows)


def _errors(answer: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key.endswith("error_code"):
                found.add(error_name(value))
            else:
                found |= _errors(value)
    elif isinstance(answer, list):
        for value in answer:
            found |= _errors(value)
    return found
