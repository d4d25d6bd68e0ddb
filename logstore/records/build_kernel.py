"""Compile the kernel in place: `python -m logstore.records.build_kernel`.

The kernel is these modules: `kernel` (batches and records), `rewriting` (batches of other batches),
`pieces` (what a read of a segment brought), `columns` (records as columns), `encoding` (columns as
batches), `legacy.kernel` (message sets as batches and back) and `logstore.objects.reading` (the read
itself). Each extension module lands beside its source
and import prefers it. Without a C compiler this says so and ends well: the same sources then run
interpreted.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = {
    "logstore.records.kernel": _ROOT / "records" / "kernel.py",
    "logstore.records.rewriting": _ROOT / "records" / "rewriting.py",
    "logstore.records.pieces": _ROOT / "records" / "pieces.py",
    "logstore.records.columns": _ROOT / "records" / "columns.py",
    "logstore.records.encoding": _ROOT / "records" / "encoding.py",
    "logstore.records.legacy.kernel": _ROOT / "records" / "legacy" / "kernel.py",
    "logstore.objects.reading": _ROOT / "objects" / "reading.py",
}
"""Module to source."""


def extension_path(module: str) -> Path:
    """Where a compiled module stands, whether or not it does."""
    source = SOURCES[module]
    return source.with_name(f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")


def is_fresh(module: str) -> bool:
    """Whether a compiled module is there and no older than what it is made of."""
    compiled, source = extension_path(module), SOURCES[module]
    parts = [part for part in (source, source.with_suffix(".pxd")) if part.exists()]
    return compiled.exists() and all(
        compiled.stat().st_mtime_ns >= part.stat().st_mtime_ns for part in parts
    )


def has_compiler() -> bool:
    """Whether the C compiler that this Python was built with, or `CC`, is installed."""
    command = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    return shutil.which(command.split()[0]) is not None


def build(module: str) -> Path:
    """Compile a module and put it in place atomically; the path of the extension module."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        extension = Extension(module, [str(SOURCES[module])], extra_compile_args=["-O3"])
        modules = cythonize([extension], build_dir=folder, quiet=True)  # type: ignore[no-untyped-call]
        distribution = Distribution({"ext_modules": modules})
        command = build_ext(distribution)
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
        target = extension_path(module)
        # Beside the target first, since a rename does not cross file systems.
        staged = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(command.get_ext_fullpath(module), staged)
        staged.replace(target)
    return target


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """The command: 0 also where nothing could be compiled, 1 where the compiler failed."""
    if not has_compiler():
        _say("no C compiler found: the record kernel stays interpreted (slower, same results)")
        return 0
    for module in SOURCES:
        try:
            target = build(module)
        except Exception as error:
            _say(f"{module} did not compile and stays interpreted: {error}")
            return 1
        _say(f"compiled {module}: {target.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
