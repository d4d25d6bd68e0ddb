"""Tests the chart with security enabled: the pods' inputs, and a cluster of processes with the same inputs.

Files stand in for Secrets, localhost for the names of pods, and free ports for theirs. Everything else is used as
rendered.
"""

from __future__ import annotations

import secrets
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lacuna.operating.moto import CREDENTIALS
from lacuna.testing.ports import lasting_ports
from tests.certificates import Authority, Certificate
from tests.clients.librd import eventually
from tests.deploy.chart import (
    CERTIFIED,
    LEAST,
    MOST,
    SECURE,
    Manifest,
    environment_of,
    expand,
    helm,
    of,
    pods,
    rendered,
)

pytestmark = pytest.mark.slow

AGENT = "release-lacuna-agent"
NAMES = [f"{AGENT}-0.{AGENT}.lacuna.svc.cluster.local", "release-lacuna.lacuna.svc.cluster.local"]

#: The content of Secrets and ConfigMaps, by their names.
Kept = Mapping[str, Mapping[str, str]]


def by_component(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Return the specs of the pods by component."""
    return {
        metadata["labels"]["app.kubernetes.io/component"]: spec
        for metadata, spec in pods(manifests)
    }


@pytest.mark.parametrize("values", [SECURE, CERTIFIED, MOST], ids=["secure", "certified", "most"])
def test_secrets_are_files_that_change_with_them(tmp_path: Path, values: dict[str, Any]) -> None:
    """Kubernetes does not update files in a subPath. Only the process can read these files."""
    for spec in by_component(rendered(tmp_path, values)).values():
        assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        (container,) = spec["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        for mount in container["volumeMounts"]:
            assert "subPath" not in mount
            assert mount["readOnly"] is True
        for volume in volumes.values():
            assert "configMap" in volume or volume["secret"]["defaultMode"] == 0o440


def test_a_pod_has_the_secrets_that_it_needs(tmp_path: Path) -> None:
    def names(values: dict[str, Any]) -> dict[str, set[str]]:
        return {
            component: {
                volume["secret"]["secretName"]
                for volume in spec.get("volumes", [])
                if "secret" in volume
            }
            for component, spec in by_component(rendered(tmp_path, values)).items()
        }

    assert names(LEAST) == {"agent": set(), "controlplane": set(), "test": set()}
    assert names(SECURE) == {
        "agent": {"listeners", "passwords", "mtls", "cluster-keys"},
        "controlplane": {"mtls", "cluster-keys"},
        "test": {"listeners", "passwords", "mtls"},
    }


def test_control_planes_without_principals_are_asked_for_no_acls(tmp_path: Path) -> None:
    """With ACLs, they would not start, since they could not distinguish jobs from agents."""
    specs = by_component(rendered(tmp_path, CERTIFIED))
    assert "LACUNA_AUTHORIZER_CLASS_NAME" in environment_of(specs["agent"])
    assert "LACUNA_AUTHORIZER_CLASS_NAME" not in environment_of(specs["controlplane"])


def test_a_certificate_need_not_come_with_an_authority(tmp_path: Path) -> None:
    tls = SECURE["tls"] | {"caEnabled": False}
    for name, spec in by_component(rendered(tmp_path, SECURE | {"tls": tls})).items():
        given = environment_of(spec)
        assert "LACUNA_SSL_CA_LOCATION" not in given
        assert ("LACUNA_SSL_CERTIFICATE_LOCATION" in given) is (name == "agent")


@pytest.mark.parametrize(
    "sasl",
    [
        {"enabledMechanisms": ["SCRAM-SHA-256"]},
        SECURE["sasl"] | {"enabledMechanisms": ["OAUTHBEARER"]},
    ],
    ids=str,
)
def test_there_is_no_demo_that_could_not_log_in(tmp_path: Path, sasl: dict[str, Any]) -> None:
    values = SECURE | {"sasl": sasl}
    assert "test" not in by_component(rendered(tmp_path, values))
    assert "helm test" not in notes(tmp_path, values)
    assert "helm test" in notes(tmp_path, SECURE)


def notes(folder: Path, values: dict[str, Any]) -> str:
    printed = helm(folder, "install release", values, "--dry-run=client", "--namespace=lacuna")
    return printed.partition("\nNOTES:\n")[2]


def test_the_notes_say_what_a_certificate_must_name(tmp_path: Path) -> None:
    """Clients also accept every advertised address."""
    shown = [line.strip() for line in notes(tmp_path, SECURE).splitlines()]
    names = shown[next(i for i, line in enumerate(shown) if "DNS names" in line) + 2 :][:2]
    own = Authority(tmp_path).issue("agents", *names)
    advertised = environment_of(by_component(rendered(tmp_path, SECURE))["agent"])
    assert advertised["LACUNA_ADVERTISED_LISTENERS"] == (
        f"SASL_SSL://$(POD_NAME).{AGENT}.lacuna.svc.cluster.local:9092"
    )
    for name in NAMES:
        assert shakes_hands(own, tmp_path / "authority.pem", name)
    assert not shakes_hands(own, tmp_path / "authority.pem", "other.lacuna.svc.cluster.local")


def shakes_hands(own: Certificate, authority: Path, name: str) -> bool:
    """Return whether a client that expects this name accepts the certificate."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(own.certificate, own.key)
    client.load_verify_locations(str(authority))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    try:
        while ends:
            for end in tuple(ends):
                try:
                    end.do_handshake()
                    ends.remove(end)
                except ssl.SSLWantReadError:
                    pass
    except ssl.SSLCertVerificationError:
        return False
    return True


@pytest.mark.parametrize("values", [LEAST, SECURE], ids=["open", "secure"])
def test_the_notes_say_what_is_open(tmp_path: Path, values: dict[str, Any]) -> None:
    shown = notes(tmp_path, values)
    for what in ("Agents let in everybody", "may do everything", "can do everything"):
        assert (what in shown) is (values is LEAST)


@dataclass(frozen=True, slots=True)
class Given:
    """The inputs to a pod's process, and the address of its health endpoint."""

    arguments: list[str]
    environment: dict[str, str]
    health: str

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lacuna", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
        )

    @contextmanager
    def running(self, ready: str) -> Iterator[None]:
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna", *self.arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(ready)
            yield
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
            process.communicate()

    def answers(self, probe: Manifest) -> int:
        """Return the status code of the response to a probe."""
        try:
            url = f"http://{self.health}{probe['httpGet']['path']}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def brought_here(spec: Manifest, folder: Path, kept: Kept, elsewhere: Mapping[str, str]) -> Given:
    """Return a pod's inputs, with its files in a folder and local addresses instead of pod addresses."""
    health = f"127.0.0.1:{lasting_ports(1)[0]}"
    moved = {**elsewhere, "0.0.0.0:9644": health, "0.0.0.0": "127.0.0.1"}
    (container,) = spec["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    moved |= {place: str(folder / name) for name, place in places.items()}

    def here(text: str) -> str:
        for old, new in moved.items():
            text = text.replace(old, new)
        return text

    for volume in spec["volumes"]:
        (folder / volume["name"]).mkdir(parents=True)
        source = volume.get("configMap", {}).get("name") or volume["secret"]["secretName"]
        for name, content in kept[source].items():
            (folder / volume["name"] / name).write_text(here(content))
    given = environment_of(spec) | {"POD_NAME": f"{AGENT}-0", "POD_IP": "127.0.0.1"}
    environment = {name: here(expand(value, given)) for name, value in given.items()}
    for source in container.get("envFrom", []):
        environment |= kept[source["secretRef"]["name"]]
    return Given([here(each) for each in container["args"]], environment, health)


@pytest.mark.parametrize("values", [SECURE, CERTIFIED], ids=["secure", "certified"])
def test_a_secure_cluster_works(tmp_path: Path, values: dict[str, Any], bucket_url: str) -> None:
    """The demo in `helm test` passes, probes are answered, and strangers are rejected."""
    port, control_port = lasting_ports(2)
    control = f"127.0.0.1:{control_port}"
    manifests = rendered(
        tmp_path,
        values
        | {
            "store": {"url": f"{bucket_url}&sse=AES256", "existingSecret": "bucket-keys"},
            "listeners": [{**values["listeners"][0], "port": port}],
        },
    )
    authority = Authority(tmp_path)

    def tls_secret(name: str) -> dict[str, str]:
        own = authority.issue(name)
        files = {"tls.crt": own.certificate, "tls.key": own.key, "ca.crt": authority.path}
        return {name: Path(file).read_text() for name, file in files.items()}

    key = b64encode(secrets.token_bytes(32)).decode()
    kept = {
        "listeners": tls_secret("agents"),
        "mtls": tls_secret("pods"),
        "passwords": {"admin": "first-secret\n", "operator.2": "second-secret"},
        "cluster-keys": {"keys.toml": f'current = "one"\n[keys]\none = "{key}"\n'},
        "bucket-keys": CREDENTIALS,
        **{each["metadata"]["name"]: each["data"] for each in of(manifests, "ConfigMap")},
    }
    elsewhere = dict.fromkeys(NAMES, "localhost")
    for address in ("0.0.0.0:7070", "127.0.0.1:7070", "release-lacuna-controlplane:7070"):
        elsewhere[address] = control
    specs = by_component(manifests)
    here = {
        name: brought_here(spec, tmp_path / name, kept, elsewhere) for name, spec in specs.items()
    }
    planes, agents, demo = (here[name] for name in ("controlplane", "agent", "test"))
    with planes.running("control plane: "), agents.running("bootstrap: "):
        for name in ("controlplane", "agent"):
            (container,) = specs[name]["containers"]
            for probe in ("livenessProbe", "readinessProbe"):
                eventually(partial(here[name].answers, container[probe]), 200)
        ran = demo.command(*demo.arguments)
        assert ran.returncode == 0, ran.stderr
        assert "Every claim above was checked" in ran.stdout
        status = planes.command("controlplane", "status", f"--control={control}")
        assert f"leader {control}" in status.stdout, status.stderr
        stranger = Given([], {}, "")
        assert stranger.command("controlplane", "status", f"--control={control}").returncode == 1
        assert stranger.command("topics", "list", f"--bootstrap=localhost:{port}").returncode == 1
