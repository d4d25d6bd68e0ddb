"""Tests topics and their configs."""

import pytest

from lacuna.controlplane import machine
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import partition_of
from lacuna.controlplane.shared.topic_configs import (
    TOPIC_CONFIGS,
    InvalidConfig,
    alter,
    check_config,
    effective,
)
from lacuna.controlplane.state import segments
from lacuna.controlplane.state.groups import offsets
from lacuna.controlplane.v1.cluster_pb2 import (
    AlterTopicConfigs,
    ClusterDelta,
    ConfigChange,
    CreatePartitions,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopics,
    DeleteTopics,
    TopicPartition,
)
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, DeleteGroups, OffsetCommit
from lacuna.controlplane.v1.internal_pb2 import InternalPosition, ReadInternal
from lacuna.controlplane.verbs import housekeeping, topics
from tests.controlplane.verbs.cluster import Cluster, Unchecked
from tests.controlplane.verbs.script import run

NAME_LIMIT = "n" * 249


@pytest.mark.parametrize(
    ("name", "partition_count", "code", "words"),
    [
        ("a", -1, "NONE", ""),
        (NAME_LIMIT, 1, "NONE", ""),
        ("A-1_x.y", 3, "NONE", ""),
        pytest.param("a", 10_000, "NONE", "", marks=pytest.mark.slow),
        ("", 1, "INVALID_TOPIC_EXCEPTION", "the empty string is not allowed"),
        (".", 1, "INVALID_TOPIC_EXCEPTION", "' is not allowed"),
        ("..", 1, "INVALID_TOPIC_EXCEPTION", "' is not allowed"),
        (NAME_LIMIT + "n", 1, "INVALID_TOPIC_EXCEPTION", "longer than the max allowed length 249"),
        ("a/b", 1, "INVALID_TOPIC_EXCEPTION", "ASCII"),
        ("a\n", 1, "INVALID_TOPIC_EXCEPTION", "ASCII"),
        ("ä", 1, "INVALID_TOPIC_EXCEPTION", "ASCII"),
        ("__consumer_offsets", 50, "TOPIC_ALREADY_EXISTS", "already exists"),
        ("__transaction_state", 50, "TOPIC_ALREADY_EXISTS", "already exists"),
        ("__share_group_state", 50, "INVALID_TOPIC_EXCEPTION", "is an internal topic of Kafka"),
        ("old", 1, "TOPIC_ALREADY_EXISTS", "already exists"),
        ("o_l.d", 1, "INVALID_TOPIC_EXCEPTION", "collides with existing topic: o.l_d"),
        ("a", 0, "INVALID_PARTITIONS", "non-positive"),
        ("a", -2, "INVALID_PARTITIONS", "non-positive"),
        ("a", 10_001, "INVALID_PARTITIONS", "10000"),
    ],
)
def test_create_topic_rules(name: str, partition_count: int, code: str, words: str) -> None:
    cluster = run("topic old 1")
    cluster.create("o.l_d")
    wanted = CreateTopic(name=name, partition_count=partition_count)
    result = cluster.do("create_topics", CreateTopics(topics=[wanted])).topics[0]
    assert ErrorCode(result.error_code).name == code
    assert words in result.error_message
    assert (result.name, bool(result.topic_id)) == (name, code == "NONE")
    cluster.check()


def test_names_given_twice_all_fail_and_the_others_are_created() -> None:
    cluster = Cluster()
    cluster.state.take_changes()
    wanted = [CreateTopic(name=name, partition_count=-1) for name in ("a", "b", "a", "c.d", "c_d")]
    results = cluster.do("create_topics", CreateTopics(topics=wanted)).topics
    assert [ErrorCode(result.error_code).name for result in results] == [
        "INVALID_REQUEST",
        "NONE",
        "INVALID_REQUEST",
        "NONE",
        "INVALID_TOPIC_EXCEPTION",
    ]
    (delta,) = cluster.state.take_changes()
    assert isinstance(delta, ClusterDelta)
    assert [(topic.name, topic.partition_count) for topic in delta.topics] == [("b", 1), ("c.d", 1)]
    assert [topic.name for topic in cluster.state.cluster_snapshot().topics] == ["b", "c.d"]


def test_validate_only_creates_nothing() -> None:
    cluster = Cluster()
    before = machine.snapshot(cluster.state)
    wanted = CreateTopics(topics=[CreateTopic(name="a", partition_count=3)], validate_only=True)
    assert cluster.do("create_topics", wanted).topics[0].partition_count == 3
    assert machine.snapshot(cluster.state) == before


def test_delete_topics() -> None:
    cluster = Cluster()
    topic_id = cluster.create("a", 2)
    cluster.state.take_changes()
    command = DeleteTopics(topic_ids=[topic_id, b"?" * 16, topic_id])
    results = cluster.do("delete_topics", command).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("a", 0),
        ("", ErrorCode.UNKNOWN_TOPIC_ID),
        ("", ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    (delta,) = cluster.state.take_changes()
    assert isinstance(delta, ClusterDelta)
    assert list(delta.deleted_topic_ids) == [topic_id]
    assert cluster.state.partitions == {}
    assert cluster.create("a") != topic_id
    cluster.check()


def test_many_partitions_are_deleted_by_several_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    sizes = {"a": 5, "b": 3, "c": 1, "d": 1}
    ids = [cluster.create(name, count) for name, count in sizes.items()]
    monkeypatch.setattr(topics, "MAX_NEW_PARTITIONS", 4)
    told = []
    while ids:
        results = cluster.do("delete_topics", DeleteTopics(topic_ids=ids)).topics
        told.append([result.name for result in results])
        ids = ids[len(results) :]
    assert told == [["a"], ["b", "c"], ["d"]]
    assert not cluster.state.topics


def test_very_many_offsets_that_go_get_no_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of __consumer_offsets no longer see the offsets either."""
    monkeypatch.setattr(offsets, "MOST_BURIED", 3)
    cluster = Cluster()
    topic_ids = [cluster.create(name, 4) for name in "ab"]
    for group_id in ("g", "h"):
        committed = [
            CommittedOffset(partition=TopicPartition(topic_id=each, partition=index), offset=1)
            for each in topic_ids
            for index in range(4)
        ]
        commit = OffsetCommit(group_id=group_id, generation_id=-1, offsets=committed)
        cluster.do("offset_commit", commit)
    position = InternalPosition(partition=partition_of("g"), max_bytes=9_999)

    def read() -> list[tuple[str, bool]]:
        message = ReadInternal(positions=[position], max_bytes=9_999)
        entries = cluster.do("read_internal", message).partitions[0].entries
        return [(each.key.topic, each.HasField("committed")) for each in entries]

    assert read() == [("a", True)] * 4 + [("b", True)] * 4
    cluster.do("delete_topics", DeleteTopics(topic_ids=topic_ids[:1]))
    assert read() == [("b", True)] * 4 + [("a", False)] * 3
    cluster.do("delete_groups", DeleteGroups(group_ids=["g", "h"]))
    assert read() == [("a", False)] * 3 + [("b", False)] * 3
    assert cluster.state.groups.offsets.size == 0
    cluster.check()


def test_what_a_large_topic_leaves_is_released_by_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "RELEASED_AT_ONCE", 3)
    monkeypatch.setattr(housekeeping, "RELEASED_PER_TICK", 3)
    cluster = Cluster()
    topic_id = cluster.create("a", 2)
    for _ in range(4):
        cluster.put("a-0")
        cluster.put("a-1")
    cluster.do("delete_topics", DeleteTopics(topic_ids=[topic_id]))
    assert len(cluster.state.segments.releasing) == 8
    assert cluster.tick() == ["segments_released"]
    cluster.check()  # also that a snapshot holds what still waits
    monkeypatch.setattr(housekeeping, "MOST_REPLACED", 3)
    assert cluster.tick() == [], "too many wait to be collected"
    monkeypatch.setattr(housekeeping, "MOST_REPLACED", 4)
    assert cluster.tick() == ["segments_released"]
    monkeypatch.setattr(housekeeping, "MOST_REPLACED", 9)
    assert cluster.tick() == ["segments_released"]
    assert not len(cluster.state.segments.releasing)
    assert len(cluster.state.segments.replaced) == 8
    cluster.check()


@pytest.mark.parametrize(
    ("name", "count", "code", "words"),
    [
        ("a", 3, "NONE", ""),
        ("a", 2, "INVALID_PARTITIONS", "already has 2 partition(s)"),
        ("a", 1, "INVALID_PARTITIONS", "currently has 2"),
        ("a", 10_001, "INVALID_PARTITIONS", "at most 10000"),
        ("b", 3, "UNKNOWN_TOPIC_OR_PARTITION", "'b' does not exist"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_create_partitions(
    name: str, count: int, code: str, words: str, validate_only: bool
) -> None:
    cluster = run("topic a 2")
    wanted = CreatePartitionsTopic(name=name, partition_count=count)
    command = CreatePartitions(topics=[wanted], validate_only=validate_only)
    result = cluster.do("create_partitions", command).topics[0]
    assert ErrorCode(result.error_code).name == code
    assert words in result.error_message
    grown = code == "NONE" and not validate_only
    assert len(cluster.state.topics_by_name["a"].partitions) == (3 if grown else 2)
    cluster.check()


@pytest.mark.slow
def test_one_command_makes_ten_thousand_partitions_at_most() -> None:
    """As in Kafka, a request of a few kilobytes cannot fill the control plane's memory."""
    cluster = Unchecked()
    cluster.create("old")
    names = [f"t{number}" for number in range(4)]
    wanted = [CreateTopic(name=name, partition_count=2_501) for name in names]
    refused = cluster.do("create_topics", CreateTopics(topics=wanted)).topics
    assert {ErrorCode(each.error_code).name for each in refused} == {"POLICY_VIOLATION"}
    assert "send several" in refused[0].error_message
    wanted = [CreateTopic(name=name, partition_count=2_500) for name in names]
    created = cluster.do("create_topics", CreateTopics(topics=wanted)).topics
    assert {each.error_code for each in created} == {0}
    grown = [CreatePartitionsTopic(name=name, partition_count=5_001) for name in names]
    refused = cluster.do("create_partitions", CreatePartitions(topics=grown)).topics
    assert {ErrorCode(each.error_code).name for each in refused} == {"POLICY_VIOLATION"}
    assert len(cluster.state.partitions) == 10_001
    grown = [CreatePartitionsTopic(name=name, partition_count=5_000) for name in names]
    created = cluster.do("create_partitions", CreatePartitions(topics=grown)).topics
    assert {each.error_code for each in created} == {0}


def test_create_partitions_of_one_topic_twice() -> None:
    cluster = run("topic a 1")
    wanted = [CreatePartitionsTopic(name="a", partition_count=count) for count in (2, 3)]
    results = cluster.do("create_partitions", CreatePartitions(topics=wanted)).topics
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}


#: value as it is given -> as it is stored, where that is something else.
TAKEN: dict[str, list[str | tuple[str, str]]] = {
    "cleanup.policy": [
        "compact",
        "compact,delete",
        ("delete, compact,,delete", "delete,compact"),
        ("", ""),
    ],
    "compression.gzip.level": ["-1", "1", "9"],
    "compression.lz4.level": ["1", "17"],
    "compression.type": ["uncompressed", "zstd", "lz4", "snappy", (" gzip ", "gzip")],
    "compression.zstd.level": ["-131072", "0", "22"],
    "delete.retention.ms": ["0", "9223372036854775807"],
    "errors.deadletterqueue.group.enable": ["true", "false"],
    "file.delete.delay.ms": ["0"],
    "flush.messages": ["1"],
    "flush.ms": ["0"],
    "follower.replication.throttled.replicas": ["*", "0:1,1:1"],
    "index.interval.bytes": ["0"],
    "leader.replication.throttled.replicas": [("0:1, 1:2", "0:1,1:2")],
    "local.retention.bytes": ["-2", "7"],
    "local.retention.ms": ["-2", "7"],
    "max.compaction.lag.ms": ["1"],
    "max.decompressed.message.bytes": ["1", "2147483639"],
    "max.message.bytes": ["0", "2147483647", ("+5", "5")],
    "message.timestamp.after.max.ms": ["0", "9223372036854775807"],
    "message.timestamp.before.max.ms": ["0", "9223372036854775807"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime"],
    "min.cleanable.dirty.ratio": ["0.0", "1.0", (".5", "0.5"), ("1e-1", "0.1")],
    "min.compaction.lag.ms": ["0", "9223372036854775807"],
    "min.insync.replicas": ["1", "2"],
    "mirror.source": ["", "a-Z_9/b.c", (" a/b ", "a/b")],
    "preallocate": ["false", ("TRUE", "true")],
    "remote.copy.lag.bytes": ["0"],
    "remote.copy.lag.ms": ["-1"],
    "remote.log.copy.disable": ["true"],
    "remote.log.delete.on.disable": ["true"],
    "remote.storage.enable": ["false"],
    "retention.bytes": ["-1", "-7", "0", "9223372036854775807"],
    "retention.ms": ["-1", "0", (" 05 ", "5")],
    "segment.bytes": ["1048576", "52428800"],
    "segment.index.bytes": ["4"],
    "segment.jitter.ms": ["0"],
    "segment.ms": ["1"],
    "unclean.leader.election.enable": ["false", "true"],
}
# As Apache Kafka 4.1 answered, but where a number has more digits than it says anything about.
REFUSED = [
    ("cleanup.policy", "shred", "String must be one of: compact, delete"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("compression.lz4.level", "99", "Value must be no more than 17"),
    (
        "compression.type",
        "zip",
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    ("delete.retention.ms", "-1", "Value must be at least 0"),
    ("flush.ms", "-1", "Value must be at least 0"),
    ("max.compaction.lag.ms", "0", "Value must be at least 1"),
    ("max.message.bytes", "-1", "Value must be at least 0"),
    ("max.message.bytes", "1e6", "Not a number of type INT"),
    ("max.message.bytes", "1_000", "Not a number of type INT"),
    ("max.message.bytes", "2147483648", "Not a number of type INT"),
    ("message.timestamp.before.max.ms", "9223372036854775808", "Not a number of type LONG"),
    ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
    ("min.cleanable.dirty.ratio", "2", "Value must be no more than 1"),
    ("min.cleanable.dirty.ratio", "-1", "Value must be at least 0"),
    ("min.cleanable.dirty.ratio", "half", "Not a number of type DOUBLE"),
    ("min.insync.replicas", "0", "Value must be at least 1"),
    ("min.insync.replicas", "1" * 40_000, "Not a number of type INT"),
    ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
    ("remote.storage.enable", "yes", "Expected value to be either true or false"),
    ("retention.ms", "-2", "Value must be at least -1"),
    ("retention.ms", "many", "Not a number of type LONG"),
    ("retention.ms", "9" * 5000, "Not a number of type LONG"),  # more digits than Python reads
    ("retention.ms", "٣", "Not a number of type LONG"),
    ("segment.bytes", "1", "Value must be at least 1048576"),
    ("segment.ms", "0", "Value must be at least 1"),
    ("leader.replication.throttled.replicas", "x", "it must be the literal '*' or a list"),
]
UNKNOWN = ["no.such.config", "message.timestamp.difference.max.ms", "message.format.version"]


def test_every_config_in_the_table_is_documented_and_takes_its_default() -> None:
    assert set(TAKEN) == set(TOPIC_CONFIGS)
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    for name, config in TOPIC_CONFIGS.items():
        assert config.name == name
        assert config.documentation.endswith(".")
        assert check_config(name, config.default) == config.default
        for each in TAKEN[name]:
            given, stored = each if isinstance(each, tuple) else (each, each)
            assert check_config(name, given) == stored


def _create(configs: dict[str, str]) -> tuple[Cluster, str]:
    cluster = Cluster()
    wanted = CreateTopic(name="a", partition_count=1, configs=configs)
    result = cluster.do("create_topics", CreateTopics(topics=[wanted])).topics[0]
    return cluster, f"{ErrorCode(result.error_code).name} {result.error_message}".strip()


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED)
def test_a_value_that_kafka_refuses_is_refused(name: str, value: str, reason: str) -> None:
    cluster, said = _create({name: value})
    shown = value if len(value) <= 100 else value[:100] + "…"
    assert said.startswith(
        f"INVALID_CONFIG Invalid value {shown} for configuration {name}: {reason}"
    )
    assert cluster.state.topics == {}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_config_is_refused(name: str) -> None:
    cluster, said = _create({name: "1"})
    assert said == f"INVALID_CONFIG Unknown topic config name: {name}"
    assert cluster.state.topics == {}


def test_values_are_stored_as_they_are_shown() -> None:
    cluster, said = _create({"retention.ms": " 05 ", "cleanup.policy": "delete , compact"})
    assert said == "NONE"
    configs = {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert cluster.state.topics_by_name["a"].configs == configs
    cluster.check()


def test_configs_that_contradict_each_other_are_refused() -> None:
    """This also holds if one of them was already set."""
    sentence = (
        "INVALID_CONFIG conflict topic config setting min.compaction.lag.ms (100) > "
        "max.compaction.lag.ms (10)"
    )
    assert _create({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"})[1] == sentence
    cluster, said = _create({"min.compaction.lag.ms": "100"})
    assert said == "NONE"
    most = ConfigChange(name="max.compaction.lag.ms", value="10")
    least = ConfigChange(name="min.compaction.lag.ms", value="1")
    assert _alter(cluster, "a", most) == sentence
    assert _alter(cluster, "a", most, least) == "NONE"
    cluster.check()


def test_alter_configs_as_incremental_alter_configs() -> None:
    configs: dict[str, str] = {}
    configs = alter(configs, "retention.ms", 0, "5")
    assert effective(configs, "retention.ms") == "5"
    configs = alter(configs, "cleanup.policy", 2, "delete")
    assert configs == {"retention.ms": "5", "cleanup.policy": "delete"}
    configs = alter(configs, "cleanup.policy", 3, "compact")
    assert configs["cleanup.policy"] == "delete"
    configs = alter(configs, "cleanup.policy", 2, "compact")
    assert configs["cleanup.policy"] == "delete,compact"
    configs = alter(alter(configs, "retention.ms", 1, ""), "cleanup.policy", 1, "")
    assert configs == {}
    assert effective(configs, "retention.ms") == "604800000"
    with pytest.raises(InvalidConfig, match="Can't APPEND to key"):
        alter({}, "retention.ms", 2, "1")
    with pytest.raises(InvalidConfig, match="Can't SUBTRACT to key"):
        alter({}, "retention.ms", 3, "1")
    with pytest.raises(InvalidConfig, match="operation 4"):
        alter({}, "retention.ms", 4, "1")
    with pytest.raises(InvalidConfig, match=r"Unknown topic config name: no\.such"):
        alter({}, "no.such", 2, "1")
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        alter({}, "cleanup.policy", 2, "forget")
    assert alter({}, "cleanup.policy", 3, "delete") == {"cleanup.policy": ""}
    assert alter({}, "no.such", 1, "") == {}, "as in Kafka"


def test_a_list_does_not_grow_for_ever() -> None:
    name = "leader.replication.throttled.replicas"
    configs: dict[str, str] = {}
    for first in range(0, 4000, 1000):
        configs = alter(
            configs, name, 2, ",".join(f"{each}:1" for each in range(first, first + 1000))
        )
    with pytest.raises(InvalidConfig, match="exceeds the maximum value size of 32767 bytes"):
        alter(configs, name, 2, ",".join(f"{each}:1" for each in range(4000, 6000)))
    assert alter(configs, name, 2, "0:1") == configs
    assert alter(configs, name, 3, configs[name]) == {name: ""}


def _alter(
    cluster: Cluster,
    name: str,
    *changes: ConfigChange,
    validate_only: bool = False,
    replaces_all: bool = False,
) -> str:
    command = AlterTopicConfigs(
        name=name, changes=changes, validate_only=validate_only, replaces_all=replaces_all
    )
    answer = cluster.do("alter_topic_configs", command)
    return f"{ErrorCode(answer.error_code).name} {answer.error_message}".strip()


def test_alter_topic_configs_is_all_or_nothing() -> None:
    cluster = Cluster()
    cluster.create("a", retention_ms="7")
    good = ConfigChange(name="retention.bytes", value="9")
    bad = ConfigChange(name="cleanup.policy", value="forget")
    cluster.state.take_changes()
    assert _alter(cluster, "a", good, bad).startswith("INVALID_CONFIG Invalid value forget")
    assert _alter(cluster, "b", good).startswith("UNKNOWN_TOPIC_OR_PARTITION")
    assert _alter(cluster, "a", good, good).startswith("INVALID_REQUEST")
    assert _alter(cluster, "a", good, validate_only=True) == "NONE"
    assert cluster.state.topics_by_name["a"].configs == {"retention.ms": "7"}
    assert cluster.state.take_changes() == []
    assert _alter(cluster, "a", good) == "NONE"
    assert _alter(cluster, "a", good) == "NONE"
    (delta,) = cluster.state.take_changes()
    assert isinstance(delta, ClusterDelta)
    assert dict(delta.topics[0].configs) == {"retention.ms": "7", "retention.bytes": "9"}
    cluster.check()


def test_alter_topic_configs_may_replace_all() -> None:
    """Configs that are not listed are reset to their defaults (AlterConfigs)."""
    cluster = Cluster()
    cluster.create("a", retention_ms="7")
    change = ConfigChange(name="retention.bytes", value="9")
    assert _alter(cluster, "a", change, replaces_all=True) == "NONE"
    assert cluster.state.topics_by_name["a"].configs == {"retention.bytes": "9"}
    assert _alter(cluster, "a", replaces_all=True) == "NONE"
    assert cluster.state.topics_by_name["a"].configs == {}
    cluster.check()
