"""TLS over real sockets: versions, client certificates, changed files, and clients that never finish the handshake."""

import asyncio
import logging
import os
import resource
import shutil
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from lacuna.agent import handshake
from lacuna.agent.security.access import Access
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.security.tls import Tls
from lacuna.agent.server import AgentServer
from lacuna.agent.settings import AgentSettings
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.security import Security
from tests.agent.doors import event_loop_policy  # noqa: F401 - a fixture
from tests.agent.harness import RawClient, ScriptedControl, make_context, serving
from tests.certificates import Authority, Certificate
from tests.doubles.clock import ManualClock, until

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")

TLS_1_1 = ssl.TLSVersion.TLSv1_1
TLS_1_2 = ssl.TLSVersion.TLSv1_2
TLS_1_3 = ssl.TLSVersion.TLSv1_3
MANY_FILES = 4096
SUBJECT = "CN=client,O=tests"


class Files:
    """An authority, and the files that it has signed."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.agent = self.authority.issue("agent")
        self.client = self.authority.issue("client")

    def settings(self, own: Certificate | None = None, /, **given: Any) -> SecuritySettings:
        own = own or self.agent
        named = {"certificate": own.certificate, "key": own.key, "authorities": self.authority.path}
        return SecuritySettings(**named | given)

    def context(self, own: Certificate | None = None, ca: str = "") -> ssl.SSLContext:
        """Return a client's context."""
        made = ssl.create_default_context(cafile=ca or self.authority.path)
        if own is not None:
            made.load_cert_chain(own.certificate, own.key)
        return made


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def listening(
    settings: SecuritySettings, protocol: Protocol = Protocol.SSL, **more: Any
) -> AsyncIterator[AgentServer]:
    listeners = (Listener(protocol.value, protocol),)
    access = Access(settings, listeners, Security(), ManualClock())
    agent = AgentSettings(listeners=listeners, **more)
    async with serving(make_context(ScriptedControl(), agent, access=access)) as server:
        yield server


async def connect(
    server: AgentServer, context: ssl.SSLContext, name: str = "localhost"
) -> RawClient:
    return RawClient(
        *await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)
    )


async def is_served(client: RawClient) -> bool:
    """Return whether requests are answered. With TLS 1.3, a client learns only now of a rejected certificate."""
    try:
        answer = await client.ask(18, 0)
    except (OSError, asyncio.IncompleteReadError):
        return False
    return bool(answer.error_code == 0)


async def principals(server: AgentServer) -> set[str]:
    return {str(peer.session.principal) for peer in server.peers()}


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("protocol", [Protocol.SSL, Protocol.SASL_SSL])
async def test_versions_that_are_taken(
    files: Files, version: ssl.TLSVersion, protocol: Protocol
) -> None:
    context = files.context()
    context.minimum_version = context.maximum_version = version
    async with listening(files.settings(), protocol) as server:
        client = await connect(server, context)
        assert await is_served(client)
        await client.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize(
    ("enabled", "version"),
    [("TLSv1.2,TLSv1.3", TLS_1_1), ("TLSv1.3", TLS_1_2), ("TLSv1.2", TLS_1_3)],
)
async def test_versions_that_are_not_enabled_are_refused(
    files: Files, enabled: str, version: ssl.TLSVersion
) -> None:
    context = files.context()
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")  # otherwise, OpenSSL does not offer TLS 1.1
    async with listening(files.settings(tls_versions=enabled)) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(server, context)
        assert server.context.metrics.authentications_failed == 1


@pytest.mark.parametrize(
    ("auth", "has_certificate", "principal"),
    [
        ("none", False, "User:ANONYMOUS"),
        ("none", True, "User:ANONYMOUS"),
        ("requested", False, "User:ANONYMOUS"),
        ("requested", True, f"User:{SUBJECT}"),
        ("required", True, f"User:{SUBJECT}"),
        ("required", False, None),
    ],
)
async def test_client_certificates(
    files: Files, auth: str, has_certificate: bool, principal: str | None
) -> None:
    async with listening(files.settings(client_auth=auth)) as server:
        client = await connect(server, files.context(files.client if has_certificate else None))
        assert await is_served(client) == (principal is not None)
        assert await principals(server) == ({principal} if principal else set())
        client.writer.transport.abort()


async def test_clients_of_listeners_with_sasl_need_no_certificate(files: Files) -> None:
    async with listening(files.settings(client_auth="required"), Protocol.SASL_SSL) as server:
        client = await connect(server, files.context())
        assert await is_served(client)
        await client.close()


@pytest.mark.parametrize("auth", ["requested", "required"])
async def test_certificates_that_have_expired_or_are_of_others_are_refused(
    files: Files, auth: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expired = files.authority.issue("expired", has_expired=True)
    foreign = Authority(tmp_path, "other").issue("client")
    async with listening(files.settings(client_auth=auth)) as server:
        for own in (expired, foreign):
            client = await connect(server, files.context(own))
            assert not await is_served(client)
            client.writer.transport.abort()
        assert server.context.metrics.authentications_failed == 2
    assert "certificate has expired" in caplog.text
    assert "unable to get local issuer certificate" in caplog.text


async def test_clients_check_the_agent_too(files: Files, tmp_path: Path) -> None:
    async with listening(files.settings()) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(server, files.context(ca=Authority(tmp_path, "other").path))
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(server, files.context(), "other.example")


async def test_rules_name_principals_and_refuse_those_without_a_name(files: Files) -> None:
    settings = files.settings(
        client_auth="required", mapping_rules="RULE:^CN=(cli.*?),O=tests$/$1/U"
    )
    async with listening(settings) as server:
        client = await connect(server, files.context(files.client))
        assert await is_served(client)
        assert await principals(server) == {"User:CLIENT"}
        refused = await connect(server, files.context(files.authority.issue("other")))
        assert not await is_served(refused)
        for each in (client, refused):
            each.writer.transport.abort()


@pytest.mark.parametrize("form", ["pem", "pkcs12"])
async def test_keys_with_passwords(
    files: Files, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = files.authority.issue("encrypted", password="right")
    if form == "pem":
        settings = files.settings(own, key_password="env:PASSWORD")
    else:
        given = {"keystore": own.keystore, "keystore_password": "env:PASSWORD"}
        settings = files.settings(**given, certificate="", key="")
    monkeypatch.setenv("PASSWORD", "right")
    async with listening(settings) as server:
        client = await connect(server, files.context())
        assert await is_served(client)
        await client.close()
    monkeypatch.setenv("PASSWORD", "wrong")
    with pytest.raises(UserError, match="cannot be used") as failure:
        Tls(settings)
    assert "wrong" not in str(failure.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"certificate": "/none"}, "/none cannot be read"),
        ({"key": ""}, "specify one key for each certificate"),
        ({"tls_versions": "TLSv1.1"}, "choose TLSv1.2, TLSv1.3 or both"),
        ({"cipher_suites": "NONE-SUCH"}, "no suite that OpenSSL supports"),
        (
            {"client_auth": "required", "authorities": ""},
            "specify an authority's PEM file with --tls-ca",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_at_the_start(
    files: Files, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Tls(files.settings(**given))


def test_files_that_have_something_else_are_an_error_at_the_start(
    files: Files, tmp_path: Path
) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    own = files.agent
    both = f"{own.certificate},{nonsense}", f"{own.key},{own.key}"
    for given in (
        {"certificate": str(nonsense)},
        {"key": files.client.key},
        {"authorities": str(nonsense), "client_auth": "required"},
        {"keystore": str(nonsense)},
        {"certificate": both[0], "key": both[1]},
    ):
        with pytest.raises(UserError, match=r"cannot be (used|read)"):
            Tls(files.settings(**given))


def common_name(client: RawClient) -> str:
    """Return the common name of the certificate that the agent presented."""
    subject = client.writer.get_extra_info("peercert")["subject"]
    return str(dict(field for (field,) in subject)["commonName"])


async def test_an_agent_has_a_certificate_for_each_of_its_names(files: Files) -> None:
    inside = files.authority.issue("inside", "inside.example")
    outside = files.authority.issue("outside", "*.outside.example")
    both = f"{inside.certificate}, {outside.certificate}", f"{inside.key},{outside.key}"
    async with listening(files.settings(certificate=both[0], key=both[1])) as server:
        for name, expected in (
            ("inside.example", "inside"),
            ("a.outside.example", "outside"),
            ("A.Outside.Example", "outside"),
        ):
            client = await connect(server, files.context(), name)
            assert common_name(client) == expected
            await client.close()
        lax = files.context()
        lax.check_hostname = False
        client = await connect(server, lax, "unknown.example")
        assert common_name(client) == "inside"
        await client.close()


async def test_a_certificate_whose_subject_cannot_be_read_is_refused(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL accepts text that is not UTF-8."""
    latin = x509.NameAttribute(NameOID.COMMON_NAME, "\xe4", _ASN1Type.BMPString)
    own = files.authority.issue("latin", subject=x509.Name([latin]))
    async with listening(files.settings(client_auth="required")) as server:
        client = await connect(server, files.context(own))
        assert not await is_served(client)
        client.writer.transport.abort()
        assert server.context.metrics.authentications_failed == 1
        assert await principals(server) == set()
    assert "the subject of the certificate cannot be read" in caplog.text


async def test_a_subject_stays_on_its_line_of_the_log(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    long = x509.NameAttribute(NameOID.COMMON_NAME, "a\nFORGED" + "b" * 50)
    more = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "c" * 60)
    own = files.authority.issue("long", subject=x509.Name([more, long]))
    settings = files.settings(client_auth="required", mapping_rules="RULE:^CN=other$/$0/")
    async with listening(settings) as server:
        client = await connect(server, files.context(own))
        assert not await is_served(client)
        client.writer.transport.abort()
    (said,) = [each for each in caplog.messages if "no rule in" in each]
    assert said.isprintable()
    assert "c" * 60 not in said


async def test_an_error_after_the_handshake_closes_the_connection(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("an error of ours")

    async with listening(files.settings()) as server:
        with monkeypatch.context() as patched:
            patched.setattr(Access, "session", broken)
            client = await connect(server, files.context())
            assert not await is_served(client)
            client.writer.transport.abort()
        assert "connection closed by an unexpected error" in caplog.text
        assert not server._handshakes
        other = await connect(server, files.context())
        assert await is_served(other)
        await other.close()


async def test_what_arrives_before_there_is_a_connection_is_bounded() -> None:
    here, there = socket.socketpair()
    with there:
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, sock=here
        )
        early = handshake._Early(transport)
        for _ in range(4):
            early.data_received(bytes(256 * 1024))
        assert len(early.data) == 1 << 20
        assert not transport.is_closing()
        early.data_received(b"x")
        assert transport.is_closing()
        assert early.is_lost
        assert not early.data


async def test_files_that_change_are_used_for_new_connections(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lacuna")
    first, second = files.authority.issue("first"), files.authority.issue("second")
    async with listening(files.settings(first)) as server:
        tls = server.context.access.tls
        assert tls is not None

        async def connected() -> RawClient:
            tls.watched._looked_at = 0.0  # more than a second has passed
            return await connect(server, files.context())

        old = await connected()
        assert common_name(old) == "first"
        Path(first.certificate).write_text("nonsense")
        during = await connected()
        assert common_name(during) == "first"
        assert "cannot be used, so the previous ones stay in use" in caplog.text
        os.unlink(first.certificate)
        gone = await connected()
        assert common_name(gone) == "first"
        shutil.copy(second.certificate, first.certificate)
        shutil.copy(second.key, first.key)
        new = await connected()
        assert common_name(new) == "second"
        assert "TLS files have changed: new connections use the new files" in caplog.text
        for client in (old, during, gone, new):
            assert await is_served(client)
            await client.close()


# Clients that do not shake hands.


def hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "beginning",
    [
        lambda _: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole,
    ],
)
async def test_who_does_not_go_on_is_closed_after_a_while_and_counted(
    files: Files,
    beginning: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(handshake, "_HANDSHAKE_SECONDS", 0.1)
    async with listening(files.settings()) as server:
        client = await RawClient.connect(server.port)
        client.send(beginning(hello(files.context())))
        async with asyncio.timeout(60):
            await client.reader.read()
        assert server.context.metrics.authentications_failed == 1
        assert server.peers() == []
    assert "TLS handshake with SSL failed: SSL handshake is taking longer" in caplog.text


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">ihhih", 10, 18, 0, 1, -1), b"\x16" * 600]
)
async def test_who_speaks_something_else_is_closed_at_once(files: Files, sent: bytes) -> None:
    async with listening(files.settings()) as server:
        client = await RawClient.connect(server.port)
        client.send(sent)
        async with asyncio.timeout(60):
            await client.reader.read()
        await client.close()
        assert server.context.metrics.authentications_failed == 1


async def test_who_leaves_in_the_middle_is_forgotten(files: Files) -> None:
    async with listening(files.settings(), max_connections=1) as server:
        for _ in range(3):
            client = await RawClient.connect(server.port)
            client.send(hello(files.context())[:50])
            await client.close()
            await until(lambda: not server._handshakes)
        served = await connect(server, files.context())
        assert await is_served(served)
        await served.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow enough open files for both ends of a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MANY_FILES:
        pytest.skip(f"needs {MANY_FILES} open files (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY_FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
async def test_slow_handshakes_count_as_connections_and_hold_up_nobody(files: Files) -> None:
    """A thousand clients send nothing: others still finish their handshakes, and all beyond the bound are rejected."""
    count = 1000
    async with listening(files.settings(), max_connections=count + 1) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
        try:
            await until(lambda: len(server._handshakes) >= count)
            client = await connect(server, files.context())
            assert await is_served(client)
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await connect(server, files.context())
            assert server.context.metrics.connections_refused == 1
            assert await is_served(client)
            slow.pop().close()
            await until(lambda: len(server._handshakes) < count)
            other = await connect(server, files.context())
            assert await is_served(other)
            for each in (client, other):
                await each.close()
        finally:
            for silent in slow:
                silent.close()


def test_a_keystore_has_a_key_with_a_certificate(files: Files, tmp_path: Path) -> None:
    empty = tmp_path / "empty.p12"
    certificate = x509.load_pem_x509_certificate(Path(files.agent.certificate).read_bytes())
    empty.write_bytes(
        pkcs12.serialize_key_and_certificates(b"", None, None, [certificate], NoEncryption())
    )
    with pytest.raises(UserError, match="has no key with a certificate"):
        Tls(files.settings(keystore=str(empty)))
