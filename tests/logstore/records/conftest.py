"""The kernel in both its forms; every test that takes `kernel` runs once on each."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from types import ModuleType

import pytest

from logstore.records import build_kernel

FORMS = ("interpreted", "compiled")


def _load(loader: importlib.machinery.SourceFileLoader) -> ModuleType:
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _interpreted() -> ModuleType:
    name = "logstore.records.kernel_interpreted"
    return _load(importlib.machinery.SourceFileLoader(name, str(build_kernel.SOURCE)))


def _compiled() -> ModuleType:
    if not build_kernel.is_fresh():
        if not build_kernel.has_compiler():
            pytest.skip("no C compiler: the compiled kernel is not tested")
        build_kernel.build()
    path = str(build_kernel.extension_path())
    loader = importlib.machinery.ExtensionFileLoader(build_kernel.MODULE, path)
    return _load(loader)  # type: ignore[arg-type]


@pytest.fixture(scope="session", params=FORMS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.kernel`, interpreted and compiled."""
    return _interpreted() if request.param == "interpreted" else _compiled()


@pytest.fixture(scope="session")
def both_kernels() -> tuple[ModuleType, ModuleType]:
    """The interpreted kernel and the compiled one."""
    return _interpreted(), _compiled()
