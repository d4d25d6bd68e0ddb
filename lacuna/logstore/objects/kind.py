"""The description of a kind of object store: everything that depends on where objects are stored.

A new kind needs a module with its store and its `StoreKind`, and an entry in `KINDS` (url.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult

from lacuna.logstore.objects.conditional import ConditionalStore
from lacuna.logstore.objects.prices import Prices
from lacuna.logstore.objects.store import ObjectStore

Options: TypeAlias = Mapping[str, str]

KEYS_OPTION: Final = "encryption_keys"
"""The option that specifies where the cluster's keys are, for each kind whose objects may be encrypted (url.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherClients:
    """How other libraries access a store of this kind to write exported files.

    `arrow` creates pyarrow's file system from a URL's options. `catalog` maps options to their names in pyiceberg.
    """

    arrow: Callable[[Options], Any]
    catalog: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """A kind of object store, identified by its URL scheme.

    `form` shows users what its URLs look like. `is_store` returns whether a URL with the scheme names a store. `open`
    and `open_for_journal` create a store from a URL and its options, without sending a request; they raise
    StoreMisconfiguredError.
    """

    scheme: str
    form: str
    is_store: Callable[[SplitResult], bool]
    open: Callable[[SplitResult, Options], ObjectStore]
    #: Whether other processes can find the objects.
    is_shared: bool = True
    #: None if several machines cannot write to a store conditionally, which a journal requires.
    open_for_journal: Callable[[SplitResult, Options], ConditionalStore] | None = None
    #: The options that may follow "?" in a URL, and which of these make the service encrypt objects.
    options: tuple[str, ...] = ()
    encrypting: frozenset[str] = frozenset()
    #: For stores in a folder of this machine: returns its path.
    folder: Callable[[SplitResult], str] | None = None
    #: None if requests and storage cost nothing.
    prices: Prices | None = None
    #: None if other libraries cannot reach a store, unless it is in a folder.
    others: OtherClients | None = None

    @property
    def takes_exports(self) -> bool:
        """Whether exported files can be written to a store of this kind."""
        return self.folder is not None or self.others is not None
