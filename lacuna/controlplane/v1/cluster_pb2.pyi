from lacuna.controlplane.v1 import security_pb2 as _security_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicPartition(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class PartitionCounts(_message.Message):
    __slots__ = ("topic_ids", "partition_counts")
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNTS_FIELD_NUMBER: _ClassVar[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    partition_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_ids: _Optional[_Iterable[bytes]] = ..., partition_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class Outcomes(_message.Message):
    __slots__ = ("error_code", "error_codes")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODES_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_codes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error_code: _Optional[int] = ..., error_codes: _Optional[_Iterable[int]] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("node_id", "host", "port", "zone", "endpoints")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    host: str
    port: int
    zone: str
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    def __init__(self, node_id: _Optional[int] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., zone: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("listener", "host", "port")
    LISTENER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    listener: str
    host: str
    port: int
    def __init__(self, listener: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("topic_id", "name", "partition_count", "configs", "inherited")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    INHERITED_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    name: str
    partition_count: int
    configs: _containers.ScalarMap[str, str]
    inherited: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic_id: _Optional[bytes] = ..., name: _Optional[str] = ..., partition_count: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ..., inherited: _Optional[_Iterable[str]] = ...) -> None: ...

class ClusterDelta(_message.Message):
    __slots__ = ("version", "is_snapshot", "cluster_id", "topics", "deleted_topic_ids", "has_agents", "agents", "hidden_lease_ids", "hidden_agents", "lease_ids", "leaving_node_ids", "agent_processes", "peer_secret", "internal_topics", "security", "principal")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELETED_TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    HAS_AGENTS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_AGENTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    AGENT_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    PEER_SECRET_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SECURITY_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    version: int
    is_snapshot: bool
    cluster_id: str
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    deleted_topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    has_agents: bool
    agents: _containers.RepeatedCompositeFieldContainer[Agent]
    hidden_lease_ids: _containers.RepeatedScalarFieldContainer[int]
    hidden_agents: _containers.RepeatedCompositeFieldContainer[Agent]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    leaving_node_ids: _containers.RepeatedScalarFieldContainer[int]
    agent_processes: int
    peer_secret: bytes
    internal_topics: _containers.RepeatedScalarFieldContainer[int]
    security: _security_pb2.SecurityChanges
    principal: str
    def __init__(self, version: _Optional[int] = ..., is_snapshot: _Optional[bool] = ..., cluster_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., deleted_topic_ids: _Optional[_Iterable[bytes]] = ..., has_agents: _Optional[bool] = ..., agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ..., hidden_lease_ids: _Optional[_Iterable[int]] = ..., hidden_agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ..., lease_ids: _Optional[_Iterable[int]] = ..., leaving_node_ids: _Optional[_Iterable[int]] = ..., agent_processes: _Optional[int] = ..., peer_secret: _Optional[bytes] = ..., internal_topics: _Optional[_Iterable[int]] = ..., security: _Optional[_Union[_security_pb2.SecurityChanges, _Mapping]] = ..., principal: _Optional[str] = ...) -> None: ...

class RegisterAgent(_message.Message):
    __slots__ = ("host", "port", "zone", "endpoints", "clock_ms", "store_clock_ms")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    STORE_CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    zone: str
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    clock_ms: int
    store_clock_ms: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ..., zone: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., clock_ms: _Optional[int] = ..., store_clock_ms: _Optional[int] = ...) -> None: ...

class AgentRegistered(_message.Message):
    __slots__ = ("error_code", "node_id", "lease_id", "lease_duration_ms", "cluster_id", "is_journal_shared")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    IS_JOURNAL_SHARED_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    node_id: int
    lease_id: int
    lease_duration_ms: int
    cluster_id: str
    is_journal_shared: bool
    def __init__(self, error_code: _Optional[int] = ..., node_id: _Optional[int] = ..., lease_id: _Optional[int] = ..., lease_duration_ms: _Optional[int] = ..., cluster_id: _Optional[str] = ..., is_journal_shared: _Optional[bool] = ...) -> None: ...

class OpenLease(_message.Message):
    __slots__ = ("duration_ms",)
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    duration_ms: int
    def __init__(self, duration_ms: _Optional[int] = ...) -> None: ...

class LeaseOpened(_message.Message):
    __slots__ = ("error_code", "lease_id", "lease_duration_ms", "cluster_id")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    lease_id: int
    lease_duration_ms: int
    cluster_id: str
    def __init__(self, error_code: _Optional[int] = ..., lease_id: _Optional[int] = ..., lease_duration_ms: _Optional[int] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class DescribeLeases(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeasesDescribed(_message.Message):
    __slots__ = ("next_lease_id", "lease_ids", "last_sequences")
    NEXT_LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    next_lease_id: int
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    last_sequences: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, next_lease_id: _Optional[int] = ..., lease_ids: _Optional[_Iterable[int]] = ..., last_sequences: _Optional[_Iterable[int]] = ...) -> None: ...

class RenewLease(_message.Message):
    __slots__ = ("lease_id", "is_leaving", "report", "import_report")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_LEAVING_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    IMPORT_REPORT_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    is_leaving: bool
    report: AgentReport
    import_report: ImportReport
    def __init__(self, lease_id: _Optional[int] = ..., is_leaving: _Optional[bool] = ..., report: _Optional[_Union[AgentReport, _Mapping]] = ..., import_report: _Optional[_Union[ImportReport, _Mapping]] = ...) -> None: ...

class LeaseRenewed(_message.Message):
    __slots__ = ("error_code", "is_journal_shared", "workers")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    IS_JOURNAL_SHARED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    is_journal_shared: bool
    workers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error_code: _Optional[int] = ..., is_journal_shared: _Optional[bool] = ..., workers: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeCluster(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentDescription(_message.Message):
    __slots__ = ("lease_id", "agent", "is_hidden", "report")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    IS_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    agent: Agent
    is_hidden: bool
    report: AgentReport
    def __init__(self, lease_id: _Optional[int] = ..., agent: _Optional[_Union[Agent, _Mapping]] = ..., is_hidden: _Optional[bool] = ..., report: _Optional[_Union[AgentReport, _Mapping]] = ...) -> None: ...

class ClusterDescribed(_message.Message):
    __slots__ = ("agents", "extents", "objects", "dead_ranges", "partitions_blocked", "oldest_transaction_ms", "importers")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    DEAD_RANGES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_BLOCKED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_TRANSACTION_MS_FIELD_NUMBER: _ClassVar[int]
    IMPORTERS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentDescription]
    extents: int
    objects: int
    dead_ranges: int
    partitions_blocked: int
    oldest_transaction_ms: int
    importers: _containers.RepeatedCompositeFieldContainer[ImporterDescription]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentDescription, _Mapping]]] = ..., extents: _Optional[int] = ..., objects: _Optional[int] = ..., dead_ranges: _Optional[int] = ..., partitions_blocked: _Optional[int] = ..., oldest_transaction_ms: _Optional[int] = ..., importers: _Optional[_Iterable[_Union[ImporterDescription, _Mapping]]] = ...) -> None: ...

class ImporterDescription(_message.Message):
    __slots__ = ("lease_id", "report")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    report: ImportReport
    def __init__(self, lease_id: _Optional[int] = ..., report: _Optional[_Union[ImportReport, _Mapping]] = ...) -> None: ...

class ReleaseLease(_message.Message):
    __slots__ = ("lease_id",)
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    def __init__(self, lease_id: _Optional[int] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "partition_count", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition_count: int
    configs: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., partition_count: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateTopics(_message.Message):
    __slots__ = ("topics", "validate_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[CreateTopic]
    validate_only: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[CreateTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class TopicResult(_message.Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "partition_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    error_code: int
    error_message: str
    partition_count: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., partition_count: _Optional[int] = ...) -> None: ...

class TopicResults(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicResult]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicResult, _Mapping]]] = ...) -> None: ...

class DeleteTopics(_message.Message):
    __slots__ = ("topic_ids",)
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, topic_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CreatePartitionsTopic(_message.Message):
    __slots__ = ("name", "partition_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition_count: int
    def __init__(self, name: _Optional[str] = ..., partition_count: _Optional[int] = ...) -> None: ...

class CreatePartitions(_message.Message):
    __slots__ = ("topics", "validate_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[CreatePartitionsTopic]
    validate_only: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[CreatePartitionsTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ConfigChange(_message.Message):
    __slots__ = ("name", "operation", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    operation: int
    value: str
    def __init__(self, name: _Optional[str] = ..., operation: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...

class AlterTopicConfigs(_message.Message):
    __slots__ = ("name", "changes", "validate_only", "replaces_all")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REPLACES_ALL_FIELD_NUMBER: _ClassVar[int]
    name: str
    changes: _containers.RepeatedCompositeFieldContainer[ConfigChange]
    validate_only: bool
    replaces_all: bool
    def __init__(self, name: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ConfigChange, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., replaces_all: _Optional[bool] = ...) -> None: ...

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

class ImportReport(_message.Message):
    __slots__ = ("source", "partitions", "stopped", "lag", "undecided", "bytes_copied", "segments", "topics")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    UNDECIDED_FIELD_NUMBER: _ClassVar[int]
    BYTES_COPIED_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    source: str
    partitions: int
    stopped: int
    lag: int
    undecided: int
    bytes_copied: int
    segments: int
    topics: str
    def __init__(self, source: _Optional[str] = ..., partitions: _Optional[int] = ..., stopped: _Optional[int] = ..., lag: _Optional[int] = ..., undecided: _Optional[int] = ..., bytes_copied: _Optional[int] = ..., segments: _Optional[int] = ..., topics: _Optional[str] = ...) -> None: ...

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
