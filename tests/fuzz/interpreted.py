"""Loads the compiled modules from their Python sources, so that a fuzzer sees which lines were reached."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

from lacuna.logstore.records.build_kernel import SOURCES


class _Sources(MetaPathFinder):
    """Finds the source of a module that Python would load in compiled form."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        source = SOURCES.get(fullname)
        if source is None:
            return None
        loader = SourceFileLoader(fullname, str(source))
        return spec_from_file_location(fullname, source, loader=loader)


def prefer_sources() -> None:
    """Prefer sources. Call it before importing anything of logstore/records but build_kernel. Raises RuntimeError after
    that.
    """
    late = [name for name in SOURCES if name in sys.modules]
    if late:
        raise RuntimeError(f"{late[0]} is imported already: call prefer_sources() before")
    sys.meta_path.insert(0, _Sources())
