"""The console's login, for clusters whose agents authenticate clients.

A user and password are valid if an agent accepts them. They stay in this process; the browser receives only a cookie,
which contains neither. The console reads records with the user's credentials, so it shows only what the user may read.
"""

import base64
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from lacuna.base.sasl import SCRAM, Credentials, plain, scram
from lacuna.console import limits
from lacuna.console.logins import COOKIE, LOGIN_SECONDS
from lacuna.console.site import Site, form_of
from lacuna.operating.kafka import Agents, KafkaConnection, MechanismRefused, NotAuthenticated

_ACTION: Final = "login"
_FOREIGN_FORM: Final = "This form was opened in another browser. Try again."


async def page(site: Site, request: Request) -> Response:
    return _form(site, request)


async def log_in(site: Site, request: Request) -> Response:
    """Check the user and password with an agent, and set a cookie."""
    logins, host = site.logins, request.client.host if request.client else ""
    if logins is None:
        return RedirectResponse("/", 303)
    form = form_of(request)
    if not _is_own(site, request):
        return _form(site, request, 403, _FOREIGN_FORM)
    user = form.get("user", "")
    if wait := logins.brake.wait(host, user):
        return _form(site, request, 429, f"Too many wrong passwords: try again in {wait:.0f} s.")
    credentials = await _right(site, host, user, form.get("password", ""))
    if credentials is None:
        return _form(site, request, 403, "The user does not exist, or the password is wrong.")
    response = RedirectResponse(_own_path(form.get("to", "")), 303)
    # Behind a proxy with TLS, only the browser knows that the connection is encrypted.
    is_secure = urlsplit(request.headers.get("origin", "")).scheme == "https"
    response.set_cookie(
        COOKIE,
        logins.add(user, credentials),
        max_age=int(LOGIN_SECONDS),
        httponly=True,
        samesite="strict",
        secure=is_secure,
    )
    return response


async def log_out(site: Site, request: Request) -> Response:
    if not _is_own(site, request):
        return _form(site, request, 403, _FOREIGN_FORM)
    if site.logins is not None:
        site.logins.end(request)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


async def refuse_metrics(site: Site, request: Request) -> Response | None:
    """Return the response that rejects a request for metrics, or None to allow the request.

    Clients without a login, such as Prometheus, send user and password in the request (HTTP Basic). Raises UserError if
    no agent answers.
    """
    if site.logins is None:
        if site.sources.has_acls:
            (await site.rights.of(site.sources.agents())).check_cluster()
        return None
    login, agents = site.logins.find(request), site.sources.agents()
    if login is not None:
        credentials = login.credentials
    else:
        host = request.client.host if request.client else ""
        user, password = _basic(request.headers.get("authorization", ""))
        if wait := site.logins.brake.wait(host, user):
            return PlainTextResponse(f"too many wrong passwords: wait {wait:.0f} s\n", 429)
        accepted = await _right(site, host, user, password)
        if accepted is None:
            asks = {"www-authenticate": 'Basic realm="Lacuna", charset="UTF-8"'}
            return PlainTextResponse("log in with a user and a password\n", 401, asks)
        credentials = accepted
    as_user = Agents(agents.addresses, replace(agents.security, credentials=credentials))
    (await site.rights.of(as_user)).check_cluster()
    return None


def _is_own(site: Site, request: Request) -> bool:
    """Whether this browser received the form from the console."""
    browser = site.tokens.browser_of(request.headers)
    return site.tokens.is_right(browser, _ACTION, form_of(request).get("token", ""))


def _basic(header: str) -> tuple[str, str]:
    """Parse user and password from a header (RFC 7617). Return empty strings if it contains none."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return user, password


def _form(site: Site, request: Request, code: int = 200, wrong: str = "") -> Response:
    to = _own_path(request.query_params.get("to", ""))
    return site.render(request, "login.html", code, wrong=wrong, to=to)


async def _right(site: Site, host: str, user: str, password: str) -> Credentials | None:
    """Return credentials for a mechanism that the agents accept, or None if the password is wrong.

    Raises BootstrapUnavailable, and NotAuthenticated if the agents accept no mechanism that uses passwords.
    """
    if site.logins is None or not user or not password:
        return None
    brake = site.logins.brake
    brake.begin(host, user)
    try:
        credentials = await _authenticated(site.sources.agents(), user, password)
    except BaseException:
        brake.take_back(host, user)
        raise
    if credentials is not None:
        brake.succeeded(host, user)
    return credentials


async def _authenticated(agents: Agents, user: str, password: str) -> Credentials | None:
    tried = [*(scram(each, user, password) for each in reversed(SCRAM)), plain(user, password)]
    for credentials in tried:
        security = replace(agents.security, credentials=credentials)
        try:
            async with KafkaConnection(Agents(agents.addresses, security), limits.ANSWER_SECONDS):
                return credentials
        except MechanismRefused:
            continue
        except NotAuthenticated:
            return None
    raise NotAuthenticated(
        "the agents accept no passwords: enable SCRAM or PLAIN on them, or run `lacuna console` with its own "
        "credentials in --command-config"
    )


def _own_path(text: str) -> str:
    """Return the text if it is a path within the console, otherwise "/"."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\", "/login")) else "/"
