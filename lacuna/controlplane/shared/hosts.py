"""Addresses of clients, as ACLs and quotas name them."""

import ipaddress


def plain_host(host: str) -> str:
    """Return an address in its one form: ::1 has several, and a client of IPv4 may come as ::ffff:ADDRESS."""
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
