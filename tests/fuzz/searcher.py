"""The process in which atheris runs. It instruments the Python sources of the targets' modules, so that atheris sees
which lines were reached.

    python -m tests.fuzz.searcher TARGET OPTION… [-- TARGET OPTION…]…

Instrumenting takes many times longer than a short search, so several targets are searched one after another, each in
its own fork. A line `ENDED` follows the output of each.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import groupby
from types import ModuleType
from typing import NoReturn

import atheris

from lacuna.logstore.records.build_kernel import SOURCES
from tests.fuzz.ending import ENDED


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
    """Load modules from their sources. Call this before importing anything but build_kernel from logstore/records, or
    it raises RuntimeError.
    """
    late = [name for name in SOURCES if name in sys.modules]
    if late:
        raise RuntimeError(f"{late[0]} is imported already: call prefer_sources() before")
    sys.meta_path.insert(0, _Sources())


prefer_sources()
with atheris.instrument_imports(include=["lacuna.agent", "lacuna.logstore", "lacuna.wire"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    jobs = [list(job) for is_between, job in groupby(sys.argv[1:], "--".__eq__) if not is_between]
    if len(jobs) == 1:
        fuzz(*jobs[0])
    for job in jobs:
        child = os.fork()
        if not child:
            fuzz(*job)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(ENDED.format(job[0], code) + "\n")
        sys.stdout.flush()


def fuzz(name: str, *options: str) -> NoReturn:
    target = TARGETS[name]
    # A merge restarts itself in a shell, using its first argument.
    itself = f"{sys.executable} -m tests.fuzz.searcher {name}"
    arguments = [itself, f"-max_len={target.longest}", *options]
    atheris.Setup(arguments, target.check)
    atheris.Fuzz()
    raise AssertionError("atheris ends the process")


if __name__ == "__main__":
    main()
