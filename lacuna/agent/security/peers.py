"""How the agents of a cluster authenticate each other if their first listener requires it.

They use SCRAM, with a password derived from the secret that the control plane sends only to agents. There is therefore
nothing to configure, and agents never send the secret or the password to each other. Each leader has a new secret. An
agent that is cut off while the leader changes keeps the old secret, which the other agents accept for a while.
"""

import hashlib
import hmac
from collections import OrderedDict
from typing import Final

from lacuna.agent.security.sasl.mechanism import Authenticated
from lacuna.agent.security.sasl.users import LEAST_ITERATIONS, SHA_256, Verifier, verifier
from lacuna.base.sasl import Credentials, scram_exchange
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.principal import Principal

#: The principal of the other agents. No user can have it, since users have a different principal type.
PEER: Final = Principal("Agent", "peer")
#: The mechanism is enabled wherever there is SASL, and is not announced to clients.
PEER_MECHANISM: Final = "LACUNA-PEER"
_HASH: Final = "sha256"
_MOST_SECRETS: Final = 3


class _Known:
    __slots__ = ("name", "password", "verifier")

    def __init__(self, secret: bytes) -> None:
        self.name = hashlib.sha256(b"lacuna peer name" + secret).hexdigest()[:16]
        self.password = hmac.digest(secret, b"lacuna peer password", _HASH).hex()
        salt = hmac.digest(secret, b"lacuna peer salt", _HASH)[:16]
        self.verifier = verifier(self.password.encode(), SHA_256, salt, LEAST_ITERATIONS)


class PeerIdentity:
    """Authenticates this agent to others, and others to it."""

    def __init__(self, control: ControlClient) -> None:
        self._cluster = control.cluster
        #: The identities by secret, the last of which is the current one.
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._cluster.add_listener(self._look)
        self._look()

    def stop(self) -> None:
        """Stop accepting new secrets."""
        self._cluster.remove_listener(self._look)

    def _look(self) -> None:
        secret = self._cluster.peer_secret
        if secret and secret not in self._known:
            self._known[secret] = _Known(secret)
            if len(self._known) > _MOST_SECRETS:
                self._known.popitem(last=False)

    @property
    def secret(self) -> bytes:
        """The latest secret from the control plane, or b"" before the first one."""
        return next(reversed(self._known), b"")

    async def find(self, name: str, _mechanism: int) -> tuple[Verifier, Authenticated] | None:
        """Return the verifier and identity of an agent whose secret has this name, or None if that secret is not
        accepted.
        """
        for known in self._known.values():
            if known.name == name:
                return known.verifier, Authenticated(PEER)
        return None

    def credentials(self) -> Credentials | None:
        """Return this agent's credentials, or None before the control plane has sent a secret."""
        if not self._known:
            return None
        known = next(reversed(self._known.values()))
        return Credentials(
            PEER_MECHANISM,
            lambda: scram_exchange(_HASH, known.name, known.password, is_token=True),
        )
