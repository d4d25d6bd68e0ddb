"""Tests compose.yaml as CI runs it, and builds the image on a base without a C compiler."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 900
SECONDS = 300
pytestmark = [pytest.mark.docker, pytest.mark.timeout(BUILD_SECONDS + 2 * SECONDS)]

CHECKED = "Every claim above was checked"
#: The line that the demo prints when its first scenario is over; it works on the second one then.
FIRST_SCENARIO_DONE = "The records that each client reads\n"
CONTROL_PLANES = ("controlplane-1", "controlplane-2")

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


def output_of(command: list[str], *, seconds: float = SECONDS, check: bool = True) -> str:
    """Return a command's stdout and stderr. Fails the test with that output if the exit code is not 0."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    if check and done.returncode:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-8000:]}")
    return done.stdout


class Compose:
    """docker-compose (v1) or docker compose (v2), with a project of its own."""

    def __init__(self) -> None:
        found = shutil.which("docker-compose")
        self._command = [found] if found else ["docker", "compose"]
        self._project = f"lacuna-{uuid.uuid4().hex[:8]}"

    def run(self, *arguments: str, seconds: float = SECONDS, check: bool = True) -> str:
        command = [*self._command, "-p", self._project, *arguments]
        return output_of(command, seconds=seconds, check=check)

    def client(self) -> subprocess.Popen[str]:
        """Run the client again in its own container."""
        return subprocess.Popen(
            [*self._command, "-p", self._project, "run", "--rm", "-T", "--no-deps", "client"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def status(self, control_plane: str) -> dict[str, Any]:
        """Return the status of all control planes, as reported by this one."""
        command = ("lacuna", "controlplane", "status", "--json")
        said = self.run("exec", "-T", control_plane, *command)
        found: dict[str, Any] = json.loads(last_line(said))
        return found

    def python(self, script: str) -> str:
        """Run a script in a container of the image on the cluster's network."""
        arguments = ("run", "--rm", "-T", "--no-deps", "--entrypoint", "python", "client", "-c")
        return self.run(*arguments, script)


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    """Builds the image, and stops all containers afterwards."""
    if shutil.which("docker") is None:
        pytest.skip("no docker here")
    if not {"BASE_IMAGE", "RUNTIME_IMAGE", "POSTGRES_IMAGE"} <= set(os.environ):
        pytest.skip("no images: `. .ci/docker.sh` makes them, and sets what they are")
    made = Compose()
    try:
        made.run("build", seconds=BUILD_SECONDS)
        yield made
    finally:
        sys.stderr.write(made.run("logs", "--no-color", "--tail", "40", check=False))
        made.run("down", "--volumes", "--remove-orphans", "--timeout", "5", check=False)


def last_line(printed: str) -> str:
    return printed.strip().splitlines()[-1]


def default_base(page: str) -> str:
    """Return the Python version of a Dockerfile's default build and runtime images."""
    found = re.findall(r"_IMAGE(?:=|:-)python:(\d+\.\d+)", (ROOT / page).read_text())
    assert len(found) == 2
    [version] = set(found)
    return str(version)


def inspected(image: str) -> dict[str, Any]:
    """Return the engine's description of an image."""
    command = ["docker", "image", "inspect", image]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said)[0]
    return found


def test_the_image_has_the_python_of_its_default_base(compose: Compose) -> None:
    """The tested image matches one that a user builds without BASE_IMAGE."""
    printed = compose.python("import sys; print('%d.%d' % sys.version_info[:2])")
    assert default_base("Dockerfile") == default_base("compose.yaml")
    assert last_line(printed) == default_base("Dockerfile")


def test_it_runs_without_rights(compose: Compose) -> None:
    """It runs as an unprivileged user and has no writable paths, as an orchestrator may require."""
    printed = compose.python("import os; print(os.getuid(), os.access('.', os.W_OK))")
    assert last_line(printed) == "65532 False"


def test_it_is_small_and_says_what_it_is(compose: Compose) -> None:
    """The default base is 125 MB, and the whole image must stay below 220 MB."""
    image = inspected("lacuna:local")
    added = image["Size"] - inspected(os.environ["RUNTIME_IMAGE"])["Size"]
    assert added < 95e6, f"{added / 1e6:.0f} MB"
    assert image["Config"]["User"] == "65532:65532"
    assert image["Config"]["Labels"]["org.opencontainers.image.version"] == version("lacuna-log")
    assert compose.python("import shutil; print(shutil.which('pip'))").strip().endswith("None")


def test_the_engine_learns_whether_it_is_healthy(compose: Compose) -> None:
    """The image has its own health check. compose.yaml overrides it for services that others depend on."""
    name = f"lacuna-health-{uuid.uuid4().hex[:8]}"
    check = inspected("lacuna:local")["Config"]["Healthcheck"]["Test"][1:]
    docker = ["docker", "run", "--rm", "--detach", "--name", name, "lacuna:local", "up"]
    subprocess.run(docker, capture_output=True, check=True)
    try:
        ask = ["docker", "exec", name, *check]
        deadline = time.monotonic() + 30
        while (asked := subprocess.run(ask, capture_output=True, text=True)).returncode:
            assert time.monotonic() < deadline, asked.stderr
    finally:
        subprocess.run(["docker", "kill", name], capture_output=True, check=True)


def test_the_kernel_is_compiled(compose: Compose) -> None:
    """The base has a C compiler. With the interpreted kernel, an image would silently be slow."""
    printed = compose.python("import lacuna.logstore.records.kernel as k; print(k.__file__)")
    assert last_line(printed).endswith(".so")


def test_the_demo_as_a_user_runs_it(compose: Compose) -> None:
    printed = compose.run("up", "--no-build", "--exit-code-from", "client")
    assert CHECKED in printed


def test_a_control_plane_is_killed_while_the_client_works_and_then_an_agent(
    compose: Compose,
) -> None:
    compose.run("up", "--no-build", "--detach", "agent-1", "agent-2")
    assert last_line(compose.python(WAIT_FOR_BOTH)) == "['agent-1:9092', 'agent-2:9092']"
    with compose.client() as demo:
        assert demo.stdout is not None
        before = list(iter(demo.stdout.readline, FIRST_SCENARIO_DONE))
        leader = compose.status("controlplane-1")["leader"]
        killed, left = sorted(CONTROL_PLANES, key=lambda name: f"{name}:7070" != leader)
        compose.run("kill", "-s", "SIGKILL", killed)
        after, _ = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 0, "".join(before) + after
    assert CHECKED in after
    deadline = time.monotonic() + SECONDS
    while compose.status(left)["leader"] != f"{left}:7070":
        assert time.monotonic() < deadline, "it does not take over"
    compose.run("kill", "-s", "SIGKILL", "agent-1")
    assert CHECKED in compose.run("run", "--rm", "-T", "--no-deps", "client")
    compose.run("start", killed)
    deadline = time.monotonic() + SECONDS
    while not (standbys := compose.status(left)["standbys"]):
        assert time.monotonic() < deadline, "it does not come back"
    assert [standby["address"] for standby in standbys] == [f"{killed}:7070"]


#: Runs in a container: the compilers that are found, and what the kernel was loaded from.
WHAT_IS_THERE = """
import shutil
import lacuna.logstore.records.kernel as kernel
print([name for name in ("cc", "gcc", "c++", "g++", "clang") if shutil.which(name)], kernel.__file__)
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The project's image on a base without a C compiler."""
    if shutil.which("docker") is None:
        pytest.skip("no docker here")
    if "NO_COMPILER_IMAGE" not in os.environ:
        pytest.skip("NO_COMPILER_IMAGE is not set: `. .ci/docker.sh` makes one and sets it")
    name = f"lacuna:no-compiler-{os.getpid()}"
    base = os.environ["NO_COMPILER_IMAGE"]
    bases = [f"--build-arg={each}={base}" for each in ("BASE_IMAGE", "RUNTIME_IMAGE")]
    output_of(["docker", "build", *bases, "--tag", name, "."], seconds=BUILD_SECONDS)
    yield name
    output_of(["docker", "rmi", name])


@pytest.mark.timeout(BUILD_SECONDS + SECONDS)
def test_without_a_compiler_the_kernel_is_interpreted(image: str) -> None:
    command = ["docker", "run", "--rm", "--entrypoint", "python", image, "-c", WHAT_IS_THERE]
    printed = output_of(command)
    compilers, kernel = printed.split(maxsplit=1)
    assert compilers == "[]"
    assert kernel.strip().endswith("/kernel.py")


@pytest.mark.timeout(BUILD_SECONDS + SECONDS)
def test_without_a_compiler_the_demo_holds(image: str) -> None:
    assert CHECKED in output_of(["docker", "run", "--rm", image, "demo"])


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>recipe</groupId><artifactId>recipe</artifactId><version>1</version>
<dependencies><dependency><groupId>org.testcontainers</groupId><artifactId>testcontainers</artifactId>
<version>1.21.3</version></dependency></dependencies></project>"""

FOR_GO = "github.com/testcontainers/testcontainers-go@v0.45.0"

#: Of each language: the file of the example in docs/testing.md, its last line and what waits for input after it, how
#: the program is built, and how it runs.
RECIPES = {
    "java": (
        "Main.java",
        ("System.out.println(bootstrap);", "System.in.read();"),
        "mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath",
        "java -cp $(cat classpath) Main.java",
    ),
    "go": (
        "main.go",
        ("fmt.Println(bootstrap)", "fmt.Scanln()"),
        f"go mod init recipe && go get {FOR_GO} && go mod tidy -e && go build",
        "./recipe",
    ),
    "js": (
        "main.mjs",
        ("console.log(bootstrap)", "await new Promise((read) => process.stdin.once('data', read))"),
        "npm install --silent --no-audit --no-fund testcontainers@10.28.0",
        "node main.mjs",
    ),
}


@pytest.mark.parametrize("language", RECIPES)
def test_the_recipes_for_testcontainers(compose: Compose, tmp_path: Path, language: str) -> None:
    """A client can connect while the program from docs/testing.md runs. Testcontainers' helper is disabled."""
    name, (printed, waits), install, run = RECIPES[language]
    page = (ROOT / "docs" / "testing.md").read_text()
    (example,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert example.count(printed) == 1
    program = tmp_path / name
    program.write_text(example.replace(printed, f"{printed}\n{waits}"))
    (tmp_path / "pom.xml").write_text(POM)
    shell = partial(subprocess.Popen, shell=True, cwd=tmp_path, text=True)
    with shell(install, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as installing:
        said, _ = installing.communicate(timeout=BUILD_SECONDS)
    assert installing.returncode == 0, said
    environment = os.environ | {"TESTCONTAINERS_RYUK_DISABLED": "true"}
    if Path("/.dockerenv").exists():
        # In a container, it would pull an image to find the host of its own containers.
        environment["TESTCONTAINERS_HOST_OVERRIDE"] = "127.0.0.1"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with shell(run, env=environment, **pipes) as running:
        assert running.stdout is not None
        bootstrap = next(line for line in running.stdout if line.startswith("127.0.0.1:")).strip()
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("orders", b"x")
        assert producer.flush(60) == 0
        running.communicate("\n", timeout=SECONDS)
    assert running.returncode == 0
