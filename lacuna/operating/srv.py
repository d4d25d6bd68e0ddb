"""SRV names (RFC 2782) among the addresses of agents."""

from lacuna.base.addresses import join_address
from lacuna.base.errors import UserError, needing_extra

_SECONDS = 5.0


def resolved(addresses: str) -> str:
    """Return comma-separated addresses in which each SRV name is replaced with the HOST:PORT of its targets.

    A name is an entry that begins with an underscore. Raises UserError if it cannot be resolved.
    """
    entries = (entry.strip() for entry in addresses.split(","))
    return ",".join(
        each
        for entry in entries
        for each in (_targets_of(entry) if entry.startswith("_") else [entry])
    )


def _targets_of(name: str) -> list[str]:
    """Return HOST:PORT of the targets of an SRV name, in the order in which clients should try them."""
    with needing_extra(f"the SRV name {name}", "srv"):
        from dns.exception import DNSException
        from dns.rdtypes.IN.SRV import SRV
        from dns.resolver import resolve
    try:
        answer = resolve(name, "SRV", lifetime=_SECONDS)
    except DNSException as error:
        raise UserError(
            f"the SRV name {name} cannot be resolved: {str(error).rstrip('.')}. Check the name, or write HOST:PORT"
        ) from error
    targets = [] if answer.rrset is None else answer.rrset.processing_order()
    return [
        join_address(str(each.target).rstrip("."), each.port)
        for each in targets
        if isinstance(each, SRV)
    ]
