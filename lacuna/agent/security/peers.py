"""How the agents of a cluster know one another, where their first listener asks who connects.

They authenticate by SCRAM, with a password that follows from the secret which the control plane tells agents and nobody
else. So there is nothing to configure, and neither the secret nor the password is ever sent. Each leader has a secret
of its own; an agent that is cut off while the leader changes has an earlier one, which the others take for a while.
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

#: Another agent of the cluster. No user is one, as users have another type.
PEER: Final = Principal("Agent", "peer")
#: It is enabled wherever there is SASL, and named to no client.
PEER_MECHANISM: Final = "LACUNA-PEER"
_HASH: Final = "sha256"
_MOST_SECRETS: Final = 3


class _Known:
    """What follows from a secret."""

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
        #: By the secrets, the last of which is current.
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._cluster.add_listener(self._look)
        self._look()

    def stop(self) -> None:
        """Learn no more secrets."""
        self._cluster.remove_listener(self._look)

    def _look(self) -> None:
        secret = self._cluster.peer_secret
        if secret and secret not in self._known:
            self._known[secret] = _Known(secret)
            if len(self._known) > _MOST_SECRETS:
                self._known.popitem(last=False)

    @property
    def secret(self) -> bytes:
        """The last secret that the control plane has told; b"" before."""
        return next(reversed(self._known), b"")

    async def find(self, name: str, _mechanism: int) -> tuple[Verifier, Authenticated] | None:
        """Return how to check another agent that uses the secret with this name, and who it is then."""
        for known in self._known.values():
            if known.name == name:
                return known.verifier, Authenticated(PEER)
        return None

    def credentials(self) -> Credentials | None:
        """Return how this agent authenticates; None before the control plane has told a secret."""
        if not self._known:
            return None
        known = next(reversed(self._known.values()))
        return Credentials(
            PEER_MECHANISM,
            lambda: scram_exchange(_HASH, known.name, known.password, is_token=True),
        )
