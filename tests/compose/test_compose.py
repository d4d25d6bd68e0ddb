"""compose.yaml as CI runs it: one image, a bucket, a control plane, two agents, and the demo's checks.

BASE_IMAGE names the image that everything is built on (`. .ci/docker.sh` makes one).
"""

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 900
SECONDS = 300

pytestmark = [pytest.mark.docker, pytest.mark.timeout(BUILD_SECONDS + 2 * SECONDS)]

#: Runs in the client's container: waits until both agents are in Metadata and says who is.
WAIT_FOR_BOTH = """
import time
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": "agent-1:9092,agent-2:9092", "log_level": 0})
deadline = time.monotonic() + 60
brokers = {}
while len(brokers) < 2 and time.monotonic() < deadline:
    try:
        brokers = admin.list_topics(timeout=5).brokers
    except KafkaException as error:
        print(error)
print(sorted(f"{broker.host}:{broker.port}" for broker in brokers.values()))
"""


class Compose:
    """docker-compose (v1) or docker compose (v2) on a project of its own."""

    def __init__(self) -> None:
        found = shutil.which("docker-compose")
        self._command = [found] if found else ["docker", "compose"]
        self._project = f"lacuna-{uuid.uuid4().hex[:8]}"

    def run(self, *arguments: str, seconds: float = SECONDS, check: bool = True) -> str:
        """Its output, both streams; raises with it where the exit code is not 0."""
        done = subprocess.run(
            [*self._command, "-p", self._project, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        if check and done.returncode:
            said = done.stdout[-8000:]
            pytest.fail(f"{' '.join(arguments)} ended with {done.returncode}:\n{said}")
        return done.stdout

    def python(self, script: str) -> str:
        """Runs a script in a container of the image on the cluster's network."""
        arguments = ("run", "--rm", "-T", "--no-deps", "--entrypoint", "python", "client", "-c")
        return self.run(*arguments, script)


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    """The image, built; whatever happens, nothing is left running."""
    if shutil.which("docker") is None:
        pytest.skip("no docker here")
    if "BASE_IMAGE" not in os.environ:
        pytest.skip("BASE_IMAGE is not set: `. .ci/docker.sh` makes one and sets it")
    made = Compose()
    try:
        made.run("build", seconds=BUILD_SECONDS)
        yield made
    finally:
        sys.stderr.write(made.run("logs", "--no-color", "--tail", "40", check=False))
        made.run("down", "--volumes", "--remove-orphans", "--timeout", "5", check=False)


def default_base(page: str) -> str:
    """The Python version of the base that a file names as its default."""
    [version] = re.findall(r"BASE_IMAGE(?:=|:-)python:(\d+\.\d+)", (ROOT / page).read_text())
    return str(version)


def test_the_image_has_the_python_of_its_default_base(compose: Compose) -> None:
    """What is tested here is what a user gets who builds without BASE_IMAGE."""
    printed = compose.python("import sys; print('%d.%d' % sys.version_info[:2])")
    assert default_base("Dockerfile") == default_base("compose.yaml")
    assert printed.strip().splitlines()[-1] == default_base("Dockerfile")


def test_the_kernel_is_compiled(compose: Compose) -> None:
    """The base has a C compiler: an image with the interpreted kernel would be slow and nobody would notice."""
    printed = compose.python("import lacuna.logstore.records.kernel as k; print(k.__file__)")
    assert printed.strip().splitlines()[-1].endswith(".so")


def test_the_demo_through_two_agents_and_then_through_one(compose: Compose) -> None:
    """The client's checks hold; any agent serves anything; the cluster works on when one is killed."""
    printed = compose.run("up", "--no-build", "--exit-code-from", "client", seconds=SECONDS)
    assert "Every claim above was checked" in printed
    # --exit-code-from stops all the others when the client has ended; they start again as new ones would.
    compose.run("start", "s3", "controlplane", "agent-1", "agent-2")
    assert compose.python(WAIT_FOR_BOTH).strip().splitlines()[-1] == (
        "['agent-1:9092', 'agent-2:9092']"
    )
    compose.run("kill", "-s", "SIGKILL", "agent-1")
    demo = ("demo", "--bootstrap", "agent-1:9092,agent-2:9092", "--control", "controlplane:7070")
    printed = compose.run("run", "--rm", "-T", "--no-deps", "client", *demo)
    assert "Every claim above was checked" in printed
