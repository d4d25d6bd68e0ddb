"""The console's pages and their addresses."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lacuna.base.errors import UserError
from lacuna.console import (
    access,
    acl_edits,
    cluster,
    connected,
    group_edits,
    groups,
    live,
    login,
    messages,
    partition,
    quota_edits,
    topic_edits,
    topics,
    transactions,
    user_edits,
)
from lacuna.console.decoding import Decoding
from lacuna.console.logins import Logins
from lacuna.console.rights import NotAllowed, Rights, RightsOfUsers
from lacuna.console.sampling import History, Sampler
from lacuna.console.security import Guard, Tokens
from lacuna.console.site import (
    Handler,
    NotThere,
    Page,
    Site,
    Turns,
    describes_cluster,
    leaves_out,
    link,
    reads_topic,
    templates,
)
from lacuna.console.sources import Sources
from lacuna.observing.endpoint import Shown

_PAGES: Final = (
    Page("/", cluster.page, leaves_out, "Cluster", link_needs=describes_cluster),
    Page("/topics", topics.page, leaves_out, "Topics"),
    Page("/topics/{topic}", topics.topic_page, leaves_out),
    Page("/topics/{topic}/messages", messages.topic_page, reads_topic),
    Page("/topics/{topic}/{partition:int}", partition.page, reads_topic),
    Page("/topics/{topic}/{partition:int}/messages", messages.page, reads_topic),
    Page("/search", cluster.search_page, leaves_out),
    Page("/holes", partition.holes_page, leaves_out),
    Page("/groups", groups.page, leaves_out, "Groups"),
    Page("/groups/group", groups.group_page, leaves_out),
    Page("/transactions", transactions.page, leaves_out, "Transactions"),
    Page("/merges", cluster.merges_page, describes_cluster, "Merges"),
    Page("/imports", cluster.imports_page, describes_cluster),
    Page("/access", access.page, describes_cluster, "Access"),
    Page("/clients", connected.page, describes_cluster, "Clients"),
)
_EDITS: Final = (
    *topic_edits.EDITS,
    *group_edits.EDITS,
    *transactions.EDITS,
    *acl_edits.EDITS,
    *user_edits.EDITS,
    *quota_edits.EDITS,
)
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STATIC: Final = ("console.css", "console.js", "icon.svg")


@dataclass(frozen=True, slots=True)
class Application:
    """The console as an ASGI app, the history of the last hour, and the event streams, which the caller must end."""

    answers: ASGIApp
    streams: live.Streams
    history: History
    asks_for_passwords: bool


def make_app(
    sources: Sources,
    names: Collection[str],
    *,
    may_write: bool,
    decoding: Decoding | None = None,
) -> Application:
    """Build the console. `names` are its host names; `decoding` decodes keys and values."""
    security = sources.agents().security
    needs_login = security.has_sasl and security.credentials is None
    logins = Logins(sources.seconds) if needs_login else None
    sampler = Sampler(sources)
    history = History(sources, sampler)
    site = Site(
        sources=sources,
        logins=logins,
        sampler=sampler,
        history=history,
        tokens=Tokens(),
        rights=RightsOfUsers(sources.seconds, has_acls=sources.has_acls),
        may_write=may_write,
        decoding=decoding,
        templates=templates(),
        links=_links,
        actions=_actions,
    )
    turns = Turns()
    streams = live.Streams(site)

    def answering(
        handler: Handler, *, for_strangers: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if logins is not None and logins.find(request) is None and not for_strangers:
                query = f"?{request.url.query}" if request.url.query else ""
                to = f"{request.url.path}{query}" if request.method == "GET" else "/"
                return RedirectResponse(link("/login", to=to), 303)
            return await turns.answer(site, request, handler)

        return endpoint

    def known(stream: Callable[[Request], Awaitable[Response]]) -> Callable[..., Any]:
        async def endpoint(request: Request) -> Response:
            if logins is not None and logins.find(request) is None:
                return PlainTextResponse("log in first\n", 401)
            return await stream(request)

        return endpoint

    pages = (*_PAGES, *(page for each in _EDITS for page in each.pages()))
    routes = [Route(each.path, answering(each.answer), methods=[each.method]) for each in pages]
    routes.append(Route("/live", known(streams.changes)))
    for path in ("/live/{topic}", "/live/{topic}/{partition:int}"):
        routes.append(Route(f"{path}/messages", known(streams.tail)))
        routes.append(Route(f"{path}/search", known(streams.search)))
    if logins is not None:
        routes.append(Route("/login", answering(login.page, for_strangers=True)))
        check = answering(login.log_in, for_strangers=True)
        routes.append(Route("/login", check, methods=["POST"]))
        routes.append(Route("/logout", answering(login.log_out), methods=["POST"]))
    routes += [Route(f"/static/{name}", _static(name)) for name in _STATIC]
    if sources.shown is not None:
        routes += _observed(site, sources.shown)
    nothing = Page("/{path:path}", _nothing, leaves_out)
    routes.append(Route(nothing.path, answering(nothing.answer)))
    return Application(Guard(Starlette(routes=routes), names), streams, history, needs_login)


def _links(rights: Rights) -> list[tuple[str, str]]:
    return [(each.path, each.title) for each in _PAGES if each.is_linked_for(rights)]


def _actions(page: str, rights: Rights, subject: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (each.address(**subject), each.title)
        for each in _EDITS
        if each.on == page and each.is_for(rights, subject)
    ]


def _observed(site: Site, shown: Shown) -> list[Route]:
    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        why_not = shown.observed.why_not()
        return PlainTextResponse(f"{why_not or 'ok'}\n", 503 if why_not else 200)

    async def metrics(request: Request) -> Response:
        try:
            refused = await login.refuse_metrics(site, request)
        except NotAllowed as error:
            return PlainTextResponse(f"{error}\n", 403)
        except UserError as error:
            return PlainTextResponse(f"{error}\n", 503)
        if refused is not None:
            return refused
        text, content_type = await shown.metrics(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    return [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
    ]


async def _nothing(_site: Site, request: Request) -> Response:
    raise NotThere(f"The page {request.url.path} does not exist.")


def _static(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("lacuna.console").joinpath("static", name).read_bytes()

    async def endpoint(_: Request) -> Response:
        headers = {"cache-control": "no-cache"}
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    return endpoint
