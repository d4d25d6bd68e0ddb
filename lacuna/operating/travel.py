"""The records of a topic that a read_committed consumer could see at a past time, and those visible since then."""

from collections.abc import Sequence
from dataclasses import dataclass

from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlClient, not_known, read_as_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.behind import behind
from lacuna.operating import questions
from lacuna.operating.control import topic_named


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPartition:
    """A partition at `as_of_ms`. `end_then` is its end (exclusive) at that time, and `end_now` is its present end.

    `left` records below `end_then` still exist; `new` records have become visible since.
    """

    partition: int
    as_of_ms: int
    log_start_offset: int
    end_then: int
    end_now: int
    left: int
    new: int


async def travel(control: ControlClient, topic: str, at_ms: int) -> Sequence[PastPartition]:
    """Return a topic's partitions at a past time, or at the last known time before it.

    Raises UserError if the topic does not exist or its state at that time is not known, and ControlPlaneUnavailable.
    """
    found = topic_named(await questions.current(control), topic)
    keys = [(found.topic_id, index) for index in range(found.partition_count)]
    past = await read_as_of(control, keys, at_ms)
    if not past.is_known:
        raise UserError(not_known(topic, past.known_from_ms))
    partitions: list[PastPartition] = []
    for key, then in past.partitions.items():
        view = control.partition(*key)
        await view.ready()
        if then.error_code != ErrorCode.NONE or view.is_deleted:
            raise UserError(f"topic {topic!r} was deleted while it was being read")
        start, stable = view.log_start_offset, view.last_stable_offset
        end = then.end_offset
        partitions.append(
            PastPartition(
                partition=key[1],
                as_of_ms=past.as_of_ms,
                log_start_offset=start,
                end_then=end,
                end_now=stable,
                left=behind(view, start, end).offsets if start < end else 0,
                new=behind(view, end).offsets,
            )
        )
    return partitions
