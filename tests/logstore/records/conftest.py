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


def _interpreted(module: str) -> ModuleType:
    source = str(build_kernel.SOURCES[module])
    return _load(importlib.machinery.SourceFileLoader(f"{module}_interpreted", source))


def _compiled(module: str) -> ModuleType:
    if not build_kernel.is_fresh(module):
        if not build_kernel.has_compiler():
            pytest.skip("no C compiler: the compiled kernel is not tested")
        build_kernel.build(module)
    path = str(build_kernel.extension_path(module))
    loader = importlib.machinery.ExtensionFileLoader(module, path)
    return _load(loader)  # type: ignore[arg-type]


KERNEL = "logstore.records.kernel"
PIECES = "logstore.records.pieces"
READING = "logstore.objects.reading"
REWRITING = "logstore.records.rewriting"
COLUMNS = "logstore.records.columns"
ENCODING = "logstore.records.encoding"
LEGACY_KERNEL = "logstore.records.legacy.kernel"


@pytest.fixture(scope="session", params=FORMS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.kernel`, interpreted and compiled."""
    return _interpreted(KERNEL) if request.param == "interpreted" else _compiled(KERNEL)


@pytest.fixture(scope="session")
def both_kernels() -> tuple[ModuleType, ModuleType]:
    """The interpreted kernel and the compiled one."""
    return _interpreted(KERNEL), _compiled(KERNEL)


@pytest.fixture(scope="session", params=FORMS)
def pieces(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.pieces`, interpreted and compiled."""
    return _interpreted(PIECES) if request.param == "interpreted" else _compiled(PIECES)


@pytest.fixture(scope="session")
def both_pieces() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return _interpreted(PIECES), _compiled(PIECES)


@pytest.fixture(scope="session", params=FORMS)
def reading(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.objects.reading`, interpreted and compiled."""
    return _interpreted(READING) if request.param == "interpreted" else _compiled(READING)


@pytest.fixture(scope="session", params=FORMS)
def columns(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.columns`, interpreted and compiled."""
    return _interpreted(COLUMNS) if request.param == "interpreted" else _compiled(COLUMNS)


@pytest.fixture(scope="session")
def both_columns() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return _interpreted(COLUMNS), _compiled(COLUMNS)


@pytest.fixture(scope="session", params=FORMS)
def rewriting(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.rewriting`, interpreted and compiled."""
    return _interpreted(REWRITING) if request.param == "interpreted" else _compiled(REWRITING)


@pytest.fixture(scope="session")
def both_rewritings() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return _interpreted(REWRITING), _compiled(REWRITING)


@pytest.fixture(scope="session", params=FORMS)
def encoding(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.encoding`, interpreted and compiled."""
    return _interpreted(ENCODING) if request.param == "interpreted" else _compiled(ENCODING)


@pytest.fixture(scope="session")
def both_encodings() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return _interpreted(ENCODING), _compiled(ENCODING)


@pytest.fixture(scope="session", params=FORMS)
def legacy_kernel(request: pytest.FixtureRequest) -> ModuleType:
    """`logstore.records.legacy.kernel`, interpreted and compiled."""
    is_compiled = request.param == "compiled"
    return _compiled(LEGACY_KERNEL) if is_compiled else _interpreted(LEGACY_KERNEL)


@pytest.fixture(scope="session")
def both_legacy_kernels() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return _interpreted(LEGACY_KERNEL), _compiled(LEGACY_KERNEL)
