from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentReport(_message.Message):
    __slots__ = ("connections", "requests", "requests_failed", "cache_hits", "cache_lookups", "store", "clients", "connections_left_out", "merges", "clock_ms", "store_clock_ms")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FAILED_FIELD_NUMBER: _ClassVar[int]
    CACHE_HITS_FIELD_NUMBER: _ClassVar[int]
    CACHE_LOOKUPS_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    MERGES_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    STORE_CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    connections: int
    requests: int
    requests_failed: int
    cache_hits: int
    cache_lookups: int
    store: StoreCounts
    clients: _containers.RepeatedCompositeFieldContainer[ConnectedClients]
    connections_left_out: int
    merges: MergeCounts
    clock_ms: int
    store_clock_ms: int
    def __init__(self, connections: _Optional[int] = ..., requests: _Optional[int] = ..., requests_failed: _Optional[int] = ..., cache_hits: _Optional[int] = ..., cache_lookups: _Optional[int] = ..., store: _Optional[_Union[StoreCounts, _Mapping]] = ..., clients: _Optional[_Iterable[_Union[ConnectedClients, _Mapping]]] = ..., connections_left_out: _Optional[int] = ..., merges: _Optional[_Union[MergeCounts, _Mapping]] = ..., clock_ms: _Optional[int] = ..., store_clock_ms: _Optional[int] = ...) -> None: ...

class StoreCounts(_message.Message):
    __slots__ = ("puts", "gets", "heads", "lists", "deletes", "bytes_written", "bytes_read", "dollars", "prices")
    PUTS_FIELD_NUMBER: _ClassVar[int]
    GETS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    BYTES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    DOLLARS_FIELD_NUMBER: _ClassVar[int]
    PRICES_FIELD_NUMBER: _ClassVar[int]
    puts: int
    gets: int
    heads: int
    lists: int
    deletes: int
    bytes_written: int
    bytes_read: int
    dollars: float
    prices: str
    def __init__(self, puts: _Optional[int] = ..., gets: _Optional[int] = ..., heads: _Optional[int] = ..., lists: _Optional[int] = ..., deletes: _Optional[int] = ..., bytes_written: _Optional[int] = ..., bytes_read: _Optional[int] = ..., dollars: _Optional[float] = ..., prices: _Optional[str] = ...) -> None: ...

class ConnectedClients(_message.Message):
    __slots__ = ("name", "version", "connections", "client_ids", "hosts", "has_more_ids", "has_more_hosts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_IDS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_IDS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_HOSTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    connections: int
    client_ids: _containers.RepeatedScalarFieldContainer[str]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    has_more_ids: bool
    has_more_hosts: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., connections: _Optional[int] = ..., client_ids: _Optional[_Iterable[str]] = ..., hosts: _Optional[_Iterable[str]] = ..., has_more_ids: _Optional[bool] = ..., has_more_hosts: _Optional[bool] = ...) -> None: ...

class MergeCounts(_message.Message):
    __slots__ = ("merges", "failures", "last_failure", "last_failure_ms")
    MERGES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_MS_FIELD_NUMBER: _ClassVar[int]
    merges: int
    failures: int
    last_failure: str
    last_failure_ms: int
    def __init__(self, merges: _Optional[int] = ..., failures: _Optional[int] = ..., last_failure: _Optional[str] = ..., last_failure_ms: _Optional[int] = ...) -> None: ...
