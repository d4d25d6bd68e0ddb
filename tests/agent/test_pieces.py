"""Requests with many elements: every array of every API is cut, or has a bound."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, cycle, islice
from typing import Any

import pytest

from lacuna.agent import pieces
from lacuna.agent.api import Api, Call
from lacuna.agent.apis import discover
from lacuna.agent.limits import MOST_OF_PIECE, MOST_WHOLE
from lacuna.agent.registry import Registry
from lacuna.agent.settings import AgentSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire import kernel
from lacuna.wire.layout import Message, Struct
from lacuna.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from lacuna.wire.messages.groups import DescribeGroupsRequest
from lacuna.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.agent.harness import (
    RawClient,
    ScriptedControl,
    encode_request,
    make_context,
    read_answer,
    serving,
)
from tests.agent.plane import cluster
from tests.messages import encode_body, make

APIS = {api.key: api for api in discover().apis()}
# Their arrays are bounded, and Fetch has tests of its own.
FETCH, PRODUCE = 1, 0
#: Its first error applies to the whole request.
OFFSET_DELETE = 47
Path = tuple[str, ...]
#: The number of different elements in a large array, since each takes long to create: more than in two pieces.
UNLIKE = 2 * MOST_OF_PIECE + 1


def arrays(struct: Struct, version: int) -> Iterator[Path]:
    """Return the arrays in requests of a version, by the field names that lead to them."""
    for name, field in zip(struct.make._fields, struct.fields, strict=True):
        if not field.is_in(version):
            continue
        if field.is_array:
            yield (name,)
        if isinstance(field.kind, Struct):
            yield from ((name, *rest) for rest in arrays(field.kind, version))


#: The arrays of each API's oldest and newest requests.
CASES = {
    key: found
    for key, api in APIS.items()
    if (
        found := [
            (version, path)
            for version in sorted({api.min_version, api.max_version})
            for path in arrays(api.request.body, version)
        ]
    )
}


def value_of(kind: Any, version: int, number: int) -> Any:
    """Return a value that differs from those of other numbers, if its kind has enough values."""
    if isinstance(kind, Struct):
        fields = {
            name: value_of(field.kind, version, number)
            for name, field in zip(kind.make._fields, kind.fields, strict=True)
            if field.is_in(version) and not field.is_array and not isinstance(field.kind, Struct)
        }
        return make(kind, version, **fields)
    if kind == kernel.STRING:
        return f"t{number}"
    if kind == kernel.UUID:
        return number.to_bytes(16, "big")
    if kind in (kernel.BYTES, kernel.RECORDS):
        return b""
    return number % 100 if kind in (kernel.BOOL, kernel.INT8) else number


def filled(struct: Struct, version: int, path: Path, count: int, number: int = 1) -> Any:
    """Return a request whose array at `path` has `count` elements; enclosing arrays have one, with the number."""
    name, *rest = path
    field = struct.fields[struct.make._fields.index(name)]
    if rest:
        assert isinstance(field.kind, Struct)
        inner = filled(field.kind, version, tuple(rest), count, number)
        value: Any = (inner,) if field.is_array else inner
    else:
        unlike = [value_of(field.kind, version, each) for each in range(1, min(count, UNLIKE) + 1)]
        value = tuple(islice(cycle(unlike), count))
    return value_of(struct, version, number)._replace(**{name: value})


def is_cut(api: Api[Any, Any], path: Path) -> bool:
    return any(path == each.asked[: len(path)] for each in api.pieces)


@pytest.mark.parametrize("key", CASES)
async def test_no_handler_is_given_many_elements(key: int) -> None:
    """An array is cut into pieces, or a request with too many elements closes the connection."""
    api, given = APIS[key], list[int]()
    if key in (FETCH, PRODUCE):
        assert api.most_elements <= kernel.LONGEST_ARRAY
        return

    async def handle(call: Call, asked: Any) -> Any:
        given.append(pieces.count_of(asked) - 1)
        return api.refuse(call, asked, ErrorCode.INVALID_REQUEST)

    context, registry = make_context(ScriptedControl()), Registry([replace(api, handle=handle)])
    async with serving(context, registry) as server, asyncio.timeout(60):
        for version, path in CASES[key]:
            count = UNLIKE if is_cut(api, path) else api.most_elements + 1
            if not is_cut(api, path) and api.pieces:
                count = MOST_WHOLE + 1
            body = encode_body(key, version, filled(api.request.body, version, path, count))
            client = await RawClient.connect(server.port)
            client.send(encode_request(key, version, body))
            if is_cut(api, path):
                read_answer(await client.frame(), key, version)
                assert len(given) > 1 or key == OFFSET_DELETE
                assert max(given) <= MOST_OF_PIECE + len(path)
                await client.close()
            else:
                assert await client.is_closed()
                assert given == []
            given.clear()


@pytest.mark.parametrize("key", [key for key, api in APIS.items() if api.pieces])
def test_an_answer_in_pieces_is_the_answer_as_a_whole(key: int) -> None:
    """Byte for byte, at each version, wherever the many elements are."""
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        for path in arrays(api.request.body, version):
            if not is_cut(api, path):
                continue
            call = Call(make_context(ScriptedControl()), None, version)  # type: ignore[arg-type]  # no refusal asks who it is
            refuse = partial(api.refuse, call)
            some = [filled(api.request.body, version, path, 40, number) for number in (1, 2, 3)]
            joined = chain(*(getattr(each, path[0]) for each in some[: len(path)]))
            for each in (some[0], some[0]._replace(**{path[0]: tuple(joined)})):
                assert in_pieces(api, call, each, 7) == b"".join(
                    api.write(refuse(each, ErrorCode.INVALID_REQUEST), version)
                )


def in_pieces(api: Api[Any, Any], call: Call, asked: Any, most: int) -> bytes:
    """Return the bytes of the joined refusals of pieces of at most `most` elements."""
    how = pieces.pieces_of(api, asked, kernel.MOST_ELEMENTS)
    assert how is not None
    joined = pieces.Joined(api, call.version, how.answered, lambda _: None)
    for piece, depth in pieces.cut(asked, how._replace(most=most)):
        if not joined.add(api.refuse(call, piece, ErrorCode.INVALID_REQUEST), depth):
            break
    return b"".join(api.write(joined.response(), call.version))


def test_what_is_cut_is_all_that_was_asked() -> None:
    api = APIS[9]
    asked = filled(api.request.body, 8, ("groups", "topics", "partition_indexes"), 1000)
    how = pieces.pieces_of(api, asked, 1000)
    assert how is not None
    found = [
        (depth, piece.groups[0].topics[0].partition_indexes)
        for piece, depth in pieces.cut(asked, how)
    ]
    assert [depth for depth, _ in found] == [0, *[2] * (len(found) - 1)]
    assert tuple(chain(*(indexes for _, indexes in found))) == tuple(range(1, 1001))


@pytest.mark.slow
async def test_others_are_served_between_the_pieces() -> None:
    async with cluster(AgentSettings()) as running, asyncio.timeout(60):
        large = await RawClient.connect(running.server.port)
        other = await RawClient.connect(running.server.port)
        groups = [f"g{number}" for number in range(40 * MOST_OF_PIECE)]
        answer = asyncio.create_task(large.call(5, DescribeGroupsRequest(groups)))
        served = 0
        while not answer.done():
            await other.ask(18, 0)
            served += 1
        described = (await answer).groups
        assert [each.group_id for each in described] == groups
        assert served >= 10


async def test_offsets_of_many_partitions_are_fetched() -> None:
    """With a real control plane; partitions that do not exist have no offsets."""
    async with cluster(AgentSettings()) as running, asyncio.timeout(60):
        client = await RawClient.connect(running.server.port)
        topics = [OffsetFetchRequestTopic(name, tuple(range(1500))) for name in ("t", "u")]
        asked = OffsetFetchRequest(group_id="g", topics=topics)
        answer = await client.call(7, asked)
        assert [topic.name for topic in answer.topics] == ["t", "u"]
        for topic in answer.topics:
            assert [each.partition_index for each in topic.partitions] == list(range(1500))


@pytest.mark.slow
async def test_an_answer_that_becomes_too_large_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pieces, "MOST_ANSWER_BYTES", 1 << 20)
    async with cluster(AgentSettings()) as running, asyncio.timeout(60):
        client = await RawClient.connect(running.server.port)
        resources = [DescribeConfigsResource(4, "", None)] * 5 + [
            DescribeConfigsResource(32, f"g{number}", None) for number in range(10_000)
        ]
        body = encode_body(32, 4, DescribeConfigsRequest(resources, True, True))
        client.send(encode_request(32, 4, body))
        assert await client.is_closed()
    assert "the answer exceeds 1 MiB; request fewer elements at a time" in caplog.text


async def test_a_piece_that_cannot_be_cut_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster(AgentSettings()) as running, asyncio.timeout(60):
        client = await RawClient.connect(running.server.port)
        keys = [f"k{number}" for number in range(MOST_WHOLE)]
        asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", keys)])
        client.send(encode_request(32, 4, encode_body(32, 4, asked)))
        assert await client.is_closed()
    assert f"more than {MOST_WHOLE} elements that cannot be handled separately" in caplog.text


def test_messages_say_where_their_arrays_are() -> None:
    """Both requests and answers are checked. Otherwise, only the first large request would reveal a wrong name."""
    for api in APIS.values():
        for how in api.pieces:
            assert all(_has(api.request, how.asked, version) for version in _having(api, how.asked))
            assert all(
                _has(api.response, how.answered, version) for version in _having(api, how.asked)
            )
            assert list(_having(api, how.asked))


def _having(api: Api[Any, Any], path: Path) -> list[int]:
    versions = range(api.min_version, api.max_version + 1)
    return [version for version in versions if _has(api.request, path, version)]


def _has(message: Message[Any], path: Path, version: int) -> bool:
    return path in arrays(message.body, version)
