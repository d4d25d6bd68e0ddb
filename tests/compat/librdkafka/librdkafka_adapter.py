"""The adapter for any version of librdkafka, using the shared library from a wheel of confluent-kafka.

Options: `library` is a pattern for its file (default: the installed confluent-kafka's library), and `legacy` is the
broker version to speak to. Any other option is a consumer setting (`group.protocol=consumer`).
"""

from __future__ import annotations

import glob
import importlib.util
from collections.abc import Sequence
from ctypes import c_int, c_void_p
from pathlib import Path
from typing import Any

from tests.compat.harness.adapter import Headers, Message, Settings, UnsupportedError
from tests.compat.librdkafka import native

_MS = 60_000
_GROUP_SETTINGS = ("library", "legacy")


def _library(pattern: str) -> str:
    if not pattern:
        spec = importlib.util.find_spec("confluent_kafka")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parents[1]
        pattern = str(folder / "confluent_kafka.libs" / "librdkafka*.so*")
    (path,) = glob.glob(pattern)
    return path


class Consumer:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def assign(self, topic: str, partitions: Sequence[int], offset: int | None = None) -> None:
        self.handle.eof.clear()
        begin = native.OFFSET_BEGINNING if offset is None else offset
        self.handle.with_partitions("assign", topic, dict.fromkeys(partitions, begin))

    def subscribe(self, topic: str) -> None:
        wanted = self.handle.partitions(topic, {-1: -1001})
        self.handle.call("subscribe", wanted)
        self.handle.free(wanted)

    def poll(self, seconds: float) -> list[Message]:
        found = self.handle.poll(int(seconds * 1000))
        return [] if found is None else [Message(*found)]

    def has_ended(self, topic: str, partition: int, end: int) -> bool:
        return int(self.handle.eof.get(partition, -1)) >= end

    def assigned(self) -> int:
        return int(self.handle.assigned())

    def position(self, topic: str, partition: int) -> int:
        return int(self.handle.offsets("position", topic, partition))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        low, high = self.handle.watermarks(topic, partition)
        return low, high

    def commit(self, topic: str, partition: int, offset: int) -> None:
        self.handle.with_partitions("commit", topic, {partition: offset})

    def committed(self, topic: str, partition: int) -> int:
        return int(self.handle.offsets("committed", topic, partition, c_int(_MS)))

    def close(self) -> None:
        self.handle.close(is_consumer=True)


class Producer:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        self._handle.produce(topic, partition, key, value, headers)

    def flush(self) -> None:
        self._handle.flush()

    def begin(self) -> None:
        self._handle.call_transactional("begin_transaction")

    def commit(self) -> None:
        self._handle.call_transactional("commit_transaction", c_int(_MS))

    def abort(self) -> None:
        self._handle.call_transactional("abort_transaction", c_int(_MS))

    def send_offsets(
        self, consumer: Any, group: str, topic: str, partition: int, offset: int
    ) -> None:
        library = self._handle.library
        metadata = library.function("consumer_group_metadata")(consumer.handle.pointer)
        offsets = self._handle.partitions(topic, {partition: offset})
        try:
            wanted = (offsets, c_void_p(metadata), c_int(_MS))
            self._handle.call_transactional("send_offsets_to_transaction", *wanted)
        finally:
            self._handle.free(offsets)
            library.function("consumer_group_metadata_destroy")(c_void_p(metadata))

    def close(self) -> None:
        self._handle.close(is_consumer=False)


class Client:
    def __init__(self, settings: Settings) -> None:
        self._library = native.Library(_library(settings.options.get("library", "")))
        self._is_legacy = settings.legacy
        self._config = {"bootstrap.servers": settings.bootstrap, "client.id": "librdkafka"}
        if settings.legacy:
            fallback = settings.options["legacy"]
            self._config |= {"api.version.request": "false", "broker.version.fallback": fallback}
        self._token = ""
        if settings.security is not None:
            self._config |= {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": settings.security.authorities,
                "sasl.mechanisms": settings.security.mechanism,
            }
            if settings.security.is_oauth:
                self._token = settings.security.token
            else:
                self._config["sasl.username"] = settings.security.user
                self._config["sasl.password"] = settings.security.password
        options = settings.options.items()
        self._group = {name: value for name, value in options if name not in _GROUP_SETTINGS}

    def _handle(self, config: dict[str, str], *, is_consumer: bool) -> native.Handle:
        handle = native.Handle(self._library, config, is_consumer=is_consumer)
        if self._token:
            handle.set_token(self._token)
        return handle

    def consumer(self, group: str) -> Consumer:
        config = {
            **self._config,
            **self._group,
            "group.id": group,
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "100",
        }
        committed = {"isolation.level": "read_committed"}
        if self._is_legacy:
            return Consumer(self._handle(config, is_consumer=True))
        try:
            return Consumer(self._handle(config | committed, is_consumer=True))
        except native.UnknownSettingError:  # before 1.2: reads aborted records too
            return Consumer(self._handle(config, is_consumer=True))

    def producer(self, codec: str = "none", transactional_id: str | None = None) -> Producer:
        # "delivery.timeout.ms" has had an older name: message.timeout.ms knows every version.
        config = {**self._config, "compression.codec": codec, "message.timeout.ms": str(_MS)}
        config["queue.buffering.max.ms"] = "20"
        if self._is_legacy:
            return Producer(self._handle(config, is_consumer=False))
        if transactional_id is not None:
            if not self._library.has("init_transactions"):
                raise UnsupportedError("librdkafka has transactions since 1.4")
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": "60000"}
            config["message.timeout.ms"] = str(_MS)
        return self._producer(config, transactional_id is not None)

    def _producer(self, config: dict[str, str], is_transactional: bool) -> Producer:
        idempotent = {"enable.idempotence": "true"}
        for more in (idempotent, {}):  # before 1.0 there is no idempotence
            try:
                handle = self._handle(config | more, is_consumer=False)
            except native.UnknownSettingError as error:
                refused = error
                continue
            if is_transactional:
                handle.call_transactional("init_transactions", c_int(_MS))
            return Producer(handle)
        raise UnsupportedError(str(refused))
