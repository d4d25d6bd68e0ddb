"""The adapter for aiokafka, which runs its own event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Sequence
from typing import Any

import aiokafka
from aiokafka.abc import AbstractTokenProvider
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from tests.compat.harness.adapter import Headers, Message, Security, Settings, UnsupportedError

SECONDS = 60
_LOOP = asyncio.new_event_loop()


def _wait(work: Coroutine[Any, Any, Any]) -> Any:
    return _LOOP.run_until_complete(asyncio.wait_for(work, SECONDS))


async def _made(made: Any, config: dict[str, Any]) -> Any:
    """Create a consumer or producer in the running event loop."""
    client = made(**config)
    await client.start()
    return client


class Consumer:
    def __init__(self, config: dict[str, Any]) -> None:
        self._consumer = _wait(_made(aiokafka.AIOKafkaConsumer, config))

    def assign(self, topic: str, partitions: Sequence[int], offset: int | None = None) -> None:
        wanted = [TopicPartition(topic, p) for p in partitions]

        async def assign() -> None:
            if self._consumer.assignment() != set(wanted):
                self._consumer.assign(wanted)
            if offset is None:
                await self._consumer.seek_to_beginning(*wanted)
            else:
                for one in wanted:
                    self._consumer.seek(one, offset)

        _wait(assign())

    def subscribe(self, topic: str) -> None:
        async def subscribe() -> None:
            self._consumer.subscribe([topic])

        _wait(subscribe())

    def poll(self, seconds: float) -> list[Message]:
        found = _wait(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [
            Message(m.partition, m.offset, m.key, m.value, m.headers)
            for messages in found.values()
            for m in messages
        ]

    def has_ended(self, topic: str, partition: int, end: int) -> bool:
        return self.position(topic, partition) >= end

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def position(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        if where not in self._consumer.assignment():
            return -1
        return int(_wait(self._consumer.position(where)))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        first = _wait(self._consumer.beginning_offsets([where]))[where]
        return int(first), int(_wait(self._consumer.end_offsets([where]))[where])

    def commit(self, topic: str, partition: int, offset: int) -> None:
        where = TopicPartition(topic, partition)
        _wait(self._consumer.commit({where: OffsetAndMetadata(offset, "")}))

    def committed(self, topic: str, partition: int) -> int:
        found = _wait(self._consumer.committed(TopicPartition(topic, partition)))
        return -1 if found is None else int(found)

    def close(self) -> None:
        _wait(self._consumer.stop())


class Producer:
    def __init__(self, config: dict[str, Any]) -> None:
        self._futures: list[Any] = []
        self._producer = _wait(_made(aiokafka.AIOKafkaProducer, config))

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        async def send() -> Any:
            sent = {"value": value, "key": key, "partition": partition, "headers": list(headers)}
            return await self._producer.send(topic, **sent)

        self._futures.append(_wait(send()))

    def flush(self) -> None:
        futures, self._futures = self._futures, []
        _wait(asyncio.wait_for(_all(futures), SECONDS))

    def begin(self) -> None:
        _wait(self._producer.begin_transaction())

    def commit(self) -> None:
        _wait(self._producer.commit_transaction())

    def abort(self) -> None:
        _wait(self._producer.abort_transaction())

    def send_offsets(
        self, consumer: Any, group: str, topic: str, partition: int, offset: int
    ) -> None:
        offsets = {TopicPartition(topic, partition): offset}
        _wait(self._producer.send_offsets_to_transaction(offsets, group))

    def close(self) -> None:
        _wait(self._producer.stop())


async def _all(futures: Sequence[Any]) -> None:
    await asyncio.gather(*futures)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """A token provider that always returns the same token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def _secured(security: Security) -> dict[str, Any]:
    config = {
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=security.authorities),
        "sasl_mechanism": security.mechanism,
    }
    if security.is_oauth:
        return config | {"sasl_oauth_token_provider": Tokens(security.token)}
    return config | {
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
    }


class Client:
    def __init__(self, settings: Settings) -> None:
        self._config: dict[str, Any] = {
            "bootstrap_servers": settings.bootstrap,
            "client_id": "aiokafka",
        }
        if settings.security is not None:
            self._config |= _secured(settings.security)
        if settings.legacy:
            self._config["api_version"] = settings.options["legacy"]

    def consumer(self, group: str) -> Consumer:
        config: dict[str, Any] = {**self._config, "group_id": group, "enable_auto_commit": False}
        config |= {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 4 << 20}
        if "api_version" not in config:
            config["isolation_level"] = "read_committed"
        return Consumer(config)

    def producer(self, codec: str = "none", transactional_id: str | None = None) -> Producer:
        config: dict[str, Any] = {**self._config, "acks": "all"}
        config["compression_type"] = None if codec == "none" else codec
        if transactional_id is not None:
            config["transactional_id"] = transactional_id
        elif "api_version" not in config:
            config["enable_idempotence"] = True
        try:
            return Producer(config)
        except (RuntimeError, ValueError) as error:  # a codec whose library is not there
            raise UnsupportedError(str(error)) from error
