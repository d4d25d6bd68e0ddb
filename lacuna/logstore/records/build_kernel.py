"""Compiles the kernel in place: `python -m lacuna.logstore.records.build_kernel [--serving | MODULE ...]`.

Each extension module is put next to its source, and Python prefers it when importing. Without a C compiler, the script
prints a message and exits successfully, and the sources run interpreted.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from setuptools import Extension

CORES: Final = os.cpu_count() or 1
#: Debugging information would take a fifth of the compiler's time. -O3 would take an additional quarter, and
#: does not produce faster code.
OPTIONS: Final = ("-O2", "-g0")
#: The modules of agents and control planes, which are half of the C compiler's work. The Makefile reads these names.
SERVING: Final = (
    "lacuna.logstore.records.kernel",
    "lacuna.logstore.records.rewriting",
    "lacuna.logstore.records.pieces",
    "lacuna.logstore.objects.reading",
    "lacuna.wire.kernel",
    "lacuna.controlplane.shared.log.choosing",
    "lacuna.controlplane.verbs.slices",
)
MODULES: Final = (
    *SERVING,
    "lacuna.logstore.records.columns",
    "lacuna.logstore.records.encoding",
    "lacuna.logstore.records.legacy.kernel",
)
#: Cython's code for memoryviews, in a separate module: if each module contained it, it would account for half of the
#: C compiler's work.
SHARED: Final = "lacuna.logstore.records._memoryviews"
_PACKAGE: Final = Path(__file__).parents[2]
#: The headers that `records` modules include.
_SHARED: Final = Path(__file__).with_name("integers.pxd")
SOURCES: Final = {
    module: _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py") for module in MODULES
}
"""The source file of each compiled module."""


def extension_path(module: str) -> Path:
    source = SOURCES.get(module) or Path(__file__).with_name(f"{module.rpartition('.')[2]}.c")
    return source.with_name(f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")


def is_fresh(module: str) -> bool:
    """Whether a module has been compiled since its sources last changed."""
    compiled, source = extension_path(module), SOURCES[module]
    parts = [part for part in (source, source.with_suffix(".pxd"), _SHARED) if part.exists()]
    return compiled.exists() and all(
        compiled.stat().st_mtime_ns >= part.stat().st_mtime_ns for part in parts
    )


def has_compiler() -> bool:
    """Whether Python's headers and a C compiler are installed: the compiler that built this Python, or `CC`."""
    command = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(command.split()[0]) is not None and headers.exists()


def extensions(sources: Mapping[str, str], folder: str) -> list[Extension]:
    """Return the extensions to compile, given their modules and sources. Generates their C code in `folder`, on all
    cores.
    """
    from Cython.Build import cythonize
    from setuptools import Extension

    options = list(OPTIONS)
    wanted = [
        Extension(module, [source], extra_compile_args=options)
        for module, source in sources.items()
    ]
    wanted.append(Extension(SHARED, [f"{folder}/_memoryviews.c"], extra_compile_args=options))
    made: list[Extension] = cythonize(
        wanted,
        shared_utility_qualified_name=SHARED,
        language_level=3,
        build_dir=folder,
        nthreads=CORES,
        quiet=True,
        # The kernel's objects are not pickled and its functions not inspected, so neither needs compiled code.
        compiler_directives={"auto_pickle": False, "binding": False},
    )
    return made


def build(*modules: str) -> list[Path]:
    """Compile modules, move the results into place atomically, and return their paths."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        sources = {module: str(SOURCES[module]) for module in modules}
        command = build_ext(Distribution({"ext_modules": extensions(sources, folder)}))
        command.build_lib = command.build_temp = folder
        command.parallel = CORES
        command.ensure_finalized()
        command.run()
        _put(Path(command.get_ext_fullpath(SHARED)), SHARED)  # first, since the others import it
        return [_put(Path(command.get_ext_fullpath(module)), module) for module in modules]


def _put(compiled: Path, module: str) -> Path:
    """Copy a compiled file next to its target and rename the copy, since a rename cannot cross file systems."""
    target = extension_path(module)
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(compiled, staged)
    staged.replace(target)
    return target


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(*modules: str) -> int:
    """Compile the given modules, or all. Return 1 if compilation failed, and 0 otherwise, even without a compiler."""
    if not has_compiler():
        _say(
            "no C compiler with Python's headers (python3-dev) found: the record kernel stays interpreted"
            " (slower, same results)"
        )
        return 0
    try:
        compiled = build(*(modules or SOURCES))
    except Exception as error:
        _say(f"the record kernel did not compile and stays interpreted: {error}")
        return 1
    _say(f"compiled {', '.join(target.name for target in compiled)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*(SERVING if sys.argv[1:] == ["--serving"] else sys.argv[1:])))
