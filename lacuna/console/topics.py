"""The page that lists all topics, and the page for one topic."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console.formats import in_units
from lacuna.console.sampling import TopicSize
from lacuna.console.site import NotThere, Paging, Site, rights_of
from lacuna.console.strip import Strip, Window, draw, open_from
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.shared.topic_configs import TOPIC_CONFIGS, effective
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.log_pb2 import PartitionState
from lacuna.operating.questions import current, producers_in, read_partitions

#: The number of a topic's partitions that are drawn, and the number of columns in each.
_DRAWN: Final = 16
_NARROW: Final = 120
#: The start of the documentation of each config that is accepted but has no effect.
_NO_EFFECT: Final = "No effect"


class TopicRow(NamedTuple):
    """A topic in the list. `rate` is in offsets per second, or None while it is not known."""

    topic: Topic
    size: TopicSize
    rate: float | None
    policy: str

    @property
    def name(self) -> str:
        return self.topic.name


_ORDERS: Final[Mapping[str, Callable[[TopicRow], tuple[float, str]]]] = {
    "name": lambda row: (0, row.name),
    "partitions": lambda row: (-row.topic.partition_count, row.name),
    "offsets": lambda row: (-row.size.retained, row.name),
    "size": lambda row: (-row.size.size, row.name),
    "rate": lambda row: (-(row.rate or 0), row.name),
    "waiting": lambda row: (-row.size.waiting, row.name),
}


async def page(site: Site, request: Request) -> Response:
    sample = await site.sampler.newest()
    rates = site.sampler.rates(sample)
    query = request.query_params
    wanted = query.get("q", "").strip()
    order = query.get("sort", "name")
    rights = rights_of(request)
    rows = [
        TopicRow(
            topic,
            sample.topics.get(topic.topic_id, TopicSize()),
            rates.get(topic.topic_id),
            effective(topic.configs, "cleanup.policy")
            if rights.topic(topic.name, Operation.DESCRIBE_CONFIGS)
            else "",
        )
        for topic in site.sources.control.cluster.topics_by_name.values()
        if wanted.lower() in topic.name.lower() and rights.topic(topic.name)
    ]
    rows.sort(key=_ORDERS.get(order, _ORDERS["name"]))
    paging = Paging.of(query, len(rows))
    return site.render(
        request,
        "topics.html",
        rows=rows[paging.first : paging.stop],
        paging=paging,
        q=wanted,
        sort=order if order in _ORDERS else "name",
        orders=list(_ORDERS),
        largest=max((row.size.size for row in rows), default=0),
        left_out=sample.left_out if rights.sees_cluster else 0,
        actions=site.actions_on("topics", request),
    )


class PartitionRow(NamedTuple):
    """A partition in the list, with its strip if one is drawn."""

    number: int
    state: PartitionState
    strip: Strip | None


class ConfigRow(NamedTuple):
    name: str
    value: str
    default: str
    is_set: bool
    meaning: str

    @property
    def value_in_units(self) -> str:
        return in_units(self.name, self.value)

    @property
    def default_in_units(self) -> str:
        return in_units(self.name, self.default)

    @property
    def has_effect(self) -> bool:
        """Whether Lacuna honours the config, or the config has been set."""
        return self.is_set or not self.meaning.startswith(_NO_EFFECT)


def configs_of(topic: Topic) -> list[ConfigRow]:
    return [
        ConfigRow(
            each.name,
            effective(topic.configs, each.name),
            each.default,
            each.name in topic.configs,
            each.documentation,
        )
        for each in TOPIC_CONFIGS.values()
    ]


async def topic_page(site: Site, request: Request) -> Response:
    topic = await find_topic(site, request)
    rights = rights_of(request)
    paging = Paging.of(request.query_params, topic.partition_count)
    indexes = range(paging.first, paging.stop)
    control = site.sources.control
    keys = [TopicPartition(topic_id=topic.topic_id, partition=index) for index in indexes]
    states = await read_partitions(control, keys)
    drawn = keys[:_DRAWN] if rights.topic(topic.name, Operation.READ) else []
    producers = await producers_in(control, drawn)
    strips: list[Strip | None] = [None] * len(keys)
    for at, (key, described) in enumerate(zip(drawn, producers, strict=True)):
        view = control.partition(key.topic_id, key.partition)
        await view.ready()
        if view.high_watermark:
            window = Window.of(view, 0, view.high_watermark, open_from(described.producers))
            strips[at] = await asyncio.to_thread(draw, window, _NARROW, _NARROW)
    may_see = rights.topic(topic.name, Operation.DESCRIBE_CONFIGS)
    return site.render(
        request,
        "topic.html",
        topic=topic,
        configs=configs_of(topic) if may_see else [],
        rows=[
            PartitionRow(index, state, strip)
            for index, state, strip in zip(indexes, states, strips, strict=True)
        ],
        paging=paging,
        actions=site.actions_on("topic", request, topic=topic.name),
        topic_id=show_id(topic.topic_id),
    )


async def find_topic(site: Site, request: Request) -> Topic:
    """Return the topic in the address. Raises NotThere, ControlPlaneUnavailable."""
    return await topic_named(site, request, request.path_params["topic"])


async def topic_named(site: Site, request: Request, name: str) -> Topic:
    """Return the topic with this name. Raises NotThere, ControlPlaneUnavailable."""
    found = (await current(site.sources.control)).topics_by_name.get(name)
    if found is None or not rights_of(request).topic(name):
        raise NotThere(f"The topic {name[:250]!r} does not exist.")
    return found


async def find_partition(site: Site, request: Request) -> tuple[Topic, int]:
    """Return the topic and partition in the address. Raises NotThere, ControlPlaneUnavailable."""
    topic = await find_topic(site, request)
    index = int(request.path_params["partition"])
    if index >= topic.partition_count:
        raise NotThere(
            f"Topic {topic.name} has partitions 0 to {topic.partition_count - 1}, not {index}."
        )
    return topic, index
