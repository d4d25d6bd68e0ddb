"""The kernel in both its forms. Every test that takes `kernel` runs once on each."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.forms import FORMS, compiled, interpreted

KERNEL = "lacuna.logstore.records.kernel"
PIECES = "lacuna.logstore.records.pieces"
READING = "lacuna.logstore.objects.reading"
REWRITING = "lacuna.logstore.records.rewriting"
COLUMNS = "lacuna.logstore.records.columns"
ENCODING = "lacuna.logstore.records.encoding"
LEGACY_KERNEL = "lacuna.logstore.records.legacy.kernel"


@pytest.fixture(scope="session", params=FORMS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.records.kernel`, interpreted and compiled."""
    return interpreted(KERNEL) if request.param == "interpreted" else compiled(KERNEL)


@pytest.fixture(scope="session")
def both_kernels() -> tuple[ModuleType, ModuleType]:
    """The interpreted kernel and the compiled one."""
    return interpreted(KERNEL), compiled(KERNEL)


@pytest.fixture(scope="session", params=FORMS)
def pieces(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.records.pieces`, interpreted and compiled."""
    return interpreted(PIECES) if request.param == "interpreted" else compiled(PIECES)


@pytest.fixture(scope="session")
def both_pieces() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return interpreted(PIECES), compiled(PIECES)


@pytest.fixture(scope="session", params=FORMS)
def reading(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.objects.reading`, interpreted and compiled."""
    return interpreted(READING) if request.param == "interpreted" else compiled(READING)


@pytest.fixture(scope="session", params=FORMS)
def columns(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.records.columns`, interpreted and compiled."""
    return interpreted(COLUMNS) if request.param == "interpreted" else compiled(COLUMNS)


@pytest.fixture(scope="session")
def both_columns() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return interpreted(COLUMNS), compiled(COLUMNS)


@pytest.fixture(scope="session", params=FORMS)
def rewriting(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.records.rewriting`, interpreted and compiled."""
    return interpreted(REWRITING) if request.param == "interpreted" else compiled(REWRITING)


@pytest.fixture(scope="session")
def both_rewritings() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return interpreted(REWRITING), compiled(REWRITING)


@pytest.fixture(scope="session", params=FORMS)
def encoding(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.records.encoding`, interpreted and compiled."""
    return interpreted(ENCODING) if request.param == "interpreted" else compiled(ENCODING)


@pytest.fixture(scope="session")
def both_encodings() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return interpreted(ENCODING), compiled(ENCODING)


@pytest.fixture(scope="session", params=FORMS)
def legacy_kernel(request: pytest.FixtureRequest) -> ModuleType:
    """`lacuna.logstore.records.legacy.kernel`, interpreted and compiled."""
    is_compiled = request.param == "compiled"
    return compiled(LEGACY_KERNEL) if is_compiled else interpreted(LEGACY_KERNEL)


@pytest.fixture(scope="session")
def both_legacy_kernels() -> tuple[ModuleType, ModuleType]:
    """The interpreted module and the compiled one."""
    return interpreted(LEGACY_KERNEL), compiled(LEGACY_KERNEL)
