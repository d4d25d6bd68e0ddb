"""Changes to the cluster. Each has a form, a preview of its effect, and a confirmation.

An agent makes the change with the visitor's credentials, so the visitor needs exactly the permissions that Kafka
requires. The confirmation contains a token for the previewed values, so no other values can be confirmed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lacuna.base.errors import UserError
from lacuna.console import limits
from lacuna.console.rights import NotAllowed, Rights
from lacuna.console.site import BadRequest, Needs, Page, Site, form_of, link, rights_of
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.operating.kafka import KafkaConnection
from lacuna.wire.layout import Message

Q = TypeVar("Q")
R = TypeVar("R")

_DENIED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic or the partition does not exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic with this name already exists",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use 1 to 249 ASCII letters, digits, dots, underscores and hyphens",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.NON_EMPTY_GROUP: "the group still has members: stop its consumers first",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not have this offset",
    ErrorCode.SECURITY_DISABLED: "ACLs have no effect, since the agents run without an authorizer",
    ErrorCode.RESOURCE_NOT_FOUND: "the user does not exist",
    ErrorCode.INVALID_RECORD: "the topic is compacted, so each record needs a key",
    ErrorCode.MESSAGE_TOO_LARGE: "the record is larger than the topic's max.message.bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A form field. `choices` apply to `select` fields; `hint` explains what to enter."""

    name: str
    label: str
    kind: Literal["text", "number", "lines", "select", "secret", "check", "hidden"] = "text"
    value: str = ""
    hint: str = ""
    choices: Sequence[str] = ()
    is_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A preview of a change, as sentences and a table.

    `pins` are values that the confirmation repeats, such as the offsets that "end" stood for, so that exactly the
    previewed change is made.
    """

    sentences: Sequence[str]
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    is_destructive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A request for a change; `given` contains the parts of its address and the fields of its form."""

    site: Site
    request: Request
    given: Mapping[str, str]

    @property
    def rights(self) -> Rights:
        return rights_of(self.request)

    def text(self, name: str) -> str:
        """Return a field, stripped of surrounding whitespace."""
        return self.given.get(name, "").strip()

    def number(self, name: str, default: int | None = None) -> int:
        """Parse a field as a whole number. Raises BadRequest."""
        text = self.text(name).replace(",", "")
        if not text and default is not None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise BadRequest(f"{name} is {text[:40]!r}: enter a whole number")
        return int(text)

    def connection(self) -> KafkaConnection:
        return KafkaConnection(
            self.site.agents(self.request), limits.ASK_SECONDS, limits.RESPONSE_BYTES
        )

    async def ask(self, form: Message[Q], answer: Message[R], version: int, query: Q) -> R:
        """Send one request to an agent as the visitor, and return the response. Raises UserError."""
        async with self.connection() as connection:
            return await connection.ask(form, answer, version, query)


@dataclass(frozen=True, slots=True)
class Done:
    """A completed change: a message about it, and the address of a page that shows the result."""

    said: str
    path: str


Fields: TypeAlias = Callable[[Turn], Awaitable[Sequence[Field]]]


async def _no_fields(_turn: Turn) -> Sequence[Field]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change: its address, required permission, form, preview, and the function that makes it.

    Without a preview, submitting the form makes the change. Without fields, the address alone identifies the change.
    """

    path: str
    title: str
    button: str
    needs: Needs
    fields: Fields = _no_fields
    apply: Callable[[Turn], Awaitable[Done]]
    preview: Callable[[Turn], Awaitable[Effect]] | None = None
    #: The page that links to the form; with `row`, a table row links to it.
    on: Literal["topics", "topic", "group", "access", "row"]
    back: Callable[[Turn], str]

    def address(self, **subject: str) -> str:
        """Return the address of the form for the given topic or group."""
        path = self.path.format(**{name: quote(text) for name, text in subject.items()})
        return link(path, id=subject.get("group"))

    def is_for(self, rights: Rights, subject: Mapping[str, str]) -> bool:
        """Whether a user with these rights may see the form."""
        try:
            self.needs(rights, subject)
        except NotAllowed:
            return False
        return True

    def pages(self) -> tuple[Page, Page]:
        """Return the page that shows the form and the page that receives it."""
        return Page(self.path, self.form, self.needs), Page(
            self.path, self.send, self.needs, method="POST"
        )

    async def form(self, site: Site, request: Request) -> Response:
        """Show the form, filled in from the query parameters."""
        check_writes(site)
        turn = Turn(site=site, request=request, given=dict(request.query_params))
        if self.preview is not None and not await self.fields(turn):
            return await self._form(turn, effect=await self.preview(turn))
        return await self._form(turn)

    async def send(self, site: Site, request: Request) -> Response:
        """Show the preview or, once it is confirmed, make the change."""
        check_writes(site)
        form = dict(form_of(request))
        token, confirmed = form.pop("token", ""), form.pop("confirmed", "")
        turn = Turn(site=site, request=request, given=form)
        browser = site.tokens.browser_of(request.headers)
        action = self._action(turn) if confirmed else self._address(turn)
        if not site.tokens.is_right(browser, action, token):
            text = "This form comes from another console or is too old. Go back, reload the page, and try again."
            return site.render(request, "failed.html", 403, title="Refused", text=text)
        try:
            if confirmed or self.preview is None:
                done = await self.apply(turn)
                site.rights.forget(site.agents(request))
                return RedirectResponse(site.saying(request, done.path, done.said), 303)
            effect = await self.preview(turn)
        except NotAllowed:
            raise
        except UserError as error:
            return await self._form(turn, str(error))
        return await self._form(turn, effect=effect)

    async def _form(self, turn: Turn, wrong: str = "", effect: Effect | None = None) -> Response:
        fields = [
            replace(each, value=turn.given.get(each.name, each.value))
            for each in await self.fields(turn)
        ]
        if effect:
            turn = replace(turn, given={**turn.given, **effect.pins})
        action = self._action(turn) if effect else self._address(turn)
        context: dict[str, Any] = {"edit": self, "fields": fields, "wrong": wrong, "effect": effect}
        return turn.site.render(
            turn.request,
            "edit.html",
            400 if wrong else 200,
            address=self._address(turn),
            action=action,
            back=self.back(turn),
            given=turn.given,
            most_rows=limits.ROWS,
            subject=turn.request.path_params.get("topic")
            or turn.request.query_params.get("id", ""),
            **context,
        )

    def _address(self, turn: Turn) -> str:
        """Return the form's address, which includes the names of the topic or group."""
        query = turn.request.url.query
        return f"{turn.request.url.path}?{query}" if query else turn.request.url.path

    def _action(self, turn: Turn) -> str:
        """Return the text to which a confirmation's token is bound: the change with these values."""
        values = "\0".join(f"{name}\0{value}" for name, value in sorted(turn.given.items()))
        return f"{self._address(turn)} {sha256(values.encode('utf-8', 'replace')).hexdigest()}"


def check_writes(site: Site) -> None:
    """Raise BadRequest if the console is read-only."""
    if not site.may_write:
        raise BadRequest(
            "This console is read-only: start it with --console-writes to allow changes."
        )


def check(error_code: int, subject: str, message: str | None = None) -> None:
    """Raise NotAllowed or BadRequest if a response about `subject` contains an error."""
    code = ErrorCode(error_code)
    if code is ErrorCode.NONE:
        return
    if code in _DENIED:
        raise NotAllowed(
            f"{subject}: ACLs do not allow it. An administrator can grant it with lacuna acls add"
        )
    reason = _REASONS.get(code) or message or f"the agent answered {code.name}"
    raise BadRequest(f"{subject}: {reason}")


def agents_decide(_rights: Rights, _path: Mapping[str, Any]) -> None:
    """Leave the decision to an agent: a prefixed ACL may grant the permission, which the console cannot know."""


def on_cluster(operation: Operation) -> Needs:
    """Require permission for an operation on the cluster."""

    def needs(rights: Rights, _path: Mapping[str, Any]) -> None:
        rights.check_cluster(operation)

    return needs


def to_access(_turn: Turn) -> str:
    return "/access"
