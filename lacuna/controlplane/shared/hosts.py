"""Addresses of clients in the form that ACLs and quotas use."""

import ipaddress


def plain_host(host: str) -> str:
    """Return an address in its canonical form, since ::1 has several and an IPv4 client may appear as
    ::ffff:ADDRESS.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_host(text: str) -> bool:
    """Whether a text is an address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
