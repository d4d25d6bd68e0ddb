"""Topics and their configs."""

import pytest

from controlplane import machine
from controlplane.errors import ErrorCode
from controlplane.topic_configs import TOPIC_CONFIGS, InvalidConfig, alter, check_config, effective
from controlplane.v1.cluster_pb2 import (
    AlterTopicConfigs,
    ClusterDelta,
    ConfigChange,
    CreatePartitions,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopics,
    DeleteTopics,
)
from tests.controlplane.state.cluster import Cluster

NAME_LIMIT = "n" * 249


@pytest.mark.parametrize(
    ("name", "partition_count", "code", "words"),
    [
        ("a", -1, "NONE", ""),
        (NAME_LIMIT, 1, "NONE", ""),
        ("A-1_x.y", 10_000, "NONE", ""),
        ("", 1, "INVALID_TOPIC_EXCEPTION", "is empty"),
        (".", 1, "INVALID_TOPIC_EXCEPTION", "'.' or '..'"),
        ("..", 1, "INVALID_TOPIC_EXCEPTION", "'.' or '..'"),
        (NAME_LIMIT + "n", 1, "INVALID_TOPIC_EXCEPTION", "longer than 249"),
        ("a/b", 1, "INVALID_TOPIC_EXCEPTION", "ASCII"),
        ("a\n", 1, "INVALID_TOPIC_EXCEPTION", "ASCII"),
        ("ä", 1, "INVALID_TOPIC_EXCEPTION", "ASCII"),
        ("old", 1, "TOPIC_ALREADY_EXISTS", "already exists"),
        ("o_l.d", 1, "INVALID_TOPIC_EXCEPTION", "'o.l_d'"),
        ("a", 0, "INVALID_PARTITIONS", "was 0"),
        ("a", -2, "INVALID_PARTITIONS", "was -2"),
        ("a", 10_001, "INVALID_PARTITIONS", "10000"),
    ],
)
def test_create_topic_rules(name: str, partition_count: int, code: str, words: str) -> None:
    cluster = Cluster()
    cluster.create("old")
    cluster.create("o.l_d")
    wanted = CreateTopic(name=name, partition_count=partition_count)
    result = cluster.do("create_topics", CreateTopics(topics=[wanted])).topics[0]
    assert ErrorCode(result.error_code).name == code
    assert words in result.error_message
    assert (result.name, bool(result.topic_id)) == (name, code == "NONE")
    cluster.check()


def test_names_given_twice_all_fail_and_the_others_are_created() -> None:
    cluster = Cluster()
    machine.take_changes(cluster.state)
    wanted = [CreateTopic(name=name, partition_count=-1) for name in ("a", "b", "a", "c.d", "c_d")]
    results = cluster.do("create_topics", CreateTopics(topics=wanted)).topics
    assert [ErrorCode(result.error_code).name for result in results] == [
        "INVALID_REQUEST",
        "NONE",
        "INVALID_REQUEST",
        "NONE",
        "INVALID_TOPIC_EXCEPTION",
    ]
    (delta,) = machine.take_changes(cluster.state)
    assert isinstance(delta, ClusterDelta)
    assert [(topic.name, topic.partition_count) for topic in delta.topics] == [("b", 1), ("c.d", 1)]
    assert [topic.name for topic in machine.cluster_snapshot(cluster.state).topics] == ["b", "c.d"]


def test_validate_only_creates_nothing() -> None:
    cluster = Cluster()
    before = machine.snapshot(cluster.state)
    wanted = CreateTopics(topics=[CreateTopic(name="a", partition_count=3)], validate_only=True)
    assert cluster.do("create_topics", wanted).topics[0].partition_count == 3
    assert machine.snapshot(cluster.state) == before


def test_delete_topics() -> None:
    cluster = Cluster()
    topic_id = cluster.create("a", 2)
    machine.take_changes(cluster.state)
    command = DeleteTopics(topic_ids=[topic_id, b"?" * 16, topic_id])
    results = cluster.do("delete_topics", command).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("a", 0),
        ("", ErrorCode.UNKNOWN_TOPIC_ID),
        ("", ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    (delta,) = machine.take_changes(cluster.state)
    assert isinstance(delta, ClusterDelta)
    assert list(delta.deleted_topic_ids) == [topic_id]
    assert cluster.state.partitions == {}
    assert cluster.create("a") != topic_id
    cluster.check()


@pytest.mark.parametrize(
    ("name", "count", "code", "words"),
    [
        ("a", 3, "NONE", ""),
        ("a", 2, "INVALID_PARTITIONS", "2 would not be an increase"),
        ("a", 1, "INVALID_PARTITIONS", "currently has 2"),
        ("a", 10_001, "INVALID_PARTITIONS", "at most 10000"),
        ("b", 3, "UNKNOWN_TOPIC_OR_PARTITION", "no topic b"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_create_partitions(
    name: str, count: int, code: str, words: str, validate_only: bool
) -> None:
    cluster = Cluster()
    cluster.create("a", 2)
    wanted = CreatePartitionsTopic(name=name, partition_count=count)
    command = CreatePartitions(topics=[wanted], validate_only=validate_only)
    result = cluster.do("create_partitions", command).topics[0]
    assert ErrorCode(result.error_code).name == code
    assert words in result.error_message
    grown = code == "NONE" and not validate_only
    assert len(cluster.state.topics_by_name["a"].partitions) == (3 if grown else 2)
    cluster.check()


def test_one_command_makes_ten_thousand_partitions_at_most() -> None:
    """As in Kafka: a request of some kilobytes cannot fill the memory of the control plane."""
    cluster = Cluster()
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
    cluster = Cluster()
    cluster.create("a")
    wanted = [CreatePartitionsTopic(name="a", partition_count=count) for count in (2, 3)]
    results = cluster.do("create_partitions", CreatePartitions(topics=wanted)).topics
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}


HONOURED = {
    "cleanup.policy": ["delete", "compact", "compact,delete", "delete,compact"],
    "compression.type": ["producer"],
    "max.message.bytes": ["0", "2147483647"],
    "message.timestamp.after.max.ms": ["0", "9223372036854775807"],
    "message.timestamp.before.max.ms": ["0", "9223372036854775807"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime"],
    "min.insync.replicas": ["1"],
    "retention.bytes": ["-1", "0", "9223372036854775807"],
    "retention.ms": ["-1", "0"],
    "segment.bytes": ["1048576", "52428800"],
    "unclean.leader.election.enable": ["false"],
}
REFUSED = [
    ("cleanup.policy", "compact,compact"),
    ("cleanup.policy", ""),
    ("compression.type", "zstd"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "1e6"),
    ("max.message.bytes", "1_000"),
    ("max.message.bytes", "2147483648"),
    ("message.timestamp.after.max.ms", "-1"),
    ("message.timestamp.before.max.ms", "9223372036854775808"),
    ("message.timestamp.type", "createtime"),
    ("min.insync.replicas", "2"),
    ("retention.ms", "-2"),
    ("retention.ms", "a week"),
    ("retention.ms", "9" * 5000),  # more digits than Python reads
    ("retention.ms", "٣"),
    ("min.insync.replicas", "1" * 40_000),
    ("segment.bytes", "1048575"),
    ("segment.ms", "1000"),
    ("no.such.config", "1"),
]


def test_every_config_in_the_table_is_documented_and_takes_its_default() -> None:
    assert set(HONOURED) == set(TOPIC_CONFIGS)
    for name, config in TOPIC_CONFIGS.items():
        assert config.name == name
        assert config.documentation.endswith(".")
        for value in [config.default, *HONOURED[name]]:
            check_config(name, value)


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_config_that_has_no_effect_is_refused(name: str, value: str) -> None:
    cluster = Cluster()
    wanted = CreateTopic(name="a", partition_count=1, configs={name: value})
    result = cluster.do("create_topics", CreateTopics(topics=[wanted])).topics[0]
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message.startswith(name)
    assert len(result.error_message) < 1000, "it fits into an answer, whatever was sent"
    assert cluster.state.topics == {}


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
    with pytest.raises(InvalidConfig, match="cannot append to"):
        alter({}, "retention.ms", 2, "1")
    with pytest.raises(InvalidConfig, match="cannot subtract from"):
        alter({}, "retention.ms", 3, "1")
    with pytest.raises(InvalidConfig, match="operation 4"):
        alter({}, "retention.ms", 4, "1")
    with pytest.raises(InvalidConfig, match="has no effect"):
        alter({}, "no.such", 2, "1")
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        alter({}, "cleanup.policy", 2, "forget")
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        alter({}, "cleanup.policy", 3, "delete")


def _alter(cluster: Cluster, name: str, *changes: ConfigChange, validate_only: bool = False) -> str:
    command = AlterTopicConfigs(name=name, changes=changes, validate_only=validate_only)
    answer = cluster.do("alter_topic_configs", command)
    return f"{ErrorCode(answer.error_code).name} {answer.error_message}".strip()


def test_alter_topic_configs_is_all_or_nothing() -> None:
    cluster = Cluster()
    cluster.create("a", retention_ms="7")
    good = ConfigChange(name="retention.bytes", value="9")
    bad = ConfigChange(name="cleanup.policy", value="forget")
    machine.take_changes(cluster.state)
    assert _alter(cluster, "a", good, bad).startswith("INVALID_CONFIG cleanup.policy")
    assert _alter(cluster, "b", good).startswith("UNKNOWN_TOPIC_OR_PARTITION")
    assert _alter(cluster, "a", good, good).startswith("INVALID_REQUEST")
    assert _alter(cluster, "a", good, validate_only=True) == "NONE"
    assert cluster.state.topics_by_name["a"].configs == {"retention.ms": "7"}
    assert machine.take_changes(cluster.state) == []
    assert _alter(cluster, "a", good) == "NONE"
    assert _alter(cluster, "a", good) == "NONE"
    (delta,) = machine.take_changes(cluster.state)
    assert isinstance(delta, ClusterDelta)
    assert dict(delta.topics[0].configs) == {"retention.ms": "7", "retention.bytes": "9"}
    cluster.check()
