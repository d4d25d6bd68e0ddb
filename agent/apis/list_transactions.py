"""ListTransactions v0-v2 (KIP-664): all transactional ids, or those of states, producer ids, durations.

v1 filters by how long a transaction has been going on, v2 by a pattern of transactional ids
(KIP-1152), a regular expression that has to match the whole id. RE2 reads it, as in Kafka: no look-around
and no back-references, and a time linear in the id; others are INVALID_REGULAR_EXPRESSION. Unknown states
are named in the answer.

Clients ask every agent and put the answers together. So although any agent knows every transaction,
each lists those that are placed on it, as a coordinator in Kafka would.
"""

from typing import TYPE_CHECKING, Any

import re2
from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.find_coordinator import TRANSACTION_PREFIX
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import ListTransactions

if TYPE_CHECKING:
    from agent.context import AgentContext

_MAX_PATTERN_SIZE = 4096
#: Of a compiled pattern, bytes; RE2 refuses what needs more.
_MAX_PATTERN_MEMORY = 1 << 20
#: Instructions, as in expressions of consumer groups: "(.?){999}" and its like take 20 ms an id, and nobody is served.
_MAX_PROGRAM_SIZE = 5000


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command."""
    pattern = compile_pattern(getattr(request, "transactional_id_pattern", None) or ".*")
    if pattern is None:
        return refuse(request, KafkaError.invalid_regular_expression)
    command = ListTransactions(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=max(-1, getattr(request, "duration_filter", -1)),
    )
    reply = (await context.control.call(Command(list_transactions=command))).transactions_listed
    return build(
        request,
        "ListTransactionsResponse",
        error_code=0,
        unknown_state_filters=tuple(reply.unknown_states),
        transaction_states=tuple(
            build(
                request,
                "TransactionState",
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in reply.transactions
            if pattern.fullmatch(each.transactional_id)
            and placement.is_ours(context, TRANSACTION_PREFIX + each.transactional_id.encode())
        ),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error and nothing else."""
    return build(
        request,
        "ListTransactionsResponse",
        error_code=error_code,
        unknown_state_filters=(),
        transaction_states=(),
    )


def compile_pattern(pattern: str) -> Any:
    """RE2's pattern, or None where it is none, or too large."""
    if len(pattern) > _MAX_PATTERN_SIZE:
        return None
    options = re2.Options()
    options.max_mem = _MAX_PATTERN_MEMORY
    options.log_errors = False
    options.dot_nl = True
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
    notes="each agent lists the transactional ids that are placed on it",
)
