"""The process in which atheris runs: the target's modules, instrumented, from their Python sources, so that
atheris sees which lines were reached."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

import atheris

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


prefer_sources()
with atheris.instrument_imports(include=["lacuna.agent", "lacuna.logstore", "lacuna.wire"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    # A merge starts itself again, in a shell, by its first argument.
    itself = f"{sys.executable} -m tests.fuzz.searcher {name}"
    arguments = [itself, f"-max_len={target.longest}", *options]
    atheris.Setup(arguments, target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
