"""The changes to topics, with their forms, previews and requests."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lacuna.console import formats
from lacuna.console.editing import Done, Edit, Effect, Field, Turn, agents_decide, check
from lacuna.console.messages import WRITTEN_PLACES, bounds_of, cursor, place_of
from lacuna.console.rights import Rights
from lacuna.console.site import BadRequest, Needs
from lacuna.console.topics import topic_named
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.topic_configs import TOPIC_CONFIGS, effective
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.column_layout import BinaryColumn
from lacuna.logstore.records.encoding import murmur2_partitions
from lacuna.operating.changing import with_unit
from lacuna.operating.exchanges.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
)
from lacuna.wire.messages import topics as wire
from lacuna.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from lacuna.wire.messages.produce import (
    PRODUCE_REQUEST,
    PRODUCE_RESPONSE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

_TOPIC_RESOURCE: Final = 2
_SET, _UNSET = 0, 1
_TIMEOUT_MS: Final = 5_000
_COMMITTED: Final = 1
_CONFIGS_HINT: Final = "One NAME=VALUE per line, such as retention.ms=7d or max.message.bytes=2MiB."


def _on_topic(operation: Operation) -> Needs:
    """Require permission for an operation on the topic in the address. A hidden topic counts as missing."""

    def needs(rights: Rights, path: Mapping[str, Any]) -> None:
        if rights.topic(path["topic"]):
            rights.check_topic(path["topic"], operation)

    return needs


async def _topic_of(turn: Turn) -> Topic:
    return await topic_named(turn.site, turn.request, _name_of(turn))


def _name_of(turn: Turn) -> str:
    name: str = turn.request.path_params["topic"]
    return name


def _page_of(turn: Turn) -> str:
    return f"/topics/{_name_of(turn)}"


# --- create a topic ---


async def _new_fields(_turn: Turn) -> Sequence[Field]:
    return (
        Field(name="name", label="Name"),
        Field(
            name="partitions",
            label="Partitions",
            kind="number",
            value="1",
            hint="You can raise the number later, but not lower it.",
        ),
        Field(name="configs", label="Configs", kind="lines", hint=_CONFIGS_HINT, is_required=False),
    )


async def _create(turn: Turn, *, validate_only: bool) -> wire.CreatableTopicResult:
    configs = [
        wire.CreatableTopicConfig(*each) for each in _configs_in(turn.text("configs")).items()
    ]
    name, partitions = turn.text("name"), turn.number("partitions")
    topic = wire.CreatableTopic(name, partitions, replication_factor=-1, configs=configs)
    response = await turn.ask(
        *CREATE_TOPICS, wire.CreateTopicsRequest([topic], _TIMEOUT_MS, validate_only)
    )
    (result,) = response.topics
    check(result.error_code, f"topic {name}", result.error_message)
    return result


async def _preview_new(turn: Turn) -> Effect:
    result = await _create(turn, validate_only=True)
    configs = _configs_in(turn.text("configs"))
    return Effect(
        sentences=[f"Creates the topic {result.name}. Partitions: {turn.number('partitions')}."],
        headings=("Config", "Value", "Default"),
        rows=[(name, value, TOPIC_CONFIGS[name].default) for name, value in configs.items()],
    )


async def _apply_new(turn: Turn) -> Done:
    result = await _create(turn, validate_only=False)
    return Done(f"Created the topic {result.name}.", f"/topics/{result.name}")


# --- change its configs ---


async def _config_fields(turn: Turn) -> Sequence[Field]:
    topic = await _described(turn)
    return (
        Field(
            name="configs",
            label="Configs that are set",
            kind="lines",
            value="\n".join(f"{name}={value}" for name, value in sorted(topic.configs.items())),
            hint=f"{_CONFIGS_HINT} If you remove a line, its config returns to its default.",
            is_required=False,
        ),
    )


async def _described(turn: Turn) -> Topic:
    """Return the topic, provided that the visitor may see its configs."""
    topic = await _topic_of(turn)
    turn.rights.check_topic(topic.name, Operation.DESCRIBE_CONFIGS)
    return topic


async def _preview_configs(turn: Turn) -> Effect:
    topic = await _described(turn)
    wanted = _configs_in(turn.text("configs"))
    changes = {name: value for name, value in wanted.items() if topic.configs.get(name) != value}
    unset = [name for name in topic.configs if name not in wanted]
    if not changes and not unset:
        raise BadRequest("These are the current values. Nothing would change.")
    await _alter(turn, changes, unset, validate_only=True)
    return Effect(
        sentences=[f"Changes these configs of {topic.name}."],
        headings=("Config", "Now", "Then"),
        rows=[
            (name, effective(topic.configs, name), effective(changes, name))
            for name in sorted({*changes, *unset})
        ],
        pins={
            "changes": "\n".join(f"{name}={value}" for name, value in changes.items()),
            "unset": "\n".join(unset),
        },
    )


async def _apply_configs(turn: Turn) -> Done:
    changes, unset = _configs_in(turn.text("changes")), turn.text("unset").split()
    await _alter(turn, changes, unset, validate_only=False)
    return Done(f"Changed the configs of {_name_of(turn)}.", _page_of(turn))


async def _alter(
    turn: Turn, changes: Mapping[str, str], unset: Sequence[str], *, validate_only: bool
) -> None:
    configs = [AlterableConfig(name, _SET, value) for name, value in changes.items()]
    configs += [AlterableConfig(name, _UNSET, None) for name in unset]
    resource = AlterConfigsResource(_TOPIC_RESOURCE, _name_of(turn), configs)
    response = await turn.ask(
        *INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource], validate_only)
    )
    (result,) = response.responses
    check(result.error_code, f"configs of {_name_of(turn)}", result.error_message)


def _configs_in(text: str) -> dict[str, str]:
    """Parse NAME=VALUE lines, and convert the values to the configs' units. Raises BadRequest."""
    configs: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise BadRequest(f"{line[:80]!r} is not a config: enter NAME=VALUE")
        key, number = with_unit(name, value)
        configs[key] = number
    return configs


# --- add partitions ---


async def _partition_fields(turn: Turn) -> Sequence[Field]:
    topic = await _topic_of(turn)
    return (
        Field(
            name="count",
            label="Partitions",
            kind="number",
            value=str(topic.partition_count + 1),
            hint=f"The new number of partitions, currently {topic.partition_count}. You cannot lower it later.",
        ),
    )


async def _raise_partitions(turn: Turn, *, validate_only: bool) -> int:
    name, count = _name_of(turn), turn.number("count")
    wanted = wire.CreatePartitionsTopic(name, count, None)
    response = await turn.ask(
        *CREATE_PARTITIONS, wire.CreatePartitionsRequest([wanted], _TIMEOUT_MS, validate_only)
    )
    (result,) = response.results
    check(result.error_code, f"partitions of {name}", result.error_message)
    return count


async def _preview_partitions(turn: Turn) -> Effect:
    topic = await _topic_of(turn)
    count = await _raise_partitions(turn, validate_only=True)
    keys = (
        "After the change, producers write most keys to different partitions than before. "
        "For such a key, only records written after the change are in order."
    )
    first = (
        f"Raises the number of partitions of {topic.name} from {topic.partition_count} to {count}."
    )
    return Effect(sentences=[first, keys])


async def _apply_partitions(turn: Turn) -> Done:
    count = await _raise_partitions(turn, validate_only=False)
    return Done(f"{_name_of(turn)} now has {count} partitions.", _page_of(turn))


# --- trim a topic ---


async def _trim_fields(turn: Turn) -> Sequence[Field]:
    await _topic_of(turn)
    return (
        Field(name="before", label="Delete the records before", hint=f"{WRITTEN_PLACES}."),
        Field(
            name="partition",
            label="Partition",
            kind="number",
            hint="Leave empty for all partitions.",
            is_required=False,
        ),
    )


async def _preview_trim(turn: Turn) -> Effect:
    topic = await _topic_of(turn)
    count, chosen = topic.partition_count, turn.number("partition", -1)
    if chosen >= count:
        raise BadRequest(f"{topic.name} has partitions 0 to {count - 1}, not {chosen}")
    partitions = range(count) if chosen < 0 else [chosen]
    bounds = await bounds_of(turn.site, topic, partitions, _COMMITTED)
    places, starts = (
        await place_of(turn.site, turn.request, bounds, turn.text("before")),
        bounds.starts,
    )
    moved = {each: at for each, at in places.items() if at > starts[each]}
    if not moved:
        raise BadRequest("There are no records before this position. Nothing would be deleted.")
    dropped = formats.number(sum(at - starts[each] for each, at in moved.items()))
    return Effect(
        sentences=[
            f"Deletes the records of {topic.name} at {dropped} offsets. This cannot be undone."
        ],
        headings=("Partition", "Current log start", "New log start", "Offsets deleted"),
        rows=[(str(each), starts[each], at, at - starts[each]) for each, at in moved.items()],
        pins={"partitions": ".".join(map(str, moved)), "offsets": cursor(moved)},
        is_destructive=True,
    )


async def _apply_trim(turn: Turn) -> Done:
    # The confirmation's token guarantees these offsets.
    pinned = (map(int, turn.text(each).split(".")) for each in ("partitions", "offsets"))
    partitions = [wire.DeleteRecordsPartition(*each) for each in zip(*pinned, strict=True)]
    wanted = wire.DeleteRecordsTopic(_name_of(turn), partitions)
    response = await turn.ask(*DELETE_RECORDS, wire.DeleteRecordsRequest([wanted], _TIMEOUT_MS))
    for result in response.topics[0].partitions:
        check(result.error_code, f"{_name_of(turn)} [{result.partition_index}]")
    return Done(f"Trimmed {_name_of(turn)}. Partitions: {len(partitions)}.", _page_of(turn))


# --- delete a topic ---


async def _delete_fields(turn: Turn) -> Sequence[Field]:
    topic = await _topic_of(turn)
    return (Field(name="name", label=f"Enter {topic.name} to confirm"),)


async def _preview_delete(turn: Turn) -> Effect:
    topic = await _topic_of(turn)
    if turn.text("name") != topic.name:
        raise BadRequest(f"This is not the name of the topic: enter {topic.name}")
    bounds = await bounds_of(turn.site, topic, range(topic.partition_count), _COMMITTED)
    size = formats.size(sum(state.size for state in bounds.states.values()))
    kept = sum(bounds.high_watermarks.values()) - sum(bounds.starts.values())
    about = (
        f"Deletes the topic {topic.name} with its records ({formats.number(kept)} offsets, {size}), its configs, and "
        "the offsets that groups have committed in it. This cannot be undone."
    )
    return Effect(sentences=[about], pins={"id": topic.topic_id.hex()}, is_destructive=True)


async def _apply_delete(turn: Turn) -> Done:
    topic = await _topic_of(turn)
    if topic.topic_id.hex() != turn.text("id"):
        raise BadRequest(f"{topic.name} was deleted and created again in the meantime")
    wanted = wire.DeleteTopicState(None, topic.topic_id)
    response = await turn.ask(
        *DELETE_TOPICS, wire.DeleteTopicsRequest([wanted], timeout_ms=_TIMEOUT_MS)
    )
    (result,) = response.responses
    check(result.error_code, f"topic {topic.name}", result.error_message)
    return Done(f"Deleted the topic {topic.name}.", "/topics")


# --- produce a record ---


async def _record_fields(turn: Turn) -> Sequence[Field]:
    await _topic_of(turn)
    return (
        Field(name="key", label="Key", is_required=False),
        Field(name="value", label="Value", kind="lines", is_required=False),
        Field(name="is_null", label="null instead of a value (a tombstone)", kind="check"),
        Field(
            name="headers",
            label="Headers",
            kind="lines",
            hint="One NAME: VALUE per line.",
            is_required=False,
        ),
        Field(
            name="partition",
            label="Partition",
            kind="number",
            hint="If empty, the key determines the partition, as in Kafka's clients.",
            is_required=False,
        ),
    )


async def _produce(turn: Turn) -> Done:
    topic = await _topic_of(turn)
    key = turn.given.get("key", "").encode() or None
    # Forms send line ends as CR LF.
    value = turn.given.get("value", "").replace("\r\n", "\n").encode()
    record = NewRecord(
        offset_delta=0,
        timestamp=turn.site.sources.now_ms(),
        key=key,
        value=None if turn.text("is_null") else value,
        headers=_headers_in(turn.text("headers")),
    )
    partition = turn.number("partition", _partition_of(key, topic.partition_count))
    batch = memoryview(BatchToWrite(records=(record,)).encode())
    data = TopicProduceData(topic.name, partition_data=[PartitionProduceData(partition, batch)])
    response = await turn.ask(
        PRODUCE_REQUEST,
        PRODUCE_RESPONSE,
        9,
        ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[data]),
    )
    (result,) = response.responses[0].partition_responses
    check(result.error_code, f"{topic.name} [{partition}]", result.error_message)
    return Done(
        f"The record has offset {result.base_offset} in partition {partition}.",
        f"/topics/{topic.name}/{partition}/messages?from={result.base_offset}&count=1",
    )


def _headers_in(text: str) -> tuple[tuple[bytes, bytes], ...]:
    headers = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(f"{line[:80]!r} is not a header: enter NAME: VALUE")
        headers.append((name.strip().encode(), value.strip().encode()))
    return tuple(headers)


def _partition_of(key: bytes | None, count: int) -> int:
    """Return the partition that Kafka's clients would choose for a key."""
    if key is None:
        return 0
    return murmur2_partitions(BinaryColumn(None, array("i", [0, len(key)]), key), 1, count)[0]


EDITS: Final = (
    Edit(
        path="/edit/topic",
        title="Create a topic",
        button="Create",
        needs=agents_decide,
        fields=_new_fields,
        preview=_preview_new,
        apply=_apply_new,
        on="topics",
        back=lambda _: "/topics",
    ),
    Edit(
        path="/edit/topics/{topic}/record",
        title="Produce a record",
        button="Produce",
        needs=_on_topic(Operation.WRITE),
        fields=_record_fields,
        apply=_produce,
        on="topic",
        back=_page_of,
    ),
    Edit(
        path="/edit/topics/{topic}/configs",
        title="Change configs",
        button="Change",
        needs=_on_topic(Operation.ALTER_CONFIGS),
        fields=_config_fields,
        preview=_preview_configs,
        apply=_apply_configs,
        on="topic",
        back=_page_of,
    ),
    Edit(
        path="/edit/topics/{topic}/partitions",
        title="Add partitions",
        button="Add",
        needs=_on_topic(Operation.ALTER),
        fields=_partition_fields,
        preview=_preview_partitions,
        apply=_apply_partitions,
        on="topic",
        back=_page_of,
    ),
    Edit(
        path="/edit/topics/{topic}/trim",
        title="Trim",
        button="Delete these records",
        needs=_on_topic(Operation.DELETE),
        fields=_trim_fields,
        preview=_preview_trim,
        apply=_apply_trim,
        on="topic",
        back=_page_of,
    ),
    Edit(
        path="/edit/topics/{topic}/delete",
        title="Delete the topic",
        button="Delete the topic",
        needs=_on_topic(Operation.DELETE),
        fields=_delete_fields,
        preview=_preview_delete,
        apply=_apply_delete,
        on="topic",
        back=_page_of,
    ),
)
