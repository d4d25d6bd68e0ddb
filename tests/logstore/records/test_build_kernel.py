"""Tests the command that compiles the kernel, with and without a C compiler."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from lacuna.logstore.compiled import interpreted
from lacuna.logstore.records import build_kernel

KERNEL = "lacuna.logstore.records.kernel"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few lines that replace the kernel, which takes a C compiler a long time to compile."""
    source = tmp_path / "kernel.py"
    source.write_text("def twice(number: int) -> int:\n    return 2 * number\n")
    source.with_suffix(".pxd").write_text("cpdef long twice(long number)\n")
    monkeypatch.setattr(build_kernel, "SOURCES", {KERNEL: source})
    return source


def test_without_a_compiler_it_says_so_and_ends_well(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert_stays_interpreted(capsys)


def test_a_compiler_without_pythons_headers_is_as_none(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One example is Debian with gcc but without python3-dev."""
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(source.parent))
    assert_stays_interpreted(capsys)


def assert_stays_interpreted(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_kernel.main() == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert not build_kernel.extension_path(KERNEL).exists()


@pytest.mark.slow
def test_a_compiler_that_fails_is_an_error(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "false")
    assert build_kernel.main() == 1
    assert "stays interpreted" in capsys.readouterr().out


@pytest.mark.slow
def test_it_compiles_beside_the_source(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not build_kernel.has_compiler():
        pytest.skip("no C compiler: the compiled kernel is not tested")
    # The code that Cython adds for memoryviews takes an optimizing compiler four seconds.
    monkeypatch.setattr(build_kernel, "OPTIONS", ("-O0", "-g0"))
    assert not build_kernel.is_fresh(KERNEL)
    assert build_kernel.main() == 0
    target = build_kernel.extension_path(KERNEL)
    assert target.name in capsys.readouterr().out
    assert sorted(source.parent.iterdir()) == sorted([source, source.with_suffix(".pxd"), target])
    assert build_kernel.is_fresh(KERNEL)
    os.utime(source, ns=(2**62, 2**62))
    assert not build_kernel.is_fresh(KERNEL)


def signatures(path: Path) -> dict[str, list[str]]:
    """Return the public functions of a source file and their parameters' names."""
    return {
        node.name: [arg.arg for arg in node.args.args]
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


@pytest.mark.parametrize("source", build_kernel.SOURCES.values(), ids=lambda path: path.stem)
def test_the_stub_names_what_the_source_defines(source: Path) -> None:
    assert signatures(source.with_suffix(".pyi")) == signatures(source)


def test_a_module_of_python_is_interpreted() -> None:
    assert interpreted(("lacuna.logstore.interpreted", "lacuna.none_such")) == [
        "lacuna.logstore.interpreted",
        "lacuna.none_such",
    ]
    assert interpreted(("_ctypes", "lacuna.logstore.compiled")) == ["lacuna.logstore.compiled"]
