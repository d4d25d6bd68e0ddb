"""ListTransactions v0-v2 (KIP-664): all transactional ids, or those of states, producer ids, durations.

v1 filters by how long a transaction has been going on, v2 by a pattern of transactional ids
(KIP-1152), a regular expression that has to match the whole id. RE2 reads it, as in Kafka: no look-around
and no back-references, and a time linear in the id; others are INVALID_REGULAR_EXPRESSION. Unknown states
are named in the answer.

Clients ask every agent and put the answers together. So although any agent knows every transaction,
each lists those that are placed on it, as a coordinator in Kafka would.

There may be tens of thousands, and an id may take milliseconds to match. So others are served between slices of
them, a thread does the matching, and the answer is written by hand.
"""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2
from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.find_coordinator import TRANSACTION_PREFIX
from agent.apis.registry import Api, Peer
from agent.wire import write_count, write_string
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import ListTransactions, TransactionListing

if TYPE_CHECKING:
    from agent.context import AgentContext

_MAX_PATTERN_SIZE = 4096
#: Of a compiled pattern, bytes; RE2 refuses what needs more.
_MAX_PATTERN_MEMORY = 1 << 20
#: Instructions, as in expressions of consumer groups: "(.?){999}" and its like take 20 ms an id, and nobody is served.
_MAX_PROGRAM_SIZE = 5000
#: Ids between two turns of the loop: 1 to 2 ms of it.
_SLICE: Final = 500
#: Instructions times characters between two looks whether the client is still there: some 10 ms of the thread.
_SLICE_STEPS: Final = 2_000_000

_HEAD: Final = struct.Struct(">ih")
_PRODUCER_ID: Final = struct.Struct(">q")

# One for every agent of the process; RE2 holds no lock of Python's while it matches.
_matching: Final = ThreadPoolExecutor(1, "patterns")


class Listing(NamedTuple):
    """An answer; `rows` are the transactions as they are written."""

    error_code: int
    unknown_states: Sequence[str] = ()
    rows: Sequence[bytes] = ()


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Listing:  # noqa: ARG001
    """One command."""
    text = getattr(request, "transactional_id_pattern", None)
    pattern = compile_pattern(text) if text else None
    if text and pattern is None:
        return refuse(request, KafkaError.invalid_regular_expression)
    command = ListTransactions(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=max(-1, getattr(request, "duration_filter", -1)),
    )
    reply = (await context.control.call(Command(list_transactions=command))).transactions_listed
    rows: list[bytes] = []
    for begin in range(0, len(reply.transactions), _SLICE):
        listed = _placed_here(context, reply.transactions[begin : begin + _SLICE])
        if pattern is not None:
            listed = await _matching_ones(pattern, listed)
        rows += map(_row, listed)
        await asyncio.sleep(0)
    return Listing(0, reply.unknown_states, rows)


def refuse(request: Any, error_code: int) -> Listing:  # noqa: ARG001
    """The error and nothing else."""
    return Listing(error_code)


def _placed_here(
    context: "AgentContext", listed: Sequence[TransactionListing]
) -> list[TransactionListing]:
    keys = (TRANSACTION_PREFIX + each.transactional_id.encode() for each in listed)
    are_ours = placement.are_ours(context, keys)
    return [each for each, is_ours in zip(listed, are_ours, strict=True) if is_ours]


async def _matching_ones(
    pattern: Any, listed: Sequence[TransactionListing]
) -> list[TransactionListing]:
    loop = asyncio.get_running_loop()
    found: list[TransactionListing] = []
    for some in slices(listed, pattern.programsize):
        ids = [each.transactional_id for each in some]
        matched = await loop.run_in_executor(_matching, _match, pattern, ids)
        found += (each for each, is_match in zip(some, matched, strict=True) if is_match)
    return found


def slices(
    listed: Sequence[TransactionListing], program_size: int
) -> Iterator[Sequence[TransactionListing]]:
    """As many ids at once as the thread matches quickly, and one at least."""
    begin = steps = 0
    for index, each in enumerate(listed):
        steps += program_size * len(each.transactional_id)
        if steps > _SLICE_STEPS and index > begin:
            yield listed[begin:index]
            begin, steps = index, program_size * len(each.transactional_id)
    if begin < len(listed):
        yield listed[begin:]


def _match(pattern: Any, ids: Sequence[str]) -> list[bool]:
    return [pattern.fullmatch(each) is not None for each in ids]


def _row(listed: TransactionListing) -> bytes:
    return b"".join(
        (
            write_string(listed.transactional_id, flexible=True),
            _PRODUCER_ID.pack(listed.producer_id),
            write_string(listed.state, flexible=True),
            b"\x00",
        )
    )


def encode(response: Listing, version: int) -> list[bytes]:  # noqa: ARG001
    """The body of the answer, which all versions write alike."""
    return [
        _HEAD.pack(0, response.error_code),
        write_count(len(response.unknown_states), flexible=True),
        *(write_string(each, flexible=True) for each in response.unknown_states),
        write_count(len(response.rows), flexible=True),
        b"".join(response.rows),
        b"\x00",
    ]


def compile_pattern(pattern: str) -> Any:
    """RE2's pattern, or None where it is none, or too large."""
    if len(pattern) > _MAX_PATTERN_SIZE:
        return None
    options = re2.Options()
    options.max_mem = _MAX_PATTERN_MEMORY
    options.log_errors = False
    options.dot_nl = True
    # Nobody asks for groups, and telling them takes three times as long.
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    return compiled if compiled.programsize <= _MAX_PROGRAM_SIZE else None


API = Api(
    key=66,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse,
    encode=encode,
    waits=True,
    notes="each agent lists the transactional ids that are placed on it",
)
