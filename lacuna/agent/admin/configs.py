"""Configs as DescribeConfigs and CreateTopics show them: values, sources and documentation.

Topic configs come from controlplane/shared/topic_configs.py, and group configs from
controlplane/shared/group_configs.py. An agent's configs are its settings, under Kafka's names where those exist, and
the configs in controlplane/shared/broker_configs.py, which are the only ones that can be altered. The levels of its
loggers are read-only. All client metrics subscriptions show the same values.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lacuna.agent.context import AgentContext
from lacuna.agent.security.listeners import DEFAULT_NAME
from lacuna.base.setting import LARGEST_INT, Setting, as_text, settings_of
from lacuna.controlplane.shared.broker_configs import (
    DYNAMIC,
    LOG_DIR,
    MAX_CONNECTIONS_PER_IP,
    TOPIC_CONFIG_OF,
    broker_name,
    can_be_set,
    of_broker,
)
from lacuna.controlplane.shared.config_values import ConfigType
from lacuna.controlplane.shared.group_configs import GROUP_CONFIGS, GroupConfig
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.shared.topic_configs import TOPIC_CONFIGS, TopicConfig
from lacuna.controlplane.v1.cluster_pb2 import Agent, Endpoint
from lacuna.logstore.compiled import interpreted
from lacuna.wire.messages.configs import DescribeConfigsSynonym as Synonym

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
DYNAMIC_LOGGER, DYNAMIC_GROUP = 6, 8
_UNKNOWN_TYPE = 0
_LOG4J = (
    (logging.CRITICAL, "FATAL"),
    (logging.ERROR, "ERROR"),
    (logging.WARNING, "WARN"),
    (logging.INFO, "INFO"),
    (logging.DEBUG, "DEBUG"),
)

#: A config that Kafka does not have.
KERNEL: Final = "lacuna.kernel"

# Kafka shows no broker synonym for these: the broker config does not exist, is in hours, or has no value.
_OF_TOPICS_ALONE = frozenset(
    {
        "errors.deadletterqueue.group.enable",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.ms",
        "segment.jitter.ms",
        "segment.ms",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConfig:
    """A config of a resource. The first synonym, if any, is in effect. `value` is None if the config is not set."""

    name: str
    value: str | None
    source: int
    is_read_only: bool = True
    type: int
    documentation: str = ""
    synonyms: tuple[Synonym, ...] = ()


def of_topic(own: Mapping[str, str], of_brokers: Mapping[str, str]) -> Iterable[ShownConfig]:
    """Yield all configs of a topic. `own` holds those set on the topic, and `of_brokers` those set for all brokers."""
    for config in TOPIC_CONFIGS.values():
        name = broker_name(config.name)
        synonyms = []
        if config.name in own:
            value = own[config.name]
            synonyms.append(Synonym(config.name, value, DYNAMIC_TOPIC))
        if name in of_brokers:
            value = of_brokers[name]
            synonyms.append(Synonym(name, value, DYNAMIC_DEFAULT_BROKER))
        if config.name not in _OF_TOPICS_ALONE:
            synonyms.append(Synonym(name, config.default, DEFAULT))
        yield _settable(config, synonyms)


def _settable(config: TopicConfig | GroupConfig, synonyms: Sequence[Synonym]) -> ShownConfig:
    in_effect = [*synonyms, Synonym(config.name, config.default, DEFAULT)][0]
    return ShownConfig(
        name=config.name,
        value=in_effect.value,
        source=in_effect.source,
        is_read_only=False,
        type=config.type,
        documentation=config.documentation,
        synonyms=tuple(synonyms),
    )


def of_agent(context: AgentContext, agent: Agent) -> Iterable[ShownConfig]:
    """Return the configs of `agent`, sorted by name.

    Only the addresses, node ids and zones of other agents are known. Their settings are assumed to equal this agent's.
    """
    endpoints = agent.endpoints or [
        Endpoint(listener=DEFAULT_NAME, host=agent.host, port=agent.port)
    ]
    advertised = ",".join(f"{each.listener}://{each.host}:{each.port}" for each in endpoints)
    shown = [
        _static("advertised.listeners", ConfigType.STRING, advertised),
        _static(
            "authorizer.class.name",
            ConfigType.STRING,
            context.access.settings.authorizer,
            "How requests are authorized: by ACLs under the rules of Kafka's StandardAuthorizer, "
            "or not at all.",
        ),
        _static("broker.id", ConfigType.INT, str(agent.node_id)),
        _static(
            KERNEL,
            ConfigType.STRING,
            "interpreted" if interpreted() else "compiled",
            "Whether the code that processes records is compiled. Interpreted code is much slower.",
        ),
        _static(
            "log.dirs", ConfigType.STRING, LOG_DIR, "The object store, which all agents share."
        ),
        _default(
            "default.replication.factor",
            ConfigType.INT,
            "1",
            "There are no replicas: records are in the object store before they are acknowledged.",
        ),
        _static("delete.topic.enable", ConfigType.BOOLEAN, "true"),
        _static(
            "group.coordinator.rebalance.protocols",
            ConfigType.LIST,
            "classic,consumer",
            "The supported group protocols: classic, and consumer (KIP-848).",
        ),
        _static("node.id", ConfigType.INT, str(agent.node_id)),
        *_group_bounds(),
        *_topic_defaults(),
        _default(MAX_CONNECTIONS_PER_IP, ConfigType.INT, str(LARGEST_INT), ""),
        *(
            _default(each.name, each.type, each.default, each.documentation)
            for each in DYNAMIC.values()
        ),
        *_settings(context.settings, context.fetch.settings, context.produce.settings),
    ]
    rack = _static("broker.rack", ConfigType.STRING, agent.zone)
    shown = [rack if config.name == rack.name else config for config in shown]
    security = context.control.cluster.security
    for dynamic in (of_all_agents(security), _of_one(security, str(agent.node_id))):
        are_set = {each.name: each for each in dynamic}
        shown = [_with_dynamic(each, are_set.pop(each.name, None)) for each in shown]
        shown += are_set.values()
    return sorted(shown, key=lambda config: config.name)


def of_all_agents(security: Security) -> Iterable[ShownConfig]:
    return _dynamic(of_broker(security.configs, ""), DYNAMIC_DEFAULT_BROKER)


def _of_one(security: Security, broker: str) -> Iterable[ShownConfig]:
    return _dynamic(of_broker(security.configs, broker), DYNAMIC_BROKER)


def _dynamic(configs: Mapping[str, str], source: int) -> Iterable[ShownConfig]:
    for name, value in configs.items():
        config = DYNAMIC.get(name) or TOPIC_CONFIGS.get(TOPIC_CONFIG_OF.get(name, ""))
        yield ShownConfig(
            name=name,
            value=value,
            source=source,
            is_read_only=False,
            type=ConfigType.INT if config is None else config.type,
            documentation="" if config is None else config.documentation,
            synonyms=(Synonym(name, value, source),),
        )


def _with_dynamic(shown: ShownConfig, dynamic: ShownConfig | None) -> ShownConfig:
    """Override an agent's config with the value set for this agent or for all agents, if there is one."""
    if dynamic is None:
        return replace(shown, is_read_only=not can_be_set(shown.name))
    return replace(
        dynamic,
        documentation=shown.documentation,
        synonyms=(*dynamic.synonyms, *shown.synonyms),
    )


def _settings(*parts: object) -> Iterable[ShownConfig]:
    for part in parts:
        for name, row in settings_of(type(part)).items():
            value = getattr(part, name)
            show = _default if value == row.default else _static
            yield show(row.key, _type_of(row), as_text(value), row.documentation)


def _type_of(row: Setting) -> ConfigType:
    if isinstance(row.default, bool):
        return ConfigType.BOOLEAN
    if isinstance(row.default, str):
        return ConfigType.STRING
    return ConfigType.INT if row.most <= LARGEST_INT else ConfigType.LONG


def _group_bounds() -> Iterable[ShownConfig]:
    """Yield the default and the bounds of each group config, under the names of Kafka's broker configs."""
    for config in GROUP_CONFIGS.values():
        if config.bounds is None:
            continue
        if config.broker_name not in DYNAMIC:
            yield _default(config.broker_name, config.type, config.default, config.documentation)
        for bound, value in config.bounds.names_of(config.name):
            text = f"A limit on a group's {config.name}."
            yield _default(bound, ConfigType.INT, str(value), text)


def _topic_defaults() -> Iterable[ShownConfig]:
    """Yield the default of each topic config, under the names of Kafka's broker configs."""
    for name, topic_config in TOPIC_CONFIG_OF.items():
        config = TOPIC_CONFIGS[topic_config]
        if topic_config not in _OF_TOPICS_ALONE:
            yield _default(name, config.type, config.default, config.documentation)
            continue
        # Kafka shows no default for these: they have none, or it comes from a config in hours.
        yield ShownConfig(
            name=name,
            value=None,
            source=DEFAULT,
            is_read_only=False,
            type=config.type,
            documentation=config.documentation,
        )


def of_loggers() -> Iterable[ShownConfig]:
    names = [name for name in logging.root.manager.loggerDict if name.startswith("lacuna")]
    levels = {"root": logging.root.level}
    levels.update((name, logging.getLogger(name).getEffectiveLevel()) for name in sorted(names))
    for name, level in levels.items():
        yield ShownConfig(
            name=name,
            value=_log4j_level(level),
            source=DYNAMIC_LOGGER,
            type=_UNKNOWN_TYPE,
        )


def _log4j_level(level: int) -> str:
    return next((name for least, name in _LOG4J if level >= least), "TRACE")


def _static(
    name: str, kind: ConfigType, value: str, documentation: str = "", source: int = STATIC_BROKER
) -> ShownConfig:
    return ShownConfig(
        name=name,
        value=value,
        source=source,
        type=kind,
        documentation=documentation,
        synonyms=(Synonym(name, value, source),),
    )


def _default(name: str, kind: ConfigType, value: str, documentation: str) -> ShownConfig:
    return _static(name, kind, value, documentation, DEFAULT)


#: The configs of every client metrics subscription: no metrics are collected (docs/adr/0017).
CLIENT_METRICS = [
    _default(
        "interval.ms",
        ConfigType.INT,
        "300000",
        "How often clients request their subscription; no metrics are collected.",
    ),
    _default("match", ConfigType.LIST, "", "No metrics are collected."),
    _default("metrics", ConfigType.LIST, "", "No metrics are collected."),
]


def of_group(configs: Mapping[str, str]) -> Iterable[ShownConfig]:
    """Yield all configs of a group. `configs` holds those that are set."""
    for config in GROUP_CONFIGS.values():
        synonyms = [Synonym(config.broker_name, config.default, DEFAULT)]
        if config.name in configs:
            value = configs[config.name]
            synonyms.insert(0, Synonym(config.name, value, DYNAMIC_GROUP))
        yield _settable(config, synonyms)
