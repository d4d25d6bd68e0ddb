"""SRV names (RFC 2782) among the addresses of agents."""

from lacuna.base.addresses import join_address
from lacuna.base.errors import UserError, needing_extra

_SECONDS = 5.0


def resolved(addresses: str) -> str:
    """Replace each SRV name among comma-separated addresses with its targets as HOST:PORT.

    An entry is an SRV name if it begins with an underscore. Raises UserError if it cannot be resolved.
    """
    entries = (entry.strip() for entry in addresses.split(","))
    return ",".join(
        each
        for entry in entries
        for each in (_targets_of(entry) if entry.startswith("_") else [entry])
    )


def _targets_of(name: str) -> list[str]:
    """Return the targets of an SRV name as HOST:PORT, in the order in which clients should try them."""
    with needing_extra(f"the SRV name {name}", "srv"):
        from dns.exception import DNSException
        from dns.rdtypes.IN.SRV import SRV
        from dns.resolver import resolve
    try:
        answer = resolve(name, "SRV", lifetime=_SECONDS)
    except DNSException as error:
        raise UserError(
            f"the SRV name {name} cannot be resolved: {str(error).rstrip('.')}. Check the name, or use HOST:PORT"
        ) from error
    targets = [] if answer.rrset is None else answer.rrset.processing_order()
    return [
        join_address(str(each.target).rstrip("."), each.port)
        for each in targets
        if isinstance(each, SRV)
    ]
