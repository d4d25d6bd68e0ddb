"""ListTransactions v0-v2 (KIP-664): lists transactions, optionally filtered by state, producer id or duration.

v1 adds the filter by duration. v2 adds a pattern for transactional ids (KIP-1152), a regular expression that must match
the whole id. As in Kafka, the pattern uses RE2's syntax, without look-around or back-references, so matching takes time
linear in the id's length. An invalid pattern returns INVALID_REGULAR_EXPRESSION. If the request filters by unknown
states, the answer lists them.

Clients query every agent and combine the answers. Every agent knows all transactions, so each lists only those placed
on it, as a coordinator in Kafka would.

There may be tens of thousands of transactions, and matching an id may take milliseconds. Ids are therefore matched in a
thread, in slices between which other requests are served.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import re2

from lacuna.agent import placement
from lacuna.agent.api import Api, Call
from lacuna.agent.apis.k10_find_coordinator import TRANSACTION_PREFIX
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.transactions import list_transactions as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import ListTransactions, TransactionListing
from lacuna.wire.messages import transactions as wire

_MAX_PATTERN_SIZE = 4096
#: The largest compiled pattern, in bytes. RE2 rejects larger ones.
_MAX_PATTERN_MEMORY = 1 << 20
#: The largest compiled pattern in instructions, the same as for the regular expressions of consumer groups. Patterns
#: such as "(.?){999}" take 20 ms for one id.
_MAX_PROGRAM_SIZE = 5000
#: The number of ids handled in one iteration of the event loop, which takes 1 to 2 ms.
_SLICE: Final = 500
#: The amount of matching, in instructions times characters, between checks whether the client has left. It takes about
#: 10 ms.
_SLICE_STEPS: Final = 2_000_000

# One thread for all agents of the process; RE2 releases the GIL while it matches.
_matching: Final = ThreadPoolExecutor(1, "patterns")


class Pattern(Protocol):
    """The part of a compiled RE2 pattern's interface that this module uses, since re2 has no type annotations."""

    @property
    def programsize(self) -> int:
        """The number of instructions in the compiled pattern, each of which may run once per character."""
        ...

    def fullmatch(self, text: str) -> object | None:
        """Return a match if the pattern matches the whole text, or None if it does not."""
        ...


async def handle(
    call: Call, request: wire.ListTransactionsRequest
) -> wire.ListTransactionsResponse:
    text = request.transactional_id_pattern
    pattern = compile_pattern(text) if text else None
    if text and pattern is None:
        return wire.ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    command = ListTransactions(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=max(-1, request.duration_filter),
    )
    reply = await call.context.control.call(Command(list_transactions=command))
    found = reply.transactions_listed
    states: list[wire.ListTransactionsResponseTransactionState] = []
    for begin in range(0, len(found.transactions), _SLICE):
        listed = _placed_here(call.context, found.transactions[begin : begin + _SLICE])
        if pattern is not None:
            listed = await _matching_ones(pattern, listed)
        states += (
            wire.ListTransactionsResponseTransactionState(
                each.transactional_id, each.producer_id, each.state
            )
            for each in listed
        )
        await asyncio.sleep(0)
    return wire.ListTransactionsResponse(
        unknown_state_filters=found.unknown_states, transaction_states=states
    )


def _placed_here(
    context: AgentContext, listed: Sequence[TransactionListing]
) -> list[TransactionListing]:
    keys = (TRANSACTION_PREFIX + each.transactional_id.encode() for each in listed)
    are_ours = placement.are_ours(context, keys)
    return [each for each, is_ours in zip(listed, are_ours, strict=True) if is_ours]


async def _matching_ones(
    pattern: Pattern, listed: Sequence[TransactionListing]
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
    """Cut `listed` into slices that can be matched quickly, each with at least one id."""
    begin = steps = 0
    for index, each in enumerate(listed):
        steps += program_size * len(each.transactional_id)
        if steps > _SLICE_STEPS and index > begin:
            yield listed[begin:index]
            begin, steps = index, program_size * len(each.transactional_id)
    if begin < len(listed):
        yield listed[begin:]


def _match(pattern: Pattern, ids: Sequence[str]) -> list[bool]:
    return [pattern.fullmatch(each) is not None for each in ids]


def compile_pattern(pattern: str) -> Pattern | None:
    """Compile an RE2 pattern. Return None if it is invalid or too large."""
    if len(pattern) > _MAX_PATTERN_SIZE:
        return None
    options = re2.Options()
    options.max_mem = _MAX_PATTERN_MEMORY
    options.log_errors = False
    options.dot_nl = True
    # The groups of a match are not needed, and finding them takes three times as long.
    options.never_capture = True
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error:
        return None
    return compiled if compiled.programsize <= _MAX_PROGRAM_SIZE else None


API = Api(
    request=wire.LIST_TRANSACTIONS_REQUEST,
    response=wire.LIST_TRANSACTIONS_RESPONSE,
    handle=handle,
    guard=guard,
    waits=True,
    notes="each agent lists the transactional ids that are placed on it",
)
