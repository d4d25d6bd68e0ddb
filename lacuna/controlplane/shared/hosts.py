"""Client addresses in the form that ACLs and quotas use."""

import ipaddress


def plain_host(host: str) -> str:
    """Return a host in canonical form, since ::1 has several forms, and IPv4 clients may appear as ::ffff:ADDRESS."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_host(text: str) -> bool:
    """Whether `text` is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
