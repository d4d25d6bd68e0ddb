"""Sends long commands in parts, and requests the rest of long answers (`lacuna.controlplane.shared.parts`).

Other commands may be decided between the parts, so a long answer may not reflect a single moment.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from lacuna.controlplane.shared.parts import ITEMS, LISTED, LISTS, MOST_ITEMS
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.groups_pb2 import OffsetFetchGroup

_Call = Callable[[Command], Awaitable[Reply]]
# Fields are accessed by name, so messages are typed as Any here.


async def call_in_parts(call: _Call, command: Command) -> Reply:
    """Send a command of any length, and return the complete reply. Raises the same errors as `call`."""
    verb = command.WhichOneof("verb")
    if verb in LISTS:
        return await _list(call, command, verb)
    if verb in ITEMS:
        return await _items(call, command, verb)
    return await call(command)


async def _list(call: _Call, command: Command, verb: str) -> Reply:
    whole = await call(command)
    found = last = _result(whole)
    while last.HasField("next_after"):
        part = _copy(command)
        getattr(part, verb).after = last.next_after
        last = _result(await call(part))
        getattr(found, LISTS[verb]).extend(getattr(last, LISTS[verb]))
    found.ClearField("next_after")
    return whole


async def _items(call: _Call, command: Command, verb: str) -> Reply:
    field, answers_field = ITEMS[verb]
    asked = getattr(getattr(command, verb), field)
    items = [piece for each in asked for piece in _pieces(each)]
    stop = _room(items, 0)
    whole = await call(command if stop == len(items) else _part(command, verb, items[:stop]))
    told = getattr(_result(whole), answers_field)
    while told and (done := len(told) - _goes_on(verb, told)) < len(items):
        part = _part(command, verb, items[done : _room(items, done)])
        if done < len(told):
            _resume(part, verb, told[-1])
        reply = await call(part)
        more = list(getattr(_result(reply), answers_field))
        if not more:  # rejected as a whole
            return reply
        if done < len(told):
            _join(told[-1], more.pop(0), LISTED[verb])
        told.extend(more)
    if len(items) > len(asked) and told:
        _put_together(told, asked)
    return whole


def _pieces(item: Any) -> Iterator[Any]:
    """Yield the item or, if it names too many partitions, several items that each name some of them."""
    if not isinstance(item, OffsetFetchGroup) or len(item.partitions) <= MOST_ITEMS:
        yield item
        return
    for start in range(0, len(item.partitions), MOST_ITEMS):
        piece = OffsetFetchGroup(
            group_id=item.group_id,
            member_id=item.member_id,
            member_epoch=item.member_epoch,
            partitions=item.partitions[start : start + MOST_ITEMS],
        )
        yield piece


def _put_together(told: Any, asked: Sequence[OffsetFetchGroup]) -> None:
    """Merge the answers about parts of a group into one answer per group. An error applies to the whole group."""
    answers = iter(list(told))
    del told[:]
    for group in asked:
        whole = next(answers)
        for _ in range(len(list(_pieces(group))) - 1):
            _join(whole, next(answers), "offsets")
        if whole.error_code:
            del whole.offsets[:]
        told.append(whole)


def _room(items: Sequence[Any], start: int) -> int:
    """Return the index after the last item that fits into the part that begins with item `start`."""
    left = MOST_ITEMS
    for index in range(start, len(items)):
        each = items[index]
        left -= max(1, len(each.partitions)) if isinstance(each, OffsetFetchGroup) else 1
        if left < 0:
            return max(index, start + 1)
    return len(items)


def _goes_on(verb: str, told: Any) -> bool:
    """Whether the rest of the answer still has to be requested."""
    return verb in LISTED and told[-1].HasField("next_after")


def _resume(part: Command, verb: str, last: Any) -> None:
    if verb == "describe_producers":
        part.describe_producers.after = last.next_after
    else:
        part.offset_fetch.groups[0].after.CopyFrom(last.next_after)


def _join(answer: Any, more: Any, field: str) -> None:
    getattr(answer, field).extend(getattr(more, field))
    answer.error_code = answer.error_code or more.error_code
    answer.ClearField("next_after")
    if more.HasField("next_after"):
        answer.MergeFrom(type(answer)(next_after=more.next_after))


def _part(command: Command, verb: str, items: Sequence[Any]) -> Command:
    field, _ = ITEMS[verb]
    part, message = Command(), getattr(command, verb)
    copied = getattr(part, verb)
    for name in _OTHERS[verb]:
        setattr(copied, name, getattr(message, name))
    getattr(copied, field).extend(items)
    return part


#: The other fields of the commands in ITEMS.
_OTHERS: Final = dict.fromkeys(ITEMS, ()) | {
    "delete_offsets": ("group_id",),
    "offset_fetch": ("require_stable",),
}


def _copy(command: Command) -> Command:
    copied = Command()
    copied.CopyFrom(command)
    return copied


def _result(reply: Reply) -> Any:
    return getattr(reply, str(reply.WhichOneof("result")))
