"""Probes of configs: their names, types and accepted values, and the resources besides topics that have some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .batch import CODECS, batch
from .probing import Outcome, Target, error_of, probe
from .wire import Fields

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
#: Valid and invalid values that an operator might write, by config: for a topic, and for a group.
_VALUES = json.loads(Path(__file__).with_name("configs.json").read_text())


def _set(
    t: Target, kind: int, name: str, configs: list[tuple[str, str]], check: bool = True
) -> Any:
    rows = [{"name": key, "value": value} for key, value in configs]
    answer = t.call(
        "incremental_alter_configs",
        1,
        validate_only=check,
        resources=[{"resource_type": kind, "resource_name": name, "configs": rows}],
    )
    row = answer["responses"][0]
    return [error_of(row), row["error_message"]]


def _describe(t: Target, kind: int, name: str, **over: Any) -> Fields:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    row: Fields = t.call("describe_configs", 4, resources=[resource], **over)["results"][0]
    return row


@probe("configs")
def values(t: Target) -> Outcome:
    """The error and its message for valid and invalid values of every config of a topic."""
    topic = t.topic()
    out: dict[str, Any] = {
        f"{name}={value}": _set(t, TOPIC, topic, [(name, value)])
        for name, given in _VALUES["topic"].items()
        for value in given
    }
    lags = [("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "10")]
    out["lags that contradict each other"] = _set(t, TOPIC, topic, lags)
    return out


@probe("configs")
def as_shown(t: Target) -> Outcome:
    """How a new topic's configs are shown: value, type, read-only, sensitive, and whether they have documentation."""
    topic = t.topic()
    row = _describe(t, TOPIC, topic, include_synonyms=True, include_documentation=True)
    return {
        config["name"]: [
            config["value"],
            config["config_type"],
            config["read_only"],
            config["is_sensitive"],
            bool(config["documentation"]),
        ]
        for config in row["configs"]
    }


@probe("configs")
def stored_as(t: Target) -> Outcome:
    """Whether configs are shown as the broker parses them, not as they were written."""
    topic = t.topic()
    given = {
        "retention.ms": " 05 ",
        "preallocate": "TRUE",
        "max.message.bytes": "+7000",
        "compression.type": " gzip ",
    }
    wanted = set(given)
    error = _set(t, TOPIC, topic, list(given.items()), check=False)

    def shown() -> dict[str, Any]:
        rows = _describe(t, TOPIC, topic)["configs"]
        return {row["name"]: row["value"] for row in rows if row["name"] in wanted}

    while shown()["preallocate"] == "false":
        pass
    return [error, shown()]


@probe("configs")
def alter_all(t: Target) -> Outcome:
    """AlterConfigs, which resets all configs that it does not name to their defaults."""
    topic = t.topic(max_message_bytes=7000)

    def alter(name: str, *configs: tuple[str, str | None], version: int = 2) -> list[Any]:
        rows = [{"name": key, "value": value} for key, value in configs]
        answer = t.call(
            "alter_configs",
            version,
            resources=[{"resource_type": TOPIC, "resource_name": name, "configs": rows}],
        )
        row = answer["responses"][0]
        return [error_of(row), row["resource_name"] == name]

    def own() -> dict[str, str]:
        rows = _describe(t, TOPIC, topic)["configs"]
        return {row["name"]: row["value"] for row in rows if row["config_source"] == 1}

    out: dict[str, Any] = {"before": own()}
    out["null"] = alter(topic, ("retention.bytes", None))
    out["unknown config"] = alter(topic, ("no.such", "1"))
    out["a config twice"] = alter(topic, ("retention.ms", "1"), ("retention.ms", "2"))
    out["bad value"] = alter(topic, ("retention.ms", "many"))
    out["unknown topic"] = alter("nope", ("retention.ms", "1"))
    out["illegal topic"] = alter("a/b", ("retention.ms", "1"))
    out["then"] = own()
    for version in range(3):
        out[f"v{version}"] = alter(topic, ("retention.bytes", str(version + 1)), version=version)
        while "retention.ms" in own() or own()["retention.bytes"] != str(version + 1):
            pass
        out[f"after v{version}"] = own()
    out["nothing"] = alter(topic)
    while own():
        pass
    return out


@probe("configs")
def resources(t: Target) -> Outcome:
    """The resources besides topics that have configs."""
    topic = t.topic()
    broker = str(t.node_id())

    def listed(kinds: list[int]) -> list[Any]:
        answer = t.call("list_config_resources", 1, resource_types=kinds)
        rows = answer["config_resources"]
        return [
            error_of(answer),
            # Groups may be left over from another probe: Kafka lists them forever (see of_groups).
            sorted({row["resource_type"] for row in rows} - {GROUP}),
            [TOPIC, topic] in [[row["resource_type"], row["resource_name"]] for row in rows],
        ]

    def described(kind: int, name: str) -> str:
        return error_of(_describe(t, kind, name))

    metrics = _describe(t, CLIENT_METRICS, "any")["configs"]
    return {
        "all": listed([]),
        "topics": listed([TOPIC]),
        "brokers": listed([BROKER]),
        "loggers": listed([LOGGER]),
        "subscriptions": listed([CLIENT_METRICS]),
        "unknown type": listed([7]),
        "v0": error_of(t.call("list_config_resources", 0)),
        "describe a broker": described(BROKER, broker),
        "describe the brokers' defaults": described(BROKER, ""),
        "describe loggers": described(LOGGER, broker),
        "describe loggers of nobody": [described(LOGGER, name) for name in ("", "777", "x")],
        "describe a subscription": sorted([row["name"], row["value"]] for row in metrics),
        "describe no subscription": described(CLIENT_METRICS, ""),
        "describe a group": described(GROUP, "any"),
        "describe no group": described(GROUP, ""),
        "describe what is unknown": described(77, "x"),
        "alter what is unknown": _set(t, 77, "x", [("a", "b")]),
    }


@probe("configs")
def of_groups(t: Target) -> Outcome:
    """The configs of a group, which can be set even if the group does not exist."""
    group = t.name("g")
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    def own() -> dict[str, Any]:
        rows = _describe(t, GROUP, group, include_synonyms=True)["configs"]
        return {
            row["name"]: [
                row["value"],
                row["config_source"],
                row["config_type"],
                row["read_only"],
                [[each["value"], each["source"]] for each in row["synonyms"]],
            ]
            for row in rows
            if row["name"] in (session, interval)
        }

    def alter(operation: int, value: str | None) -> list[Any]:
        config = {"name": session, "config_operation": operation, "value": value}
        resource = {"resource_type": GROUP, "resource_name": group, "configs": [config]}
        answer = t.call("incremental_alter_configs", 1, resources=[resource])
        row = answer["responses"][0]
        return [error_of(row), row["error_message"]]

    def listed() -> bool:
        rows = t.call("list_config_resources", 1, resource_types=[GROUP])["config_resources"]
        return group in [row["resource_name"] for row in rows]

    out: dict[str, Any] = {
        f"{name}={value}": _set(t, GROUP, group, [(name, value)])
        for name, given in _VALUES["group"].items()
        for value in given
    }
    out["before"] = [own(), listed()]
    out["no name"] = _set(t, GROUP, "", [(session, "50000")])
    out["null"], out["append"], out["subtract"] = alter(0, None), alter(2, "1"), alter(3, "1")
    out["delete what is not set"] = alter(1, None)
    out["two"] = _set(t, GROUP, group, [(session, "50000"), (interval, " 06000 ")], check=False)
    while own()[interval][0] != "6000":
        pass
    out["then"], out["listed"] = own(), listed()
    out["one of two is wrong"] = _set(
        t, GROUP, group, [(session, "51000"), (interval, "1")], check=False
    )
    out["deleted"] = alter(1, None)
    while own()[session][0] != "45000":
        pass
    out["at last"] = own()
    return out


@probe("configs")
def of_groups_as_shown(t: Target) -> Outcome:
    """The configs of consumer and share groups: type, default, and the broker config with the default."""
    rows = _describe(t, GROUP, t.name("g"), include_synonyms=True)["configs"]
    return {
        row["name"]: [
            row["config_type"],
            row["synonyms"][-1]["value"],
            row["synonyms"][-1]["name"],
            row["read_only"],
        ]
        for row in rows
        if row["name"].startswith(("consumer.", "share."))
    }


#: The configs of brokers that Lacuna fixes when an agent starts.
FIXED = ("listener", "principal.builder.class", "sasl.", "ssl.")
#: Dynamic configs that Kafka's DescribeConfigs leaves out.
UNSHOWN = (
    "follower.replication.throttled.rate",
    "group.share.assignor.offload.enable",
    "group.streams.assignor.offload.enable",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


@probe("configs")
def of_brokers(t: Target) -> Outcome:
    """Every config that can be set while brokers run: type, default, and whether its default and other values may be
    set for all brokers, and for one.
    """
    broker = str(t.node_id())

    def verdicts(name: str, default: str) -> list[list[str]]:
        return [
            [_set(t, BROKER, who, [(name, value)])[0] for who in ("", broker)]
            for value in (default, "-7", "x")
        ]

    rows = _describe(t, BROKER, broker, include_synonyms=True)["configs"]
    shown = {
        row["name"]: [row["config_type"], row["synonyms"][-1]["value"] if row["synonyms"] else None]
        for row in rows
        if not row["read_only"] and not row["name"].startswith((*FIXED, *UNSHOWN))
    }
    out: dict[str, Any] = {
        name: [*row, verdicts(name, row[1] or "")] for name, row in shown.items()
    }
    out |= {name: verdicts(name, "1" if "rate" in name else "true") for name in UNSHOWN[:-1]}
    out["not dynamic"] = verdicts("log.dirs", "/x")
    out["no broker"] = _set(t, BROKER, "one", [("num.io.threads", "8")])[0]
    return out


@probe("configs")
def size_of_records(t: Target) -> Outcome:
    """max.decompressed.message.bytes: whether a batch may contain a record of a given size, by codec."""
    topic = t.topic(max_decompressed_message_bytes=1000)
    sizes = (993, 994, 5000)  # without seven bytes of a record that has neither key nor headers
    out: dict[str, Any] = {
        name: [t.verdict(topic, batch([b"v" * size], codec=codec)) for size in sizes]
        for name, codec in CODECS.items()
    }
    out["several"] = t.verdict(topic, batch([b"v" * 500] * 5, codec=CODECS["zstd"]))
    return out


@probe("configs")
def compression(t: Target) -> Outcome:
    """compression.type with max.message.bytes, which limits a batch both as sent and as stored."""
    values = [b"value %d " % number * 40 for number in range(50)]
    out: dict[str, Any] = {}
    for name in ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = t.topic(compression_type=name, max_message_bytes=6000)
        out[name] = {
            codec: t.verdict(topic, batch(values, codec=number)) for codec, number in CODECS.items()
        }
    return out
