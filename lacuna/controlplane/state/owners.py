"""Whose the names are that clients leave, and how many bytes each principal has left with them."""

from typing import Generic, TypeVar

#: Of the anonymous principal, and of what nobody asked for.
NOBODY = ""

Name = TypeVar("Name", str, bytes)


class Owners(Generic[Name]):
    """What is kept of each name, and for which principal.

    A name belongs to the principal that was the first to leave something under it, until nothing is left; all of it is
    charged to that one. `of` is kept in snapshots where the names are, and has no anonymous ones. The rest is derived.
    """

    __slots__ = ("_kept", "_owned", "held", "of", "size")

    def __init__(self) -> None:
        self.of: dict[Name, str] = {}
        #: principal -> what is charged to it
        self.held: dict[str, int] = {}
        self.size = 0
        self._owned = 0  # of all in `held`
        self._kept: dict[Name, int] = {}

    def __contains__(self, name: Name) -> bool:
        return name in self._kept

    def own(self, name: Name, principal: str) -> None:
        """Note whose a name is, unless that is known; something is about to be left under it, or already was."""
        if principal and name not in self.of:
            self.of[name] = principal
            self._hold(principal, self._kept.get(name, 0))

    def charge(self, name: Name, more: int) -> None:
        """Note that so much more, or less, is kept under a name. Once nothing is, the name is nobody's."""
        self.size += more
        kept = self._kept.get(name, 0) + more
        if kept:
            self._kept[name] = kept
        else:
            self._kept.pop(name, None)
        owner = self.of.get(name)
        if owner is not None:
            self._hold(owner, more)
            if not kept:
                del self.of[name]

    def _hold(self, principal: str, more: int) -> None:
        self._owned += more
        held = self.held.get(principal, 0) + more
        if held:
            self.held[principal] = held
        else:
            self.held.pop(principal, None)

    def payer(self, name: Name, principal: str) -> str:
        """Return whom is charged what `principal` leaves under a name."""
        owner = self.of.get(name)
        if owner is not None:
            return owner
        return NOBODY if name in self._kept else principal

    def has_share(self, payer: str, more: int, share: int) -> bool:
        """Whether so much more can be charged to a principal. The only one has no bound if it is the anonymous one."""
        is_alone = payer == NOBODY and not self.held
        return is_alone or self.charged_to(payer) + more <= share

    def charged_to(self, principal: str) -> int:
        """Return what is charged to a principal; to the anonymous one, what nobody owns."""
        if principal == NOBODY:
            return self.size - self._owned
        return self.held.get(principal, 0)
