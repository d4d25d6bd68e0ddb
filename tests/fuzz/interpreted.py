"""The compiled modules as the Python that they are made of, so that a fuzzer sees which lines were reached."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

from lacuna.logstore.records.build_kernel import SOURCES


class _Sources(MetaPathFinder):
    """Finds the source of a module where Python would take the compiled form."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        source = SOURCES.get(fullname)
        if source is None:
            return None
        loader = SourceFileLoader(fullname, str(source))
        return spec_from_file_location(fullname, source, loader=loader)


def prefer_sources() -> None:
    """Call it before anything of logstore/records but build_kernel is imported. Raises RuntimeError after that."""
    late = [name for name in SOURCES if name in sys.modules]
    if late:
        raise RuntimeError(f"{late[0]} is imported already: call prefer_sources() before")
    sys.meta_path.insert(0, _Sources())
