"""What all pages share: where they come from, how they are rendered, and what they may cost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import jinja2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response

from lacuna.base.errors import UserError
from lacuna.console import formats, limits
from lacuna.console.logins import Logins
from lacuna.console.rights import NOTHING, NotAllowed, Rights, RightsOfUsers
from lacuna.console.sampling import Sampler
from lacuna.console.security import COOKIE, Tokens
from lacuna.console.sources import Sources
from lacuna.console.strip import MEANINGS
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.operating.kafka import Agents, BootstrapUnavailable


class NotThere(UserError):
    """What a page is about does not exist; the message says what."""


class BadRequest(UserError):
    """A parameter of a page is not what it should be; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a page is given."""

    sources: Sources
    sampler: Sampler
    tokens: Tokens
    rights: RightsOfUsers
    #: Who has logged in, if users must.
    logins: Logins | None
    may_write: bool
    templates: jinja2.Environment
    #: Returns the addresses and titles of the pages that the head of each page links for a user with these rights.
    links: Callable[[Rights], Sequence[tuple[str, str]]]

    def agents(self, request: Request) -> Agents:
        """Return how to connect to the agents for who sends a request. Raises UserError if nobody has logged in."""
        agents = self.sources.agents()
        if self.logins is None:
            return agents
        login = self.logins.find(request)
        if login is None:
            raise UserError("you are not logged in any more")
        return Agents(agents.addresses, replace(agents.security, credentials=login.credentials))

    def render(self, request: Request, template: str, code: int = 200, **context: Any) -> Response:
        """Return the page that a template makes of `context`."""
        browser = self.tokens.browser_of(request.headers)
        login = self.logins.find(request) if self.logins is not None else None
        rights = rights_of(request)
        text = self.templates.get_template(template).render(
            **context,
            request_path=request.url.path,
            cluster_id=self.sources.control.cluster.cluster_id,
            may_write=self.may_write and rights.may_abort,
            links=self.links(rights),
            user=login.user if login is not None else "",
            now_ms=self.sources.now_ms(),
            token_for=lambda action: self.tokens.token(browser, action),
        )
        response = HTMLResponse(text, code)
        if request.cookies.get(COOKIE) != browser:
            response.set_cookie(COOKIE, browser, httponly=True, samesite="strict")
        return response


Handler = Callable[[Site, Request], Awaitable[Response]]
#: Raises NotAllowed if a user with these rights may not have the page at an address; the latter's parts are given.
Needs = Callable[[Rights, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Page:
    """What answers at an address, and what its user must be allowed: a row of the table in app.py.

    There is no page without `needs`. One that shows each user what that user may describe has `leaves_out`. A page with
    a `title` is linked in the head of all pages, for users that have what it needs, or what its link needs.
    """

    path: str
    handler: Handler
    needs: Needs
    title: str = ""
    link_needs: Needs | None = None
    method: str = "GET"

    def is_linked_for(self, rights: Rights) -> bool:
        """Whether users with these rights see a link to the page in the head of all pages."""
        if not self.title:
            return False
        try:
            (self.link_needs or self.needs)(rights, {})
        except NotAllowed:
            return False
        return True

    async def answer(self, site: Site, request: Request) -> Response:
        """Answer, once the user's rights are known and suffice."""
        await note_rights(site, request)
        self.needs(rights_of(request), request.path_params)
        return await self.handler(site, request)


def leaves_out(_rights: Rights, _path: Mapping[str, Any]) -> None:
    """Anybody may have the page: it leaves out what its user may not describe."""


def describes_cluster(rights: Rights, _path: Mapping[str, Any]) -> None:
    """The page is about the cluster."""
    rights.check_cluster()


def reads_topic(rights: Rights, path: Mapping[str, Any]) -> None:
    """The page shows records of the topic in its address. One that its user may not describe is not found."""
    if rights.topic(path["topic"]):
        rights.check_reads(path["topic"])


def aborts(rights: Rights, _path: Mapping[str, Any]) -> None:
    """The page aborts transactions."""
    rights.check_aborts()


def rights_of(request: Request) -> Rights:
    """Return what the user of a request may see, which `note_rights` has noted; before it, nothing."""
    rights: Rights = getattr(request.state, "rights", NOTHING)
    return rights


async def note_rights(site: Site, request: Request) -> None:
    """Note with a request what its user may see. Raises UserError if that cannot be asked."""
    request.state.rights = await site.rights.of(site.agents(request))


def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form, which `read_form` has read."""
    form: dict[str, str] = getattr(request.state, "form", {})
    return form


async def read_form(request: Request) -> None:
    """Note with a request the fields of its form. Raises BadRequest, and ClientDisconnect."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.FORM_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > limits.FORM_BYTES:
                    raise BadRequest("the form is too large")
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=16)
    except TimeoutError as error:
        raise BadRequest("the form came too slowly") from error
    except ValueError as error:
        raise BadRequest("the form cannot be read") from error
    request.state.form = dict(fields)


_FAILURES: Final = (
    (NotAllowed, 403, "Not allowed"),
    (NotThere, 404, "Not found"),
    (BootstrapUnavailable, 503, "No agent answers"),
    (UserError, 400, "Not possible"),
    (CommandRefused, 502, "Refused"),
    (ControlPlaneUnavailable, 503, "No control plane answers"),
)


class Turns:
    """Has a few requests answered at a time, each within a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(limits.REQUESTS)

    async def answer(self, site: Site, request: Request, handler: Handler) -> Response:
        """Return what `handler` answers, or a page that says why it does not."""
        if request.method == "POST":
            # Before its turn: whoever sends a form slowly keeps nobody waiting.
            try:
                await read_form(request)
            except BadRequest as error:
                return _failed(site, request, 400, "Not possible", str(error))
            except ClientDisconnect:
                return Response(status_code=400)
        try:
            async with asyncio.timeout(limits.WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            return _failed(
                site, request, 503, "Busy", "The console is busy. Try again in a moment."
            )
        try:
            async with asyncio.timeout(limits.ANSWER_SECONDS):
                return await handler(site, request)
        except TimeoutError:
            text = f"This took longer than {limits.ANSWER_SECONDS:g} seconds, and was given up."
            return _failed(site, request, 503, "Too slow", text)
        except (UserError, CommandRefused, ControlPlaneUnavailable) as error:
            code, title = next(
                (code, title) for kind, code, title in _FAILURES if isinstance(error, kind)
            )
            return _failed(site, request, code, title, str(error))
        finally:
            self._free.release()


def _failed(site: Site, request: Request, code: int, title: str, text: str) -> Response:
    return site.render(request, "failed.html", code, title=title, text=text)


def templates() -> jinja2.Environment:
    """The templates, with everything escaped that they are given."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lacuna.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=formats.number,
        short=formats.short,
        size=formats.size,
        duration=formats.duration,
        moment=formats.moment,
        name=formats.name,
        visible=formats.visible,
    )
    environment.globals.update(link=link, meanings=MEANINGS)
    return environment


def link(path: str, **query: object) -> str:
    """A path with a query of what is not None."""
    given = {key.rstrip("_"): value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


_WIDEST: Final = (1 << 63) - 1


def whole(query: Mapping[str, str], name: str, default: int) -> int:
    """A parameter that is a whole number of at least 0; `default` if it is missing or empty. Raises BadRequest."""
    text = query.get(name, "").strip().replace(",", "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= _WIDEST):
        raise BadRequest(f"{name} is {text[:40]!r}: give a whole number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Paging:
    """One page of `total` rows, the first of which has the index `first`."""

    first: int
    total: int

    @classmethod
    def of(cls, query: Mapping[str, str], total: int) -> "Paging":
        """The page that a query asks for; one behind the end is the last one."""
        page = whole(query, "page", 1)
        last = max(0, total - 1) // limits.ROWS
        return cls(min(max(page - 1, 0), last) * limits.ROWS, total)

    @property
    def stop(self) -> int:
        """The index behind the last row."""
        return min(self.first + limits.ROWS, self.total)

    @property
    def page(self) -> int:
        """The number of the page, from 1."""
        return self.first // limits.ROWS + 1

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // limits.ROWS))
