"""The part of librdkafka's C interface that the scenarios need. It is the same in all versions since 0.11."""

from __future__ import annotations

import ctypes
import time
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

ERR_TIMED_OUT, ERR_PARTITION_EOF, ERR_NO_OFFSET = -185, -191, -168
OFFSET_BEGINNING = -2
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _MSGFLAGS, _HEADER = 0, 1, 3, 4, 5, 7, 9
_COPY = 2
_MS = 60_000


class NativeError(Exception):
    """An error of librdkafka, with its name."""


class UnknownSettingError(Exception):
    """This version of librdkafka rejects a setting or its value."""


class _Message(Structure):
    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class _TopicPartition(Structure):
    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    )


class _List(Structure):
    _fields_ = (("cnt", c_int), ("size", c_int), ("elems", POINTER(_TopicPartition)))


_LIST = POINTER(_List)
_DELIVERED = ctypes.CFUNCTYPE(None, c_void_p, POINTER(_Message), c_void_p)
#: What a function returns; int is the default. Those of later versions are looked up when they are used.
_RESULTS = {
    "conf_new": c_void_p,
    "new": c_void_p,
    "err2name": c_char_p,
    "version_str": c_char_p,
    "topic_partition_list_new": _LIST,
    "topic_partition_list_add": POINTER(_TopicPartition),
    "consumer_poll": POINTER(_Message),
    "init_transactions": c_void_p,
    "begin_transaction": c_void_p,
    "commit_transaction": c_void_p,
    "abort_transaction": c_void_p,
    "send_offsets_to_transaction": c_void_p,
    "consumer_group_metadata": c_void_p,
    "error_string": c_char_p,
}


class Library:
    """The functions of one librdkafka. `call` raises the errors that they return."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def function(self, name: str) -> Any:
        """Return rd_kafka_NAME. Raises AttributeError if this version lacks it."""
        found = getattr(self._library, f"rd_kafka_{name}")
        found.restype = _RESULTS.get(name, c_int)
        return found

    def has(self, name: str) -> bool:
        """Return whether this version has rd_kafka_NAME."""
        return hasattr(self._library, f"rd_kafka_{name}")

    def check(self, code: int) -> None:
        """Raises NativeError for an error code."""
        if code:
            raise NativeError(self.function("err2name")(code).decode())

    def check_error(self, error: int | None) -> None:
        """Raises NativeError for an rd_kafka_error_t."""
        if error:
            said = self.function("error_string")(c_void_p(error)).decode()
            self.function("error_destroy")(c_void_p(error))
            raise NativeError(said)


class Handle:
    """An rd_kafka_t."""

    def __init__(self, library: Library, config: dict[str, str], *, is_consumer: bool) -> None:
        self.library = library
        self._failed: list[int] = []
        self.eof: dict[int, int] = {}
        self._delivered = _DELIVERED(self._on_delivery)
        error = ctypes.create_string_buffer(512)
        made = c_void_p(library.function("conf_new")())
        if not is_consumer:
            library.function("conf_set_dr_msg_cb")(made, self._delivered)
        for name, value in config.items():
            wanted = (made, name.encode(), value.encode(), error, c_size_t(512))
            if library.function("conf_set")(*wanted):
                library.function("conf_destroy")(made)
                raise UnknownSettingError(error.value.decode())
        pointer = library.function("new")(c_int(is_consumer), made, error, c_size_t(512))
        if not pointer:
            library.function("conf_destroy")(made)
            raise UnknownSettingError(error.value.decode())
        self.pointer = c_void_p(pointer)
        if is_consumer:
            library.check(library.function("poll_set_consumer")(self.pointer))

    def _on_delivery(self, handle: Any, message: Any, opaque: Any) -> None:
        if message.contents.err:
            self._failed.append(message.contents.err)

    def set_token(self, token: str) -> None:
        """Authenticate with OAUTHBEARER and this token, which is valid for an hour."""
        error = ctypes.create_string_buffer(512)
        end = c_int64(int((time.time() + 3600) * 1000))
        given = (token.encode(), end, b"", None, c_size_t(0), error, c_size_t(512))
        if self.library.function("oauthbearer_set_token")(self.pointer, *given):
            raise NativeError(error.value.decode())

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns an error code."""
        self.library.check(self.library.function(name)(self.pointer, *arguments))

    def call_transactional(self, name: str, *arguments: Any) -> None:
        """Call a function that returns an rd_kafka_error_t."""
        self.library.check_error(self.library.function(name)(self.pointer, *arguments))

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
    ) -> None:
        """Enqueue one record. `flush` raises its delivery error."""
        arguments: list[Any] = [c_int(_TOPIC), c_char_p(topic.encode())]
        arguments += [c_int(_PARTITION), c_int32(partition), c_int(_MSGFLAGS), c_int(_COPY)]
        for kind, data in ((_VALUE, value), (_KEY, key)):
            arguments += [c_int(kind), c_char_p(data), c_size_t(len(data or b""))]
        for name, data in headers:
            arguments += [c_int(_HEADER), c_char_p(name.encode()), c_char_p(data)]
            arguments.append(c_size_t(len(data or b"")))
        self.call("producev", *arguments, c_int(_END))

    def flush(self) -> None:
        """Wait for all records."""
        self.call("flush", c_int(_MS))
        failed, self._failed = self._failed, []
        self.library.check(failed[0] if failed else 0)

    def partitions(self, topic: str, offsets: dict[int, int]) -> Any:
        """Return a list of partitions. The caller destroys it with `free`."""
        made = self.library.function("topic_partition_list_new")(c_int(4))
        for partition, offset in offsets.items():
            add = self.library.function("topic_partition_list_add")
            add(made, topic.encode(), c_int32(partition)).contents.offset = offset
        return made

    def free(self, partitions: Any) -> None:
        """Destroy a list."""
        destroy = self.library.function("topic_partition_list_destroy")
        destroy.restype = None
        destroy(partitions)

    def offsets(self, function: str, topic: str, partition: int, *more: Any) -> int:
        """Return the `committed` offset or `position` of a partition, or -1 if there is none."""
        asked = self.partitions(topic, {partition: -1001})
        try:
            self.call(function, asked, *more)
            return max(-1, int(asked.contents.elems[0].offset))
        finally:
            self.free(asked)

    def with_partitions(self, function: str, topic: str, offsets: dict[int, int]) -> None:
        """Call `assign` or `commit`. The latter waits for the result."""
        asked = self.partitions(topic, offsets)
        try:
            self.call(function, asked, *((c_int(0),) if function == "commit" else ()))
        finally:
            self.free(asked)

    def assigned(self) -> int:
        """Return the number of assigned partitions."""
        found = _LIST()
        self.call("assignment", byref(found))
        try:
            return int(found.contents.cnt)
        finally:
            self.free(found)

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the earliest and latest offset."""
        low, high = c_int64(), c_int64()
        wanted = (topic.encode(), c_int32(partition), byref(low), byref(high), c_int(_MS))
        self.call("query_watermark_offsets", *wanted)
        return low.value, high.value

    def close(self, *, is_consumer: bool) -> None:
        """Leave the group and close."""
        if is_consumer:
            self.call("consumer_close")
        destroy = self.library.function("destroy")
        destroy.restype = None
        destroy(self.pointer)

    def poll(self, milliseconds: int) -> tuple[Any, ...] | None:
        """Return (partition, offset, key, value, headers) of a record, or None."""
        found = self.library.function("consumer_poll")(self.pointer, c_int(milliseconds))
        if not found:
            return None
        try:
            return self._read(found)
        finally:
            destroy = self.library.function("message_destroy")
            destroy.restype = None
            destroy(found)

    def _read(self, found: Any) -> tuple[Any, ...] | None:
        message = found.contents
        if message.err == ERR_PARTITION_EOF:
            self.eof[message.partition] = message.offset
            return None
        if message.err == ERR_TIMED_OUT:
            return None
        self.library.check(message.err)
        key = _bytes(message.key, message.key_len)
        value = _bytes(message.payload, message.len)
        return message.partition, message.offset, key, value, self._headers(found)

    def _headers(self, found: Any) -> list[tuple[str, bytes | None]]:
        headers = c_void_p()
        if self.library.function("message_headers")(found, byref(headers)):
            return []
        made: list[tuple[str, bytes | None]] = []
        name, value, size = c_char_p(), c_void_p(), c_size_t()
        get = self.library.function("header_get_all")
        while not get(headers, c_size_t(len(made)), byref(name), byref(value), byref(size)):
            made.append(((name.value or b"").decode(), _bytes(value.value, size.value)))
        return made


def _bytes(pointer: int | None, size: int) -> bytes | None:
    return None if pointer is None else ctypes.string_at(pointer, size)
