"""The owners of the names under which clients store data, and the bytes charged to each principal."""

from typing import Generic, TypeVar

#: The owner of the anonymous principal's data, and of data that no principal requested.
NOBODY = ""

Name = TypeVar("Name", str, bytes)


class Owners(Generic[Name]):
    """The size of the data under each name, and the principal that owns the name.

    A name belongs to the principal that first stored data under it, until no data is left. All data under the name is
    charged to that principal. Snapshots contain each name's owner (`of`), unless it is anonymous; the rest is derived.
    """

    __slots__ = ("_kept", "_owned", "held", "of", "size")

    def __init__(self) -> None:
        self.of: dict[Name, str] = {}
        #: principal -> the bytes charged to it
        self.held: dict[str, int] = {}
        self.size = 0
        self._owned = 0  # the total of `held`
        self._kept: dict[Name, int] = {}

    def __contains__(self, name: Name) -> bool:
        return name in self._kept

    def own(self, name: Name, principal: str) -> None:
        """Make a principal the owner of a name that holds or will hold data, unless the name already has an owner."""
        if principal and name not in self.of:
            self.of[name] = principal
            self._hold(principal, self._kept.get(name, 0))

    def charge(self, name: Name, more: int) -> None:
        """Change the number of bytes under a name. A name without bytes loses its owner."""
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
        """Return the principal that is charged for data that `principal` stores under a name."""
        owner = self.of.get(name)
        if owner is not None:
            return owner
        return NOBODY if name in self._kept else principal

    def has_share(self, payer: str, more: int, share: int) -> bool:
        """Whether `more` bytes can be charged to a principal. The anonymous principal has no bound if it is the only
        one.
        """
        is_alone = payer == NOBODY and not self.held
        return is_alone or self.charged_to(payer) + more <= share

    def charged_to(self, principal: str) -> int:
        """Return the bytes charged to a principal. Bytes without an owner are charged to the anonymous principal."""
        if principal == NOBODY:
            return self.size - self._owned
        return self.held.get(principal, 0)
