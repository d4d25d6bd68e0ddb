"""The pages of transactions: the open ones, the readers that wait for them, and the form that aborts one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lacuna.console import limits
from lacuna.console.rights import Rights
from lacuna.console.site import BadRequest, NotThere, Paging, Site, form_of, link, rights_of
from lacuna.controlplane.client import ControlClient, confirm
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import (
    AbortTxn,
    DescribeTransactions,
    ListTransactions,
    TransactionDescription,
)
from lacuna.operating.blame import Blamed, blame_in


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """An ongoing transaction, the number of its partitions, and the partitions whose readers wait for it."""

    found: TransactionDescription
    seconds: float
    partitions: int
    blocked: Sequence[Blamed]

    @property
    def waiting(self) -> int:
        """The number of offsets that wait behind it."""
        return sum(each.waiting for each in self.blocked)

    @property
    def by_commit(self) -> int:
        """The number of these that a read_committed consumer would receive if it committed now."""
        return sum(each.by_commit for each in self.blocked)

    @property
    def by_abort(self) -> int:
        """The number of these that a read_committed consumer would receive if it aborted now."""
        return sum(each.by_abort for each in self.blocked)

    @property
    def groups(self) -> Sequence[str]:
        """The groups that have read everything before it."""
        return sorted({group for each in self.blocked for group in each.groups})


async def page(site: Site, request: Request) -> Response:
    """Answer with the open transactions, the oldest first, and the transactional ids."""
    control = site.sources.control
    await confirm(control)
    await control.cluster.ready()
    query = request.query_params
    listing = ListTransactions(duration_ms=-1)
    listed = (await control.call(Command(list_transactions=listing))).transactions_listed
    rights = rights_of(request)
    allowed = [each for each in listed.transactions if rights.transaction(each.transactional_id)]
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
        aborted=query.get("aborted", ""),
    )


async def _opened(
    site: Site, ids: Sequence[str], rights: Rights
) -> tuple[list[OpenTransaction], int]:
    """Return ongoing transactions, the oldest first, and the number of partitions that were not examined."""
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


async def abort_page(site: Site, request: Request) -> Response:
    """Answer with the effects of an abort, and the button for it."""
    _check_writes(site)
    rights = rights_of(request)
    transactional_id = request.query_params.get("id", "")
    opened, _ = await _opened(
        site, [transactional_id] if rights.transaction(transactional_id) else [], rights
    )
    if not opened:
        raise NotThere(f"{transactional_id[:250]!r} has no open transaction.")
    return site.render(request, "abort.html", opened=opened[0], is_stale=False)


async def abort(site: Site, request: Request) -> Response:
    """Abort the transaction that the form names, unless the producer has begun another one since."""
    _check_writes(site)
    rights = rights_of(request)
    form = form_of(request)
    browser = site.tokens.browser_of(request.headers)
    if not site.tokens.is_right(browser, "abort", form.get("token", "")):
        text = "This form is from another console, or too old. Go back, reload the page, and try again."
        return site.render(request, "failed.html", 403, title="Refused", text=text)
    try:
        command = AbortTxn(
            producer_id=int(form.get("producer_id", "")),
            producer_epoch=int(form.get("producer_epoch", "")),
        )
    except ValueError as error:
        raise BadRequest("the form does not name a producer") from error
    transactional_id = form.get("id", "")
    opened, _ = await _opened(
        site, [transactional_id] if rights.transaction(transactional_id) else [], rights
    )
    is_shown = bool(opened) and (
        opened[0].found.producer_id == command.producer_id
        and opened[0].found.producer_epoch == command.producer_epoch
        and str(opened[0].found.start_time_ms) == form.get("began", "")
    )
    if opened and not is_shown:
        return site.render(request, "abort.html", 409, opened=opened[0], is_stale=True)
    # The control plane checks producer id and epoch again, since the transaction may end at this very moment.
    code = ErrorCode.INVALID_TXN_STATE
    if opened:
        reply = await site.sources.control.call(Command(abort_txn=command))
        code = ErrorCode(reply.txn_aborted.error_code)
    if code != ErrorCode.NONE:
        text = "The transaction ended in the meantime. Nothing was aborted."
        return site.render(request, "failed.html", 409, title="Already ended", text=text)
    return RedirectResponse(link("/transactions", aborted=transactional_id), 303)


def _check_writes(site: Site) -> None:
    if not site.may_write:
        raise BadRequest(
            "This console is read-only: start it with --console-writes to allow changes."
        )


def _may_see(control: ControlClient, key: TopicPartition, rights: Rights) -> bool:
    topic = control.cluster.topics_by_id.get(key.topic_id)
    return topic is not None and rights.topic(topic.name)
