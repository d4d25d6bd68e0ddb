"""TLS between control planes, agents and jobs: with grpcio at either end, strangers, files that change, and roles."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from lacuna.base import tls as tls_files
from lacuna.base.errors import UserError
from lacuna.controlplane.client import (
    CommandRefused,
    ControlTls,
    ControlTlsSettings,
    GrpcClient,
    SessionLimits,
    confirm,
)
from lacuna.controlplane.client.errors import ControlPlaneUnavailable
from lacuna.controlplane.rpc.call import Call, CallError
from lacuna.controlplane.rpc.client import ask, connected
from lacuna.controlplane.rpc.server import RpcLimits, RpcServer
from lacuna.controlplane.service import ServiceSettings, serve
from lacuna.controlplane.shared.acls import Operation, PatternType, Permission, ResourceType
from lacuna.controlplane.shared.authorizing import STANDARD_AUTHORIZER, AuthorizerSettings
from lacuna.controlplane.shared_service import ask_status
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, DescribeLeases
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import Acl, AlterSecurity, ScramCredential, SecurityChanges
from lacuna.controlplane.v1.transactions_pb2 import InitProducerId
from tests.certificates import Authority, Certificate

ECHO = "/test.Test/Echo"
OPTIONS = (
    ("grpc.ssl_target_name_override", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
)


async def echo(call: Call) -> None:
    while (came := await call.read()) is not None:
        await call.write(came or call.peer.encode())


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
    server = RpcServer({ECHO: echo}, RpcLimits(), ControlTls(settings))
    yield await server.start("127.0.0.1:0")
    await server.stop(0.0)


def read(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_a_client_of_grpcio(authority: Authority) -> None:
    server, client = authority.issue("server"), authority.issue("client")
    credentials = grpc.ssl_channel_credentials(
        read(authority.path), read(client.key), read(client.certificate)
    )
    async with ours(settings_of(server, authority)) as address:
        channel: Any = grpc.aio.secure_channel(address, credentials, options=OPTIONS)
        async with channel:
            assert await channel.unary_unary(ECHO)(bytes(5 << 20)) == bytes(5 << 20)
            assert await channel.unary_unary(ECHO)(b"") == b"CN=client,O=tests"
        unknown: Any = grpc.aio.secure_channel(
            address, grpc.ssl_channel_credentials(read(authority.path)), options=OPTIONS
        )
        async with unknown:
            with pytest.raises(grpc.aio.AioRpcError):
                await unknown.unary_unary(ECHO)(b"x", timeout=5)


async def test_a_server_of_grpcio(authority: Authority) -> None:
    own, client = authority.issue("server"), authority.issue("client")

    async def handle(request: bytes, _context: Any) -> bytes:
        return request

    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "test.Test", {"Echo": grpc.unary_unary_rpc_method_handler(handle)}
            ),
        )
    )
    credentials = grpc.ssl_server_credentials(
        [(read(own.key), read(own.certificate))], read(authority.path), require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    tls = ControlTls(settings_of(client, authority))
    assert await ask(f"127.0.0.1:{port}", ECHO, bytes(1 << 20), 60.0, tls) == bytes(1 << 20)
    await server.stop(None)


async def test_strangers_are_refused(authority: Authority, tmp_path: Path) -> None:
    server, client = authority.issue("server"), authority.issue("client")
    other = Authority(tmp_path, "other")
    stranger = other.issue("stranger")
    async with ours(settings_of(server, authority)) as address:
        assert (
            await ask(address, ECHO, b"x", 60.0, ControlTls(settings_of(client, authority))) == b"x"
        )
        with pytest.raises(CallError):  # it presents none
            await ask(
                address,
                ECHO,
                b"x",
                60.0,
                ControlTls(ControlTlsSettings(authorities=authority.path)),
            )
        with pytest.raises(CallError):  # one of another authority
            await ask(address, ECHO, b"x", 60.0, ControlTls(settings_of(stranger, authority)))
        with pytest.raises(CallError):  # no TLS
            await ask(address, ECHO, b"x", 60.0)
        with pytest.raises(CallError, match="--control-tls-ca"):  # nor is this server known there
            await ask(address, ECHO, b"x", 60.0, ControlTls(settings_of(stranger, other)))
        tls = ControlTls(settings_of(client, authority, "User:CN=another"))
        with pytest.raises(CallError, match="CN=server,O=tests is not a control plane"):
            await ask(address, ECHO, b"x", 60.0, tls)


async def test_one_certificate_for_all_needs_no_authority(authority: Authority) -> None:
    shared, other = authority.issue("shared"), authority.issue("other")
    async with ours(settings_of(shared, None)) as address:
        assert await ask(address, ECHO, b"x", 60.0, ControlTls(settings_of(shared, None))) == b"x"
        with pytest.raises(CallError, match="not trusted"):
            await ask(address, ECHO, b"x", 60.0, ControlTls(settings_of(other, None)))


async def test_who_has_a_subject_that_cannot_be_read_is_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    latin = x509.NameAttribute(NameOID.COMMON_NAME, "\xe4", _ASN1Type.BMPString)
    subject = x509.Name([latin])
    odd, own = authority.issue("odd", subject=subject), authority.issue("own")
    for server, client in ((own, odd), (odd, own)):
        async with ours(settings_of(server, authority)) as address:
            with pytest.raises(CallError):
                await ask(address, ECHO, b"x", 60.0, ControlTls(settings_of(client, authority)))
        assert "the subject of the certificate cannot be read" in caplog.text
        caplog.clear()


async def test_files_that_change_are_used_by_the_next_connections(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_files, "_LOOK_SECONDS", 0.0)
    server, client = authority.issue("server"), authority.issue("client")
    tls = ControlTls(settings_of(client, authority))
    async with ours(settings_of(server, authority)) as address:
        async with connected(address, ping_after=60.0, tls=tls) as link:
            assert link.peer == "CN=server,O=tests"
        newer = authority.issue("newer")
        shutil.copy(newer.key, server.key)
        shutil.copy(newer.certificate, server.certificate)
        async with asyncio.timeout(60):
            while True:
                async with connected(address, ping_after=60.0, tls=tls) as link:
                    if link.peer == "CN=newer,O=tests":
                        break
        # A certificate that does not fit its key is not used.
        shutil.copy(client.key, server.key)
        os.utime(server.key, (1, 1))
        async with asyncio.timeout(60):
            while "cannot be used, so the earlier ones stay in use" not in caplog.text:
                async with connected(address, ping_after=60.0, tls=tls) as link:
                    assert link.peer == "CN=newer,O=tests"


def test_what_is_missing_is_said(authority: Authority) -> None:
    own = authority.issue("own")
    with pytest.raises(UserError, match="a certificate needs its key"):
        ControlTls(ControlTlsSettings(certificate=own.certificate))
    with pytest.raises(UserError, match="cannot be used"):
        ControlTls(ControlTlsSettings(certificate=own.certificate, key=authority.path))


async def test_a_unix_socket_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    before = socket.socket(socket.AF_UNIX)
    before.bind(str(path))  # left by a crash
    before.close()
    server = RpcServer({ECHO: echo}, RpcLimits())
    await server.start(f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await ask(f"unix:{path}", ECHO, b"x", 60.0) == b"x"
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
    """A job reads metadata, and learns no secret: not in the snapshot, and not when users change."""
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
            init = InitProducerId(
                has_transactional_id=True,
                transactional_id=name,
                transaction_timeout_ms=1000,
                producer_id=-1,
                producer_epoch=-1,
            )
            await client.call(Command(principal="User:alice", init_producer_id=init))
        running = plane.plane
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
    """A topic appears when it may be described, can be watched when it may be read, and both end with the ACLs."""
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
