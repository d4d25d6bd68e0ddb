"""The adapter for kafka-python 1.4 to 3."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from typing import Any

import kafka
from kafka.errors import RebalanceInProgressError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.compat.harness.adapter import Headers, Message, Security, Settings, UnsupportedError

SECONDS = 60
REJOIN_SECONDS = 60.0
#: Longer than it takes to join. A poll that ends meanwhile leaves version 3 outside of the group for good.
JOIN_SECONDS = 3.0 if kafka.__version__.startswith("3.") else 0.0


def _offset(offset: int) -> Any:
    """Return an OffsetAndMetadata. Later versions of kafka-python require a leader epoch in it."""
    return OffsetAndMetadata(offset, "", *((-1,) if len(OffsetAndMetadata._fields) > 2 else ()))


class Consumer:
    """A consumer in its own thread, because before 2.1 a poll blocks until all members have joined."""

    def __init__(self, config: dict[str, Any], group: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._polling: Future[Any] | None = None
        self._held: list[Message] = []
        self._poll_seconds = 0.0
        known = kafka.KafkaConsumer.DEFAULT_CONFIG
        if "isolation_level" in known and "api_version" not in config:
            config = {**config, "isolation_level": "read_committed"}
        self._consumer = kafka.KafkaConsumer(
            **config,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=4 << 20,
        )

    def assign(self, topic: str, partitions: Sequence[int], offset: int | None = None) -> None:
        wanted = [TopicPartition(topic, p) for p in partitions]
        self._do(self._consumer.assign, wanted)
        for one in wanted:
            if offset is None:
                self._do(self._consumer.seek_to_beginning, one)
            else:
                self._do(self._consumer.seek, one, offset)

    def subscribe(self, topic: str) -> None:
        self._poll_seconds = JOIN_SECONDS
        self._do(self._consumer.subscribe, [topic])

    def poll(self, seconds: float) -> list[Message]:
        held, self._held = self._held, []
        return held or self._poll(seconds)

    def _poll(self, seconds: float) -> list[Message]:
        poll_ms = int(max(seconds, self._poll_seconds) * 1000)
        polling = self._polling or self._thread.submit(self._consumer.poll, poll_ms)
        try:
            found = polling.result(2 * seconds)
        except WaitTimeout:
            self._polling = polling
            return []
        self._polling = None
        return [
            Message(m.partition, m.offset, m.key, m.value, getattr(m, "headers", ()) or ())
            for messages in found.values()
            for m in messages
        ]

    def has_ended(self, topic: str, partition: int, end: int) -> bool:
        # What a poll that goes on brings is not handed out yet, though the position is behind it.
        return not self._held and self._polling is None and self.position(topic, partition) >= end

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def position(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        if where not in self._consumer.assignment():
            return -1
        position = self._do(self._consumer.position, where)
        return -1 if position is None else int(position)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        first = self._do(self._consumer.beginning_offsets, [where])[where]
        return int(first), int(self._do(self._consumer.end_offsets, [where])[where])

    def commit(self, topic: str, partition: int, offset: int) -> None:
        offsets = {TopicPartition(topic, partition): _offset(offset)}
        deadline = time.monotonic() + REJOIN_SECONDS
        while time.monotonic() < deadline:
            try:
                self._do(self._consumer.commit, offsets)
                return
            except RebalanceInProgressError:  # it joins again; polling is what ends that
                self._held += self._poll(0.5)
        self._do(self._consumer.commit, offsets)

    def committed(self, topic: str, partition: int) -> int:
        found = self._do(self._consumer.committed, TopicPartition(topic, partition))
        return -1 if found is None else int(found)

    def close(self) -> None:
        try:
            self._do(self._consumer.close)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._thread.submit(function, *arguments).result(SECONDS)


class Producer:
    def __init__(self, config: dict[str, Any]) -> None:
        self._has_headers = "headers" in inspect.signature(kafka.KafkaProducer.send).parameters
        self._futures: list[Any] = []
        try:
            self._producer = kafka.KafkaProducer(**config)
        except (AssertionError, ValueError) as error:  # a codec whose library is not there
            raise UnsupportedError(str(error)) from error
        if config.get("transactional_id"):
            self._producer.init_transactions()

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        more = {"headers": list(headers)} if headers and self._has_headers else {}
        sent = self._producer.send(topic, value=value, key=key, partition=partition, **more)
        self._futures.append(sent)

    def flush(self) -> None:
        self._producer.flush(timeout=SECONDS)
        futures, self._futures = self._futures, []
        for future in futures:
            future.get(timeout=SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def send_offsets(
        self, consumer: Any, group: str, topic: str, partition: int, offset: int
    ) -> None:
        send: Callable[..., None] = self._producer.send_offsets_to_transaction
        metadata = getattr(consumer._consumer, "group_metadata", None)
        owner = metadata() if metadata is not None else group
        send({TopicPartition(topic, partition): _offset(offset)}, owner)

    def close(self) -> None:
        self._producer.close(timeout=5)


def _secured(security: Security) -> dict[str, Any]:
    config = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": security.authorities,
        "sasl_mechanism": security.mechanism,
    }
    if security.is_oauth:
        from kafka.net.sasl.oauth import AbstractTokenProvider  # since 3.0

        provider = type("Tokens", (AbstractTokenProvider,), {"token": lambda _: security.token})
        return config | {"sasl_oauth_token_provider": provider()}
    return config | {
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
    }


class Client:
    def __init__(self, settings: Settings) -> None:
        self._config: dict[str, Any] = {
            "bootstrap_servers": settings.bootstrap.split(","),
            "client_id": "kafka-python",
        }
        if settings.security is not None:
            self._config |= _secured(settings.security)
        if settings.legacy:
            version = settings.options["legacy"].split(".")
            self._config["api_version"] = tuple(int(part) for part in version)

    def consumer(self, group: str) -> Consumer:
        return Consumer(dict(self._config), group)

    def producer(self, codec: str = "none", transactional_id: str | None = None) -> Producer:
        known = kafka.KafkaProducer.DEFAULT_CONFIG
        config = {**self._config, "acks": "all", "linger_ms": 5}
        config["compression_type"] = None if codec == "none" else codec
        if transactional_id is not None:
            if "transactional_id" not in known:
                raise UnsupportedError("kafka-python has transactions since 2.1")
            config["transactional_id"] = transactional_id
        elif "enable_idempotence" in known and "api_version" not in config:
            config["enable_idempotence"] = True
        return Producer(config)
