"""Whether a control plane can be reached where it says that it is."""


def is_address(leader: str) -> bool:
    """Whether this is an address, and not the name of a control plane that only its own machine reaches.

    Such a name has spaces (`local_name`).
    """
    return bool(leader) and " " not in leader
