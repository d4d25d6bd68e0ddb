"""Loads the modules that Cython compiles, in either form, independently of what `import` would choose."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType

import pytest

from lacuna.logstore.records import build_kernel

FORMS = ("interpreted", "compiled")


def _load(loader: importlib.machinery.SourceFileLoader) -> ModuleType:
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def interpreted(module: str) -> ModuleType:
    """Load the form that runs for a user without a compiler, where Cython is not installed."""
    source = str(build_kernel.SOURCES[module])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cython", None)
        return _load(importlib.machinery.SourceFileLoader(f"{module}_interpreted", source))


def compiled(module: str) -> ModuleType:
    if not build_kernel.is_fresh(module):
        if not build_kernel.has_compiler():
            pytest.skip("no C compiler: the compiled kernel is not tested")
        build_kernel.build(module)
    path = str(build_kernel.extension_path(module))
    loader = importlib.machinery.ExtensionFileLoader(module, path)
    return _load(loader)  # type: ignore[arg-type]
