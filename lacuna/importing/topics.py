"""Keeps the target's mirrors aligned with the source's topics: the same number of partitions, and the same configs."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import KAFKAS_OWN
from lacuna.controlplane.shared.topic_configs import (
    DELETE,
    MIRROR_SOURCE,
    SET,
    TOPIC_CONFIGS,
    InvalidConfig,
    check_config,
)
from lacuna.importing.cluster import (
    ClusterRefused,
    Kafka,
    TopicThere,
    in_parts,
    link_of,
    name_of,
)
from lacuna.importing.following import DELETED, RECREATED
from lacuna.wire.messages import configs as wire
from lacuna.wire.messages.topics import (
    CREATE_PARTITIONS_REQUEST,
    CREATE_PARTITIONS_RESPONSE,
    CREATE_TOPICS_REQUEST,
    CREATE_TOPICS_RESPONSE,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)

_TOPIC: Final = 2
#: The config source that DescribeConfigs returns for a config set on the topic itself.
_ON_TOPIC: Final = 1
_TIMEOUT_MS: Final = 30_000
_AT_ONCE: Final = 100
_NO_EFFECT: Final = "No effect"


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects topics by shell patterns; an empty `wanted` selects all."""

    wanted: Sequence[str] = ()
    left_out: Sequence[str] = ()

    def has(self, name: str) -> bool:
        """Whether a topic is selected. Kafka's internal topics never are."""
        if name in KAFKAS_OWN or any(fnmatchcase(name, each) for each in self.left_out):
            return False
        return not self.wanted or any(fnmatchcase(name, each) for each in self.wanted)

    def __str__(self) -> str:
        """Return the patterns, sorted, with `!` before those that exclude topics. Equal selections return equal
        strings.
        """
        return " ".join([*sorted(self.wanted), *(f"!{each}" for each in sorted(self.left_out))])


@dataclass(frozen=True, slots=True)
class Mirror:
    """A source topic and its copy, whose mirror.source is `link`."""

    there: TopicThere
    here: TopicThere
    link: str


@dataclass(slots=True)
class Aligned:
    """The mirrors by name, the reason for each topic that is not copied, and messages for the user."""

    mirrors: dict[str, Mirror] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


Configs = Mapping[str, wire.DescribeConfigsResourceResult]


class Topics:
    """Aligns the target's topics with the source's. Every call may be repeated."""

    def __init__(self, source: Kafka, target: Kafka, selection: Selection) -> None:
        self._source = source
        self._target = target
        self._selection = selection

    async def align(self) -> Aligned:
        """Create and alter topics in the target to match the source. Raises ClusterFailed, ClusterRefused."""
        if self._source.cluster_id == self._target.cluster_id:
            raise ClusterRefused(
                "the source is this same cluster: specify the cluster to copy from with --from"
            )
        there = await self._source.topics()
        here = await self._target.topics()
        wanted = {name: each for name, each in there.items() if self._selection.has(name)}
        configs_there = await topic_configs(self._source, list(wanted))
        configs_here = await topic_configs(self._target, list(here))
        links = {name: _link(each) for name, each in configs_here.items()}
        aligned = Aligned()
        missing: list[TopicThere] = []
        for name, topic in wanted.items():
            if name not in here:
                missing.append(topic)
            elif links.get(name) != link_of(self._source, topic):
                aligned.left[name] = self._why_not(links.get(name, ""))
        for name, link in links.items():
            is_ours = link.startswith(f"{self._source.cluster_id}/") and self._selection.has(name)
            if is_ours and name not in there:
                aligned.left[name] = DELETED
        await self._create(missing, configs_there, aligned)
        await self._adjust(wanted, here, configs_there, configs_here, aligned)
        here = await self._target.topics()
        for name, topic in wanted.items():
            if name in here and name not in aligned.left:
                aligned.mirrors[name] = Mirror(topic, here[name], link_of(self._source, topic))
        return aligned

    def _why_not(self, link: str) -> str:
        if not link:
            return "exists here but is not a mirror: it was promoted, or not created by an import, so it is left alone"
        if link.startswith(f"{self._source.cluster_id}/"):
            return RECREATED
        return f"exists here as a mirror of a different topic ({link}), so it is left alone"

    async def _create(
        self, missing: Sequence[TopicThere], configs: Mapping[str, Configs], aligned: Aligned
    ) -> None:
        for some in in_parts(missing, _AT_ONCE):
            topics = []
            for topic in some:
                values, notes = translate(configs.get(topic.name, {}))
                aligned.notes += [f"{topic.name}: {note}" for note in notes]
                values[MIRROR_SOURCE] = link_of(self._source, topic)
                given = [CreatableTopicConfig(*each) for each in sorted(values.items())]
                topics.append(CreatableTopic(topic.name, len(topic.leaders), -1, (), given))
            answer = await self._target.ask(
                CREATE_TOPICS_REQUEST,
                CREATE_TOPICS_RESPONSE,
                5,
                CreateTopicsRequest(topics, _TIMEOUT_MS),
            )
            for each in answer.topics:
                if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    why = each.error_message or name_of(each.error_code)
                    aligned.left[each.name] = f"cannot be created here: {why}"

    async def _adjust(
        self,
        wanted: Mapping[str, TopicThere],
        here: Mapping[str, TopicThere],
        configs_there: Mapping[str, Configs],
        configs_here: Mapping[str, Configs],
        aligned: Aligned,
    ) -> None:
        changes = []
        for name, topic in wanted.items():
            if name not in here or name in aligned.left:
                continue
            if len(topic.leaders) > len(here[name].leaders):
                await self._add_partitions(name, len(topic.leaders), aligned)
            altered = list(_changes(configs_there.get(name, {}), configs_here.get(name, {})))
            if altered:
                changes.append(wire.AlterConfigsResource(_TOPIC, name, altered))
        async for name, why in _refused(self._target, changes):
            aligned.notes.append(f"{name}: its configs were not changed: {why}")

    async def _add_partitions(self, name: str, count: int, aligned: Aligned) -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], _TIMEOUT_MS)
        answer = await self._target.ask(
            CREATE_PARTITIONS_REQUEST, CREATE_PARTITIONS_RESPONSE, 3, request
        )
        for each in answer.results:
            if each.error_code:
                why = each.error_message or name_of(each.error_code)
                aligned.left[name] = f"has {count} partitions at the source and fewer here: {why}"


async def topic_configs(cluster: Kafka, names: Sequence[str]) -> dict[str, Configs]:
    """Return the configs of topics that exist, by topic and config name. Raises ClusterRefused."""
    found: dict[str, Configs] = {}
    for some in in_parts(names, _AT_ONCE):
        request = wire.DescribeConfigsRequest(
            [wire.DescribeConfigsResource(_TOPIC, name, None) for name in some]
        )
        answer = await cluster.ask(
            wire.DESCRIBE_CONFIGS_REQUEST, wire.DESCRIBE_CONFIGS_RESPONSE, 4, request
        )
        for each in answer.results:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if each.error_code:
                raise ClusterRefused(
                    f"{cluster.what} did not return the configs of topic {each.resource_name}: "
                    f"{each.error_message or name_of(each.error_code)}"
                )
            found[each.resource_name] = {config.name: config for config in each.configs}
    return found


async def links_of(cluster: Kafka) -> dict[str, str]:
    """Return the mirror.source of each mirror in a cluster, by topic name."""
    topics = await cluster.topics()
    configs = await topic_configs(cluster, list(topics))
    return {name: link for name, each in configs.items() if (link := _link(each))}


async def promote(cluster: Kafka, names: Sequence[str]) -> None:
    """Let producers write to mirrors. Raises ClusterRefused."""
    change = [wire.AlterableConfig(MIRROR_SOURCE, DELETE, None)]
    changes = [wire.AlterConfigsResource(_TOPIC, name, change) for name in names]
    async for name, why in _refused(cluster, changes):
        raise ClusterRefused(f"topic {name} cannot be promoted: {why}")


async def _refused(
    cluster: Kafka, changes: Sequence[wire.AlterConfigsResource]
) -> AsyncIterator[tuple[str, str]]:
    """Alter configs, and yield each topic that rejected a change, with the reason."""
    for some in in_parts(changes, _AT_ONCE):
        answer = await cluster.ask(
            wire.INCREMENTAL_ALTER_CONFIGS_REQUEST,
            wire.INCREMENTAL_ALTER_CONFIGS_RESPONSE,
            1,
            wire.IncrementalAlterConfigsRequest(list(some)),
        )
        for each in answer.responses:
            if each.error_code:
                yield each.resource_name, each.error_message or name_of(each.error_code)


def translate(configs: Configs) -> tuple[dict[str, str], list[str]]:
    """Return the configs to set on a copy, and notes on those that have no effect, or no equivalent, in Lacuna.

    A value that the source's brokers set for all topics is included unless it is Lacuna's default.
    """
    values: dict[str, str] = {}
    without_effect, unknown = [], []
    for name, config in sorted(configs.items()):
        is_own = config.config_source == _ON_TOPIC
        ours = TOPIC_CONFIGS.get(name)
        if ours is None or name == MIRROR_SOURCE or config.value is None:
            unknown += [name] if is_own and name != MIRROR_SOURCE else []
            continue
        has_effect = not ours.documentation.startswith(_NO_EFFECT)
        if not is_own and (not has_effect or config.value == ours.default):
            continue
        try:
            values[name] = check_config(name, config.value)
        except InvalidConfig:
            unknown += [name] if is_own else []
            continue
        without_effect += [] if has_effect else [name]
    notes = []
    if unknown:
        notes.append(f"not copied, because Lacuna has no equivalent: {', '.join(unknown)}")
    if without_effect:
        notes.append(f"copied, but has no effect here: {', '.join(without_effect)}")
    return values, notes


def _changes(there: Configs, here: Configs) -> Iterator[wire.AlterableConfig]:
    wanted, _ = translate(there)
    own = {name: each.value for name, each in here.items() if each.config_source == _ON_TOPIC}
    for name, value in wanted.items():
        if own.get(name) != value:
            yield wire.AlterableConfig(name, SET, value)
    for name in own.keys() - wanted.keys() - {MIRROR_SOURCE}:
        yield wire.AlterableConfig(name, DELETE, None)


def _link(configs: Configs) -> str:
    found = configs.get(MIRROR_SOURCE)
    return "" if found is None else found.value or ""
