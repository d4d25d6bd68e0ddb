"""Compile the kernel in place: `python -m logstore.records.build_kernel`.

The extension module lands beside `kernel.py` and import prefers it. Without a C compiler this says
so and ends well: the same source then runs interpreted.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("kernel.py")
MODULE: Final = "logstore.records.kernel"


def extension_path() -> Path:
    """Where the compiled kernel stands, whether or not it does."""
    return SOURCE.with_name(f"{SOURCE.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")


def is_fresh() -> bool:
    """Whether the compiled kernel is there and no older than its source."""
    compiled = extension_path()
    return compiled.exists() and compiled.stat().st_mtime_ns >= SOURCE.stat().st_mtime_ns


def has_compiler() -> bool:
    """Whether the C compiler that this Python was built with, or `CC`, is installed."""
    command = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    return shutil.which(command.split()[0]) is not None


def build() -> Path:
    """Compile the kernel and put it in place atomically; the path of the extension module."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        extension = Extension(MODULE, [str(SOURCE)], extra_compile_args=["-O3"])
        modules = cythonize([extension], build_dir=folder, quiet=True)  # type: ignore[no-untyped-call]
        distribution = Distribution({"ext_modules": modules})
        command = build_ext(distribution)
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
        target = extension_path()
        # Beside the target first, since a rename does not cross file systems.
        staged = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(command.get_ext_fullpath(MODULE), staged)
        staged.replace(target)
    return target


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """The command: 0 also where nothing could be compiled, 1 where the compiler failed."""
    if not has_compiler():
        _say("no C compiler found: the record kernel stays interpreted (slower, same results)")
        return 0
    try:
        target = build()
    except Exception as error:
        _say(f"the record kernel did not compile and stays interpreted: {error}")
        return 1
    _say(f"compiled the record kernel: {target.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
