"""What all pages share: sources, templates and limits."""

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
from lacuna.console.decoding import Decoding
from lacuna.console.logins import Logins
from lacuna.console.rights import NOTHING, NotAllowed, Rights, RightsOfUsers
from lacuna.console.sampling import History, Sampler
from lacuna.console.security import COOKIE, Tokens
from lacuna.console.sources import Sources
from lacuna.console.strip import MEANINGS
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.operating.kafka import Agents, BootstrapUnavailable


class NotThere(UserError):
    """The subject of a page, which the message names, does not exist."""


class BadRequest(UserError):
    """A parameter of a page, which the message names, is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What every page needs to answer a request."""

    sources: Sources
    sampler: Sampler
    history: History
    tokens: Tokens
    rights: RightsOfUsers
    #: The users who have logged in, if a login is required.
    logins: Logins | None
    may_write: bool
    #: Decodes records with a schema registry, if one is configured.
    decoding: Decoding | None
    templates: jinja2.Environment
    #: Returns the addresses and titles of the pages that each page's head links to, for a user with these rights.
    links: Callable[[Rights], Sequence[tuple[str, str]]]
    #: Returns the addresses and titles of the changes that a page offers for its subject, to a user with these rights.
    actions: Callable[[str, Rights, Mapping[str, str]], Sequence[tuple[str, str]]]

    def agents(self, request: Request) -> Agents:
        """Return the agents, with the credentials of the request's user. Raises UserError without a login."""
        agents = self.sources.agents()
        if self.logins is None:
            return agents
        login = self.logins.find(request)
        if login is None:
            raise UserError("your login has ended: log in again")
        return Agents(agents.addresses, replace(agents.security, credentials=login.credentials))

    def render(self, request: Request, template: str, code: int = 200, **context: Any) -> Response:
        """Render a template as the response."""
        browser = self.tokens.browser_of(request.headers)
        login = self.logins.find(request) if self.logins is not None else None
        rights = rights_of(request)
        text = self.templates.get_template(template).render(
            **context,
            request_path=request.url.path,
            cluster_id=self.sources.control.cluster.cluster_id,
            may_write=self.may_write,
            links=self.links(rights),
            user=login.user if login is not None else "",
            said=self._said(request, browser),
            now_ms=self.sources.now_ms(),
            token_for=lambda action: self.tokens.token(browser, action),
        )
        response = HTMLResponse(text, code)
        if request.cookies.get(COOKIE) != browser:
            response.set_cookie(COOKIE, browser, httponly=True, samesite="strict")
        return response

    def saying(self, request: Request, path: str, text: str) -> str:
        """Return the address of a page that shows `text`, a message about a completed change, at the top."""
        browser = self.tokens.browser_of(request.headers)
        sign = "&" if "?" in path else "?"
        return f"{path}{sign}{urlencode({'said': text, 'seal': self.tokens.token(browser, text)})}"

    def _said(self, request: Request, browser: str) -> str:
        """Return the text from an address made by `saying`, which other sites cannot forge."""
        text, seal = (request.query_params.get(each, "") for each in ("said", "seal"))
        return text if text and self.tokens.is_right(browser, text, seal) else ""

    def actions_on(self, page: str, request: Request, **subject: str) -> Sequence[tuple[str, str]]:
        """Return the addresses and titles of the changes that a page offers."""
        return self.actions(page, rights_of(request), subject) if self.may_write else ()


Handler = Callable[[Site, Request], Awaitable[Response]]
#: Raises NotAllowed if a user with these rights may not see a page. The second argument holds the parts of its address.
Needs = Callable[[Rights, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its address, its handler, and the permission that it requires.

    `needs` is `leaves_out` for a page that omits what the user may not see. A page with a `title` is linked from every
    page for users with the permission `link_needs` or, by default, `needs`.
    """

    path: str
    handler: Handler
    needs: Needs
    title: str = ""
    link_needs: Needs | None = None
    method: str = "GET"

    def is_linked_for(self, rights: Rights) -> bool:
        """Whether users with these rights see a link to this page at the top of every page."""
        if not self.title:
            return False
        try:
            (self.link_needs or self.needs)(rights, {})
        except NotAllowed:
            return False
        return True

    async def answer(self, site: Site, request: Request) -> Response:
        """Handle the request if the user's rights suffice."""
        await note_rights(site, request)
        self.needs(rights_of(request), request.path_params)
        return await self.handler(site, request)


def leaves_out(_rights: Rights, _path: Mapping[str, Any]) -> None:
    """Require no permission: the page omits what the user may not describe."""


def describes_cluster(rights: Rights, _path: Mapping[str, Any]) -> None:
    """Require the right to describe the cluster."""
    rights.check_cluster()


def reads_topic(rights: Rights, path: Mapping[str, Any]) -> None:
    """Require the right to read the topic, unless it is hidden from the user, who then sees that it does not exist."""
    if rights.topic(path["topic"]):
        rights.check_reads(path["topic"])


def aborts(rights: Rights, _path: Mapping[str, Any]) -> None:
    """Require the right to abort transactions."""
    rights.check_aborts()


def rights_of(request: Request) -> Rights:
    """Return the rights of the request's user, or none at all before `note_rights`."""
    rights: Rights = getattr(request.state, "rights", NOTHING)
    return rights


async def note_rights(site: Site, request: Request) -> None:
    """Store the user's rights in the request. Raises UserError if the agents do not answer."""
    request.state.rights = await site.rights.of(site.agents(request))


def form_of(request: Request) -> dict[str, str]:
    """Return the form's fields, which `read_form` has stored."""
    form: dict[str, str] = getattr(request.state, "form", {})
    return form


async def read_form(request: Request) -> None:
    """Store the form's fields in the request. Raises BadRequest and ClientDisconnect."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.FORM_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > limits.FORM_BYTES:
                    raise BadRequest("the form is too large")
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=16)
    except TimeoutError as error:
        raise BadRequest("the form arrived too slowly: send it again") from error
    except ValueError as error:
        raise BadRequest("the form is not valid: reload the page and submit it again") from error
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
    """Limits the number of requests handled at a time, and the time for each."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(limits.REQUESTS)

    async def answer(self, site: Site, request: Request, handler: Handler) -> Response:
        """Return the handler's response, or a page that explains the failure."""
        if request.method == "POST":
            # The form is read before the request gets its turn, so that a slow form does not make others wait.
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
            text = f"This took longer than {limits.ANSWER_SECONDS:g} seconds, so it was stopped. Try again later."
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
    """Return the templates, which escape all values."""
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
    """Append a query string with the values that are not None."""
    given = {key.rstrip("_"): value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


_WIDEST: Final = (1 << 63) - 1


def whole(query: Mapping[str, str], name: str, default: int) -> int:
    """Parse a parameter as a whole number, or return `default` if it is missing or empty. Raises BadRequest."""
    text = query.get(name, "").strip().replace(",", "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= _WIDEST):
        raise BadRequest(f"{name} is {text[:40]!r}: use a whole number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Paging:
    """A page of a list with `total` rows, starting at index `first`."""

    first: int
    total: int

    @classmethod
    def of(cls, query: Mapping[str, str], total: int) -> "Paging":
        """Return the requested page, or the last one if there are fewer."""
        page = whole(query, "page", 1)
        last = max(0, total - 1) // limits.ROWS
        return cls(min(max(page - 1, 0), last) * limits.ROWS, total)

    @property
    def stop(self) -> int:
        """The index after the last row of the page."""
        return min(self.first + limits.ROWS, self.total)

    @property
    def page(self) -> int:
        """The page number, counted from 1."""
        return self.first // limits.ROWS + 1

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // limits.ROWS))
