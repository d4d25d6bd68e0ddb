"""Incomplete security settings fail at the start."""

from pathlib import Path
from typing import Any

import pytest

from lacuna.agent.security.access import Access
from lacuna.agent.security.listeners import Listener, Protocol
from lacuna.agent.security.settings import SecuritySettings
from lacuna.agent.settings import AgentSettings
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.security_pb2 import ScramCredential, SecurityChanges
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.doubles.clock import ManualClock

SASL = Listener("SASL_PLAINTEXT", Protocol.SASL_PLAINTEXT)


def access(*listeners: Listener, kept: Security | None = None, **given: object) -> Access:
    return Access(SecuritySettings(**given), listeners, kept or Security(), ManualClock())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"authorities": "ca.pem"}, "ssl.ca.location is set, but no listener uses TLS"),
        ({"key": "key.pem"}, "ssl.key.location is set, but no listener uses TLS"),
        ({"client_auth": "required"}, "ssl.client.auth is set, but no listener uses TLS"),
        ({"users_file": "users.toml"}, "sasl.users.file is set, but no listener uses SASL"),
    ],
)
def test_what_no_listener_uses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        access(Listener(), **given)


def test_users_whom_nobody_could_add(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no users.*--users-file"):
        access(SASL).check_users()
    with (
        pytest.raises(UserError, match="there are no users"),
        Cluster(parts=AgentParts(agent=AgentSettings(listeners=(SASL,)))),
    ):
        pass
    (tmp_path / "password").write_text("secret")
    users = tmp_path / "users.toml"
    users.write_text(f'admin = "file:{tmp_path / "password"}"')
    kept = Security()
    credential = ScramCredential(user="alice", mechanism=1, stored_key=b"x")
    kept.apply(SecurityChanges(credentials=[credential]))
    for allowed in (
        access(Listener(), SASL),  # users are added without SASL
        access(SASL, users_file=str(users)),
        access(SASL, kept=kept),
        access(SASL, mechanisms="OAUTHBEARER", oauth_unsecured=True),
    ):
        allowed.check_users()
