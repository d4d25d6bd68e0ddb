"""The Transactions pages: open transactions, the consumers that wait for them, and a form to abort one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from lacuna.console import formats, limits
from lacuna.console.editing import Done, Edit, Effect, Field, Turn
from lacuna.console.rights import Rights
from lacuna.console.site import BadRequest, NotThere, Paging, Site, aborts, rights_of
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import (
    AbortTxn,
    DescribeTransactions,
    TransactionDescription,
)
from lacuna.operating import questions
from lacuna.operating.blame import Blamed, blame_in


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """An ongoing transaction, the number of its partitions, and the partitions in which readers wait for it."""

    found: TransactionDescription
    seconds: float
    partitions: int
    blocked: Sequence[Blamed]

    @property
    def waiting(self) -> int:
        """The number of offsets waiting behind the transaction."""
        return sum(each.waiting for each in self.blocked)

    @property
    def by_commit(self) -> int:
        """The waiting offsets that a read_committed consumer would receive if the transaction committed now."""
        return sum(each.by_commit for each in self.blocked)

    @property
    def by_abort(self) -> int:
        """The waiting offsets that a read_committed consumer would receive if the transaction aborted now."""
        return sum(each.by_abort for each in self.blocked)

    @property
    def groups(self) -> Sequence[str]:
        """The groups that have read everything up to the transaction."""
        return sorted({group for each in self.blocked for group in each.groups})


async def page(site: Site, request: Request) -> Response:
    """Show the open transactions, oldest first, and the transactional ids."""
    control = site.sources.control
    await questions.current(control)
    query = request.query_params
    rights = rights_of(request)
    allowed = [
        each
        for each in await questions.transactions(control)
        if rights.transaction(each.transactional_id)
    ]
    ongoing = [each for each in allowed if each.state == "Ongoing"]
    opened, not_blamed = await _opened(
        site, [each.transactional_id for each in ongoing[: limits.TRANSACTIONS]], rights
    )
    wanted = query.get("q", "").strip()
    every = sorted(
        (each for each in allowed if wanted.lower() in each.transactional_id.lower()),
        key=lambda each: each.transactional_id,
    )
    paging = Paging.of(query, len(every))
    return site.render(
        request,
        "transactions.html",
        opened=opened,
        not_described=max(0, len(ongoing) - limits.TRANSACTIONS),
        not_blamed=not_blamed,
        rows=every[paging.first : paging.stop],
        paging=paging,
        q=wanted,
        may_abort=site.may_write and rights.may_abort,
    )


async def _opened(
    site: Site, ids: Sequence[str], rights: Rights
) -> tuple[list[OpenTransaction], int]:
    """Return ongoing transactions, oldest first, and the number of partitions left unexamined."""
    if not ids:
        return [], 0
    control = site.sources.control
    described = await control.call(
        Command(describe_transactions=DescribeTransactions(transactional_ids=ids))
    )
    ongoing = [
        each for each in described.transactions_described.transactions if each.state == "Ongoing"
    ]
    ongoing.sort(key=lambda each: each.start_time_ms)
    keys: dict[tuple[bytes, int], TopicPartition] = {
        key_of(key): key for each in ongoing for key in each.partitions
    }
    looked_at = list(keys.values())[: limits.BLAMED_PARTITIONS]
    blamed: dict[int, list[Blamed]] = {}
    for each in await blame_in(control, looked_at, limits.GROUPS):
        if rights.topic(each.topic):
            shown = [group for group in each.groups if rights.group(group)]
            blamed.setdefault(each.producer_id, []).append(replace(each, groups=shown))
    now_ms = site.sources.now_ms()
    opened = [
        OpenTransaction(
            found=each,
            seconds=max(now_ms - each.start_time_ms, 0) / 1000,
            partitions=sum(_may_see(control, key, rights) for key in each.partitions),
            blocked=blamed.get(each.producer_id, []),
        )
        for each in ongoing
    ]
    return opened, len(keys) - len(looked_at)


# --- abort a transaction ---


async def _no_fields(turn: Turn) -> Sequence[Field]:
    await _open_one(turn)
    return ()


async def _open_one(turn: Turn) -> OpenTransaction:
    """Return the open transaction of the transactional id in the address. Raises NotThere."""
    transactional_id = turn.request.query_params.get("id", "")
    ids = [transactional_id] if turn.rights.transaction(transactional_id) else []
    opened, _ = await _opened(turn.site, ids, turn.rights)
    if not opened:
        raise NotThere(f"{transactional_id[:250]!r} has no open transaction.")
    return opened[0]


async def _preview_abort(turn: Turn) -> Effect:
    opened = await _open_one(turn)
    found = opened.found
    began = formats.moment(found.start_time_ms)
    holds_back = (
        f"The transaction has been open for {formats.duration(opened.seconds)}, since {began} UTC. Partitions: "
        f"{opened.partitions}. Offsets that it holds back: {opened.waiting}. If it aborts, consumers immediately "
        f"receive {opened.by_abort} records from other producers."
    )
    drops = (
        "All of its records are dropped, in all of its partitions, and the group offsets in it are not committed. Its "
        f"producer (id {found.producer_id}, epoch {found.producer_epoch}) is fenced and receives an error on its next "
        "request. This cannot be undone."
    )
    return Effect(
        sentences=(holds_back, drops),
        pins={
            "producer_id": str(found.producer_id),
            "producer_epoch": str(found.producer_epoch),
            "began": str(found.start_time_ms),
        },
        is_destructive=True,
    )


async def _abort(turn: Turn) -> Done:
    """Abort the previewed transaction, unless its producer has begun a new one since."""
    found = (await _open_one(turn)).found
    now = (found.producer_id, found.producer_epoch, found.start_time_ms)
    if now != tuple(turn.number(each) for each in ("producer_id", "producer_epoch", "began")):
        raise BadRequest(
            "The transaction that you looked at has ended, and nothing was aborted. Its producer has begun another one."
        )
    # The control plane checks the producer id and epoch once more, since the transaction may end at this very moment.
    command = AbortTxn(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
    reply = await turn.site.sources.control.call(Command(abort_txn=command))
    if reply.txn_aborted.error_code != ErrorCode.NONE:
        raise BadRequest("The transaction ended in the meantime. Nothing was aborted.")
    name = formats.name(found.transactional_id)
    return Done(f"Aborted the transaction of {name}. Its producer is fenced.", "/transactions")


EDITS: Final = (
    Edit(
        path="/transactions/abort",
        title="Abort the transaction",
        button="Abort",
        needs=aborts,
        fields=_no_fields,
        preview=_preview_abort,
        apply=_abort,
        on="row",
        back=lambda _: "/transactions",
    ),
)


def _may_see(control: ControlClient, key: TopicPartition, rights: Rights) -> bool:
    topic = control.cluster.topics_by_id.get(key.topic_id)
    return topic is not None and rights.topic(topic.name)
