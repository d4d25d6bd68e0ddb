"""The Access page: logins, users, ACLs and quotas."""

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from lacuna.base.errors import UserError
from lacuna.console import acl_edits, quota_edits, user_edits
from lacuna.console.editing import Turn
from lacuna.console.site import Paging, Site

T = TypeVar("T")


async def page(site: Site, request: Request) -> Response:
    """Return the page. A list that the visitor may not see is replaced by the reason."""
    turn = Turn(site=site, request=request, given={})
    acls, no_acls = await _or_reason(acl_edits.rows(turn))
    users, no_users = await _or_reason(user_edits.rows(turn))
    quotas, no_quotas = await _or_reason(quota_edits.rows(turn))
    paging = Paging.of(request.query_params, len(acls))
    actions = site.actions_on("access", request)
    logins = site.logins.users() if site.logins is not None else []
    return site.render(
        request,
        "access.html",
        has_logins=site.logins is not None,
        logins=sorted(Counter(logins).items()),
        acls=acls[paging.first : paging.stop],
        paging=paging,
        no_acls=no_acls,
        users=users,
        no_users=no_users,
        quotas=quotas,
        no_quotas=no_quotas,
        actions=actions,
        may_remove=bool(actions),
    )


async def _or_reason(rows: Awaitable[Sequence[T]]) -> tuple[Sequence[T], str]:
    """Return the rows and "", or no rows and the reason."""
    try:
        return await rows, ""
    except UserError as error:
        return (), str(error)
