"""ShareQuotas: the part of each quota that an agent may give its clients until it asks again."""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import entity_of
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.security_pb2 import QuotasShared, ShareQuotas
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: A burst may use more than its second's worth.
_MOST_USED: Final = 100.0


def share_quotas(turn: Turn, command: ShareQuotas) -> Reply:
    """Assign each quota's share. Nothing durable changes, since a new leader shares quotas again within seconds."""
    if command.lease_id not in turn.state.leases:
        return Reply(quotas_shared=QuotasShared(error_code=ErrorCode.LEASE_EXPIRED))
    shares = [
        turn.state.shares.ask(
            (use.key, entity_of(use)), command.lease_id, _part(use.used), use.is_short, turn.now_ms
        )
        for use in command.uses
    ]
    return Reply(quotas_shared=QuotasShared(shares=shares))


def _part(used: float) -> float:
    """Return the use as a part of a quota; anything else counts as nothing."""
    return min(used, _MOST_USED) if used > 0 else 0.0


VERBS: Final = (Verb(share_quotas, looks=True),)
