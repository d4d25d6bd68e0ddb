"""Tests lacuna.testing and its plugin with the examples in docs/testing.md and README.md."""

import asyncio
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lacuna.controlplane.runtime import Runtime
from lacuna.logstore.objects import ObjectStore
from lacuna.testing import Cluster, ProcessCluster, ProcessFailedError
from tests.lacuna import clients

ROOT = Path(__file__).parents[2]


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


EXAMPLES = examples(ROOT / "docs" / "testing.md")
_ALL_TESTS = [
    example for example in [*EXAMPLES, *examples(ROOT / "README.md")] if "\ndef test_" in example
]
#: Examples with libraries that need other versions than this environment has (`tests.installed.test_wheel`).
APART = [
    each for each in _ALL_TESTS if re.search("^from (quixstreams|celery) ", each, re.MULTILINE)
]
TESTS = [each for each in _ALL_TESTS if each not in APART]
CONFTESTS = [example for example in EXAMPLES if "\ndef lacuna_options" in example]
SCRIPTS = [each for each in EXAMPLES if each not in _ALL_TESTS and each not in CONFTESTS]


@pytest.mark.slow
@pytest.mark.parametrize(
    "conftest",
    [
        pytest.param("", id="plain"),
        *(pytest.param(text, id="other options") for text in CONFTESTS),
    ],
)
def test_the_examples(pytester: pytest.Pytester, conftest: str) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile(**{f"test_{number}": text for number, text in enumerate(TESTS)})
    pytester.runpytest_subprocess("-q", "--timeout=250").assert_outcomes(passed=len(TESTS))
    assert (len(TESTS), len(CONFTESTS)) == (7, 1)


@pytest.mark.slow
def test_the_examples_without_pytest() -> None:
    assert len(SCRIPTS) == 1
    for script in SCRIPTS:
        subprocess.run([sys.executable, "-c", script], check=True, timeout=280)


@pytest.mark.slow
def test_the_plugin_imports_nothing_until_it_is_asked(pytester: pytest.Pytester) -> None:
    """Otherwise it would slow down every pytest run, and coverage would miss earlier imports."""
    pytester.makeconftest(
        """
        import sys

        def pytest_collection():
            ours = {"lacuna.agent", "lacuna.controlplane", "lacuna.logstore", "grpc", "uvloop"}
            assert not ours & set(sys.modules)
        """
    )
    pytester.makepyfile(
        """
        import lacuna.logstore.segments.paths

        def test_the_plugin_is_here(request):
            assert request.config.pluginmanager.has_plugin("lacuna")
        """
    )
    result = pytester.runpytest_subprocess(
        "--cov=lacuna.logstore.segments.paths", "--cov-report=term"
    )
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if line.startswith("TOTAL")]
    assert int(line.split()[-1].rstrip("%")) > 0


def test_topics_are_fresh(lacuna_cluster: Cluster, lacuna_topic: Callable[..., str]) -> None:
    names = {lacuna_topic(), lacuna_topic(partitions=3)}
    assert len(names) == 2
    assert all(name.startswith("test-topics-are-fresh-") for name in names)
    with pytest.raises(ValueError, match=r"no\.such\.config"):
        lacuna_topic(no_such_config=1)


@pytest.mark.slow
def test_kills_and_restarts_keep_the_ports_and_the_data(tmp_path: Path) -> None:
    with Cluster(tmp_path / "d", agents=2) as cluster:
        bootstrap = cluster.bootstrap
        assert len(bootstrap.split(",")) == 2
        clients.send(clients.plain(bootstrap), "t", ["x"])
        for end in (cluster.kill, cluster.stop, cluster.restart):
            end()
            cluster.start()
            assert cluster.bootstrap == bootstrap
            assert clients.consume(bootstrap, "t", 1) == [(0, "x")]


def no_store() -> ObjectStore:
    raise ZeroDivisionError


@pytest.mark.slow
def test_a_cluster_that_does_not_start_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`__exit__` is not called if `__enter__` fails."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError), Cluster(open_store=no_store):
        pass
    with pytest.raises(ProcessFailedError), ProcessCluster(options=["--no-such-option"]):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [(), pytest.param(("--workers=2",), marks=pytest.mark.slow)])
def test_a_process_ends_with_the_test_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    """This includes a killed run: pytest-xdist kills a worker that hangs."""
    code = (
        "import pathlib, sys; from lacuna.testing import ProcessCluster\n"
        f"with ProcessCluster(pathlib.Path({str(tmp_path / 'd')!r}), {list(options)!r}) as up:\n"
        "    print(up.bootstrap, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        host, _, port = run.stdout.readline().decode().strip().rpartition(":")
        run.kill()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)  # nothing reports when another process's child ends
    pytest.fail("its cluster is still there")


def test_what_does_not_run_says_so(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "d")
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = cluster.bootstrap
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        cluster.advance(1)
    cluster.stop()
    process = ProcessCluster(tmp_path / "d")
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        process.kill()
    with pytest.raises(ValueError, match="moto, store and open_store are mutually exclusive"):
        Cluster(moto=True, open_store=no_store)


def test_a_tick_that_comes_with_a_jump_of_the_time_ends_no_lease() -> None:
    with Cluster() as cluster:
        lease = cluster.embedded.agents[0].context.lease

        async def jump() -> int:
            asyncio.get_running_loop().call_soon(cluster.embedded.running.runtime.tick)
            await cluster._advance(3_600_000)
            return lease.lease_id

        cluster.advance(1)  # from now on it is known when the lease ends
        before = lease.lease_id
        assert cluster.run(jump()) == before


@pytest.mark.slow
def test_retention_is_applied_before_the_first_tick_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Runtime, "_tick_forever", lambda _: asyncio.sleep(3600))
    with Cluster() as cluster:
        cluster.create_topic("t", configs={"retention.ms": "60000"})
        clients.send(clients.plain(cluster.bootstrap), "t", ["x"])
        cluster.advance(3_600_000)
        clients.send(clients.plain(cluster.bootstrap), "t", ["y"])
        first = {"auto.offset.reset": "earliest"}
        assert clients.consume(cluster.bootstrap, "t", 1, **first) == [(1, "y")]


@pytest.mark.slow
def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProcessFailedError, match="choose another with --data"):
        ProcessCluster(tmp_path / "file").start()
    cluster = Cluster(tmp_path / "d", open_store=no_store)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cluster.start()
