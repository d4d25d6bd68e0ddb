"""A run that hangs ends, and shows where it hangs."""

import pytest

pytestmark = (
    pytest.mark.slow
)  # each waits for longer than a busy machine takes to come to where it stands still

CONFTEST = """
from tests.stalled import Watch

def pytest_configure(config):
    config.pluginmanager.register(Watch(config, grace=10, silence=30))
"""
#: Python's handlers of signals wait for the call to return.
DEAF = """
import ctypes

def test_deaf():
    ctypes.PyDLL(None).sleep(200)
"""
AT_ITS_END = """
import pytest, threading

@pytest.fixture
def waits():
    yield
    threading.Event().wait(200)

def test_fails(waits):
    assert False
"""


@pytest.mark.parametrize(
    ("tests", "where"),
    [(DEAF, "in test_deaf"), (AT_ITS_END, "in waits")],
    ids=["in a call", "at the end of one that failed"],
)
def test_a_test_that_stands_still(pytester: pytest.Pytester, tests: str, where: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(tests)
    ran = pytester.runpytest_subprocess("--timeout=0", "-o", "timeout=1", "-p", "no:cacheprovider")
    assert ran.ret == 1
    ran.stderr.fnmatch_lines(["Timeout (0:00:11)!", f"*{where}"])


def test_a_worker_that_stands_still_before_its_tests(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("import time\ntime.sleep(200)")
    ran = pytester.runpytest_subprocess("-n1", "-o", "timeout=1", "-p", "no:cacheprovider")
    assert ran.ret == 1
    ran.stderr.fnmatch_lines(["Timeout (0:00:30)!", "*in loop_once"])
