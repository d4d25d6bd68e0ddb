"""Tests TLS between control planes, agents and jobs: strangers, names, changed files, and roles."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from google.protobuf.wrappers_pb2 import BytesValue
from grpc.experimental import session_cache as ssl_session_cache  # type: ignore[attr-defined]

from lacuna.base import tls as tls_files
from lacuna.base.errors import UserError
from lacuna.base.tls import subject_of
from lacuna.controlplane.client import (
    CommandRefused,
    ControlTls,
    ControlTlsSettings,
    GrpcClient,
    SessionLimits,
    confirm,
)
from lacuna.controlplane.client.grpc import CallError, _shown, ask_once
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.listening import Call, GrpcServer
from lacuna.controlplane.service import ServiceSettings, serve
from lacuna.controlplane.shared.acls import Operation, PatternType, Permission, ResourceType
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER, AuthorizerSettings
from lacuna.controlplane.shared_service import ask_status
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, DescribeLeases
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import Acl, AlterSecurity, ScramCredential, SecurityChanges
from tests.certificates import Authority, Certificate
from tests.controlplane.verbs.cluster import init_of

ECHO = "/test.Test/Echo"


async def echo(call: Call) -> None:
    """Echo the input. Without input, send the subject of the client's certificate."""
    came = await call.read_only(BytesValue)
    await call.write(came if came.value else BytesValue(value=call.subject.encode()))


async def asked(address: str, tls: ControlTls | None, text: bytes = b"x") -> bytes:
    request = BytesValue(value=text).SerializeToString()
    return BytesValue.FromString(await ask_once(address, ECHO, request, 60.0, tls)).value


def settings_of(own: Certificate, authority: Authority | None, principals: str = "") -> Any:
    return ControlTlsSettings(
        certificate=own.certificate,
        key=own.key,
        authorities=authority.path if authority else "",
        principals=principals,
    )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def ours(settings: ControlTlsSettings) -> AsyncIterator[str]:
    server = GrpcServer({ECHO: echo}, ControlTls(settings))
    yield await server.start("127.0.0.1:0")
    await server.stop(0.0)


async def subject_shown_by(address: str, tls: ControlTls) -> str:
    certificate, _ = await _shown(address, tls, tls.presented())
    return subject_of(ssl.PEM_cert_to_DER_cert(certificate))


async def test_strangers_are_refused(authority: Authority, tmp_path: Path) -> None:
    server, client = authority.issue("server"), authority.issue("client")
    other = Authority(tmp_path, "other")
    stranger = other.issue("stranger")
    async with ours(settings_of(server, authority)) as address:
        assert await asked(address, ControlTls(settings_of(client, authority))) == b"x"
        with pytest.raises(CallError):  # it presents none
            await asked(address, ControlTls(ControlTlsSettings(authorities=authority.path)))
        with pytest.raises(CallError):  # one of another authority
            await asked(address, ControlTls(settings_of(stranger, authority)))
        with pytest.raises(CallError, match="--control-tls-cert"):  # no TLS
            await asked(address, None)
        with pytest.raises(CallError, match="--control-tls-ca"):  # nor is this server known there
            await asked(address, ControlTls(settings_of(stranger, other)))
        tls = ControlTls(settings_of(client, authority, "User:CN=another"))
        with pytest.raises(CallError, match="CN=server,O=tests is not a control plane"):
            await asked(address, tls)


async def test_a_session_of_tls_that_is_resumed_is_refused(authority: Authority) -> None:
    """Its certificate may have expired since it was verified."""
    server, client = authority.issue("server"), authority.issue("client")
    async with ours(settings_of(server, authority)) as address:
        cache = ssl_session_cache.ssl_session_cache_lru(1)
        options = [
            ("grpc.ssl_session_cache", cache),
            ("grpc.ssl_target_name_override", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        own = (Path(client.key).read_bytes(), Path(client.certificate).read_bytes())
        credentials = grpc.ssl_channel_credentials(Path(authority.path).read_bytes(), *own)
        request = BytesValue(value=b"x").SerializeToString()
        said = []
        for _ in range(2):
            async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
                echoing: Any = channel.unary_unary(ECHO)  # type: ignore[call-arg]
                try:
                    said.append(await echoing(request))
                except grpc.aio.AioRpcError as error:
                    said.append(error.details())
        assert said[0] == request
        assert "was resumed" in said[1]


async def test_one_certificate_for_all_needs_no_authority(authority: Authority) -> None:
    shared, other = authority.issue("shared"), authority.issue("other")
    async with ours(settings_of(shared, None)) as address:
        assert await asked(address, ControlTls(settings_of(shared, None))) == b"x"
        with pytest.raises(CallError, match="not trusted"):
            await asked(address, ControlTls(settings_of(other, None)))


async def test_who_has_a_subject_that_cannot_be_read_is_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    latin = x509.NameAttribute(NameOID.COMMON_NAME, "\xe4", _ASN1Type.BMPString)
    subject = x509.Name([latin])
    odd, own = authority.issue("odd", subject=subject), authority.issue("own")
    why = "the subject of the certificate cannot be read"
    for server, client in ((own, odd), (odd, own)):
        async with ours(settings_of(server, authority)) as address:
            with pytest.raises(CallError, match=why):
                await asked(address, ControlTls(settings_of(client, authority)))
    (record,) = caplog.records
    assert why in record.message


async def test_files_that_change_are_used_by_the_next_connections(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_files, "_LOOK_SECONDS", 0.0)
    server, client = authority.issue("server"), authority.issue("client")
    tls = ControlTls(settings_of(client, authority))
    async with ours(settings_of(server, authority)) as address:
        assert await subject_shown_by(address, tls) == "CN=server,O=tests"
        newer = authority.issue("newer")
        shutil.copy(newer.key, server.key)
        shutil.copy(newer.certificate, server.certificate)
        async with asyncio.timeout(60):
            while await subject_shown_by(address, tls) != "CN=newer,O=tests":
                pass
        assert await asked(address, tls) == b"x"
        # A certificate that does not fit its key is not used.
        shutil.copy(client.key, server.key)
        os.utime(server.key, (1, 1))
        async with asyncio.timeout(60):
            while "cannot be used, so the previous ones stay in use" not in caplog.text:
                assert await subject_shown_by(address, tls) == "CN=newer,O=tests"
        assert await asked(address, tls) == b"x"


@pytest.mark.parametrize("hosts", [("some.where",), ("*.some.where",), ("::1",), ("10.0.0.1",)])
async def test_names_are_not_compared_with_addresses(
    authority: Authority, hosts: tuple[str, ...]
) -> None:
    server, client = authority.issue("server", *hosts), authority.issue("client")
    async with ours(settings_of(server, authority)) as address:
        of_client = ControlTls(settings_of(client, authority))
        assert await asked(address, of_client, b"") == b"CN=client,O=tests"


async def test_a_key_may_have_a_password(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = authority.issue("server", password="secret")
    monkeypatch.setenv("KEY_PASSWORD", "secret")
    settings = replace(settings_of(server, authority), key_password="env:KEY_PASSWORD")
    async with ours(settings) as address:
        assert await asked(address, ControlTls(settings)) == b"x"


def test_what_is_missing_is_said(authority: Authority) -> None:
    own = authority.issue("own")
    with pytest.raises(UserError, match="a certificate and its key must be given together"):
        ControlTls(ControlTlsSettings(certificate=own.certificate))
    with pytest.raises(UserError, match="cannot be used"):
        ControlTls(ControlTlsSettings(certificate=own.certificate, key=authority.path))


async def test_a_unix_socket_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    before = socket.socket(socket.AF_UNIX)
    before.bind(str(path))  # left by a crash
    before.close()
    server = GrpcServer({ECHO: echo}, None)
    await server.start(f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await asked(f"unix:{path}", None) == b"x"
    await server.stop(0.0)


@asynccontextmanager
async def client_of(
    address: str, tls: ControlTls | None, give_up_after: float = 60.0
) -> AsyncIterator[GrpcClient]:
    client = GrpcClient(address, lambda: 0.5, SessionLimits(give_up_after=give_up_after), tls=tls)
    client.start()
    try:
        yield client
    finally:
        await client.close()


async def test_roles(authority: Authority, tmp_path: Path) -> None:
    """A job can read metadata but receives no secrets, neither in the snapshot nor when users change."""
    agent, job = authority.issue("agent"), authority.issue("job")
    principals = "User:CN=agent,O=tests"
    settings = ServiceSettings(tls=settings_of(agent, authority, principals), stop_grace=0.0)
    plane = await serve("127.0.0.1:0", str(tmp_path / "journal"), settings)
    credential = ScramCredential(
        user="alice", mechanism=1, iterations=4096, salt=b"s", stored_key=b"k", server_key=b"v"
    )
    of_agent = ControlTls(settings_of(agent, authority, principals))
    of_job = ControlTls(settings_of(job, authority, principals))
    async with (
        client_of(plane.address, of_agent) as trusted,
        client_of(plane.address, of_job) as other,
    ):
        await trusted.cluster.ready()
        await other.cluster.ready()
        changes = AlterSecurity(changes=SecurityChanges(credentials=[credential]))
        await trusted.call(Command(alter_security=changes))
        topics = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
        await trusted.call(Command(create_topics=topics))
        assert (await other.call(Command(describe_leases=DescribeLeases()))).leases_described
        assert "t" in other.cluster.topics_by_name
        assert trusted.cluster.security.credentials
        assert trusted.cluster.peer_secret
        assert not other.cluster.security
        assert other.cluster.peer_secret == b""
        for command in (Command(create_topics=topics), Command(alter_security=changes)):
            with pytest.raises(CommandRefused, match="only agents and control planes may"):
                await other.call(command)
        for client, name in ((trusted, "x"), (other, "y")):
            init = init_of(name, 1000)
            await client.call(Command(principal="User:alice", init_producer_id=init))
        running = plane.runtime
        assert running is not None
        assert running.state.id_owners.of == {"x": "User:alice", "y": "User:CN=job,O=tests"}
        async with client_of(plane.address, of_job) as later:
            await later.cluster.ready()
            assert not later.cluster.security
    async with client_of(plane.address, None, give_up_after=0.5) as stranger:
        with pytest.raises(ControlPlaneUnavailable):
            await stranger.cluster.ready()
    status = await ask_status(plane.address, tls=of_job)
    assert status is not None
    assert status.is_leader
    assert await ask_status(plane.address) is None
    await plane.close()


async def test_acls_decide_what_a_job_is_shown(authority: Authority, tmp_path: Path) -> None:
    """A job sees the topics that it may describe and watches those that it may read, until the ACLs are removed."""
    agent, job = authority.issue("agent"), authority.issue("job")
    principals = "User:CN=agent,O=tests"
    settings = ServiceSettings(
        tls=settings_of(agent, authority, principals),
        authorizer=AuthorizerSettings(
            authorizer=STANDARD_AUTHORIZER, super_users="User:CN=admin,O=tests"
        ),
        stop_grace=0.0,
    )
    plane = await serve("127.0.0.1:0", str(tmp_path / "journal"), settings)
    of_agent = ControlTls(settings_of(agent, authority, principals))
    of_job = ControlTls(settings_of(job, authority, principals))

    def acl(operation: Operation) -> Acl:
        return Acl(
            resource_type=ResourceType.TOPIC,
            resource_name="t",
            pattern_type=PatternType.LITERAL,
            principal="User:CN=job,O=tests",
            host="127.0.0.1",
            operation=operation,
            permission=Permission.ALLOW,
        )

    async def change(**changes: list[Acl]) -> None:
        altered = AlterSecurity(changes=SecurityChanges(**changes))  # type: ignore[arg-type]
        await trusted.call(Command(alter_security=altered))
        await confirm(other)

    async with (
        client_of(plane.address, of_agent) as trusted,
        client_of(plane.address, of_job) as other,
    ):
        await trusted.cluster.ready()
        await other.cluster.ready()
        topics = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
        created = await trusted.call(Command(create_topics=topics))
        topic_id = created.topics_created.topics[0].topic_id
        await confirm(other)
        assert other.cluster.principal == "User:CN=job,O=tests"
        assert not other.cluster.topics_by_name
        assert trusted.cluster.principal == ""
        assert "t" in trusted.cluster.topics_by_name

        await change(added_acls=[acl(Operation.DESCRIBE)])
        assert "t" in other.cluster.topics_by_name
        view = other.partition(topic_id, 0)
        for _ in range(2):
            with pytest.raises(CommandRefused, match=r"may not READ topic t: .*acls add"):
                await view.ready()
        await change(added_acls=[acl(Operation.READ)])
        await view.ready()
        assert view.is_current
        await change(removed_acls=[acl(Operation.READ)])
        assert not view.is_current
        with pytest.raises(CommandRefused, match="may not READ topic t"):
            await view.ready()
        await change(removed_acls=[acl(Operation.DESCRIBE)])
        assert not other.cluster.topics_by_name
        with pytest.raises(CommandRefused, match="may not READ or WRITE or ALTER any topic"):
            await other.call(Command(describe_leases=DescribeLeases()))
    await plane.close()
