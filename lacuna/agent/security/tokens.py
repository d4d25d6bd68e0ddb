"""Delegation tokens (KIP-48): a client logs in with SCRAM, using the token's id as the name and its HMAC as the
password.

The control plane stores the ids, owners and times of tokens. The HMAC is computed from the id with a key that all
agents have (delegation.token.secret.key), so the control plane's data alone does not let anyone use a token.
"""

import asyncio
import base64
import hmac
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lacuna.agent.clock import WallClock
from lacuna.agent.security.sasl.mechanism import Authenticated
from lacuna.agent.security.sasl.users import Verifier, derived_salt, verifier
from lacuna.agent.security.settings import SecuritySettings
from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.security_pb2 import DelegationToken

_LEAST_KEY_BYTES: Final = 16
_MOST_REMEMBERED: Final = 1024


def principal_of(text: str) -> Principal:
    """Parse the principal of a token. Names are kept unchanged even if they begin or end with spaces."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


class DelegationTokens:
    """The delegation tokens of a cluster, and their HMACs."""

    def __init__(self, settings: SecuritySettings, security: Security, clock: WallClock) -> None:
        """Raises UserError if the key cannot be read or is too short."""
        self._security = security
        self._clock = clock
        reference = settings.token_key
        self._key = read_secret(reference, "delegation.token.secret.key") if reference else b""
        if reference and len(self._key) < _LEAST_KEY_BYTES:
            raise UserError(
                f"delegation.token.secret.key is {len(self._key)} bytes long, which is too short to "
                f"prevent forged tokens: choose at least {_LEAST_KEY_BYTES} random bytes"
            )
        self._version = -1
        self._hmacs: dict[str, bytes] = {}
        self._by_hmac: dict[bytes, str] = {}
        self._verifiers: OrderedDict[tuple[str, int], Verifier] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokens")

    @property
    def is_enabled(self) -> bool:
        return bool(self._key)

    def hmac(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def by_hmac(self, given: bytes) -> DelegationToken | None:
        if self._version != self._security.version:
            self._version = self._security.version
            self._update()
        token_id = self._by_hmac.get(given)
        return None if token_id is None else self._security.tokens.get(token_id)

    def _update(self) -> None:
        tokens = self._security.tokens
        for gone in self._hmacs.keys() - tokens.keys():
            del self._by_hmac[self._hmacs.pop(gone)]
        for new in tokens.keys() - self._hmacs.keys():
            self._hmacs[new] = self.hmac(new)
            self._by_hmac[self._hmacs[new]] = new

    async def find(self, token_id: str, mechanism: int) -> tuple[Verifier, Authenticated] | None:
        """Return the verifier of a token and its principal, or None if the token does not exist or has expired."""
        token = self._security.tokens.get(token_id)
        if not self._key or token is None or token.expiry_ms <= self._clock.now_ms():
            return None
        known = self._verifiers.get((token_id, mechanism))
        if known is None:
            password = base64.b64encode(self.hmac(token_id))
            loop = asyncio.get_running_loop()
            salt = derived_salt(self._key, token_id, mechanism)  # the same on all agents
            known = await loop.run_in_executor(self._thread, verifier, password, mechanism, salt)
            self._verifiers[token_id, mechanism] = known
            if len(self._verifiers) > _MOST_REMEMBERED:
                self._verifiers.popitem(last=False)
        else:
            self._verifiers.move_to_end((token_id, mechanism))
        return known, Authenticated(principal_of(token.owner), token.expiry_ms, is_token=True)
