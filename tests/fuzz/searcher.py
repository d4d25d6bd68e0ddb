"""The process in which atheris runs: the target's modules, instrumented, from their Python sources."""

import sys

import atheris

from tests.fuzz.interpreted import prefer_sources

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
