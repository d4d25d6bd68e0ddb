"""The console's pages and their addresses."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from importlib import resources
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lacuna.console import (
    cluster,
    connected,
    groups,
    live,
    merges,
    messages,
    partition,
    topics,
    transactions,
)
from lacuna.console.sampling import Sampler
from lacuna.console.security import Guard, Tokens
from lacuna.console.site import NotThere, Page, Site, Turns, templates
from lacuna.console.sources import Sources

_PAGES: Final[dict[str, Page]] = {
    "/": cluster.page,
    "/topics": topics.page,
    "/topics/{topic}": topics.topic_page,
    "/topics/{topic}/{partition:int}": partition.page,
    "/topics/{topic}/{partition:int}/messages": messages.page,
    "/groups": groups.page,
    "/groups/group": groups.group_page,
    "/transactions": transactions.page,
    "/transactions/abort": transactions.abort_page,
    "/merges": merges.page,
    "/clients": connected.page,
}
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STATIC: Final = ("console.css", "console.js", "icon.svg")


@dataclass(frozen=True, slots=True)
class Application:
    """The console: what answers requests, and the event streams, which must be ended."""

    answers: ASGIApp
    streams: live.Streams


def make_app(sources: Sources, names: Collection[str], *, may_write: bool) -> Application:
    """Return the console. `names` are the host names that it goes by."""
    site = Site(
        sources=sources,
        sampler=Sampler(sources),
        tokens=Tokens(),
        may_write=may_write,
        templates=templates(),
    )
    turns = Turns()
    streams = live.Streams(site)

    def answering(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await turns.answer(site, request, page)

        return endpoint

    routes = [Route(path, answering(page)) for path, page in _PAGES.items()]
    routes.append(Route("/transactions/abort", answering(transactions.abort), methods=["POST"]))
    routes.append(Route("/live", streams.changes))
    routes.append(Route("/live/{topic}/{partition:int}", streams.tail))
    routes += [Route(f"/static/{name}", _static(name)) for name in _STATIC]
    if sources.shown is not None:
        shown = sources.shown

        async def healthz(_: Request) -> Response:
            return PlainTextResponse("ok\n")

        async def readyz(_: Request) -> Response:
            why_not = shown.observed.why_not()
            return PlainTextResponse(f"{why_not or 'ok'}\n", 503 if why_not else 200)

        async def metrics(request: Request) -> Response:
            text, content_type = await shown.metrics(request.headers.get("accept", ""))
            return Response(text, headers={"content-type": content_type})

        routes += [
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
        ]
    routes.append(Route("/{path:path}", answering(_nothing)))
    return Application(Guard(Starlette(routes=routes), names), streams)


async def _nothing(_site: Site, request: Request) -> Response:
    raise NotThere(f"There is no page {request.url.path}.")


def _static(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("lacuna.console").joinpath("static", name).read_bytes()

    async def endpoint(_: Request) -> Response:
        headers = {"cache-control": "no-cache"}
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    return endpoint
