"""Tests that Helm and Kubernetes accept the chart, and that its parts match each other and our commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lacuna.cli.tables import all_keys, variables
from tests.deploy.chart import (
    CERTIFIED,
    CHART,
    LEAST,
    MOST,
    PLACED,
    SECURE,
    Manifest,
    environment_of,
    expand,
    helm,
    of,
    pods,
    rendered,
)

validation = pytest.importorskip("kubernetes_validate", reason=".ci/chart-tools installs it")
yaml = pytest.importorskip("yaml")

OLDEST, NEWEST = "1.27", "1.37"
pytestmark = pytest.mark.slow


@pytest.fixture(
    params=[LEAST, SECURE, CERTIFIED, MOST], ids=["least", "secure", "certified", "most"]
)
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


@pytest.fixture
def manifests(tmp_path: Path, values: dict[str, Any]) -> list[Manifest]:
    return rendered(tmp_path, values)


def test_helm_has_nothing_against_it(tmp_path: Path, values: dict[str, Any]) -> None:
    assert "0 chart(s) failed" in helm(tmp_path, "lint --strict", values)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_knows_every_field(manifests: list[Manifest], version: str) -> None:
    for found in manifests:
        validation.validate(found, version, strict=True)


@pytest.mark.parametrize(
    "field",
    ["minReadySeconds", "readOnlyRootFilesystem", "publishNotReadyAddresses", "failureThreshold"],
)
def test_a_misspelled_field_would_be_seen(tmp_path: Path, field: str) -> None:
    """Kubernetes would ignore it."""
    written = json.dumps(rendered(tmp_path, LEAST))
    assert f'"{field}"' in written
    for found in json.loads(written.replace(field, field.swapcase())):
        if field.swapcase() in json.dumps(found):
            with pytest.raises(validation.ValidationError, match="Additional properties"):
                validation.validate(found, NEWEST, strict=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"store": {"url": "bucket"}},
        LEAST | {"agents": {}},
        LEAST | {"agent": {"replica": 3}},
        LEAST | {"controlplane": {"replicas": 0}},
        LEAST | {"settings": {"num.partitions": [1]}},
        LEAST | {"listeners": []},
        LEAST | {"listeners": [{"protocol": "TLS", "port": 9092}]},
        LEAST | {"listeners": [{"protocol": "SSL"}]},
        SECURE | {"sasl": {"users": ["not a key"], "existingSecret": "passwords"}},
        SECURE | {"sasl": {"users": {"admin": "secret"}, "existingSecret": "passwords"}},
        SECURE | {"authorization": {"enabled": True, "superUsers": ["admin"]}},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        rendered(tmp_path, wrong)
    assert "values don't meet the specifications of the schema" in refusal.value.stderr


TLS, SASL = {"protocol": "SSL", "port": 9093}, {"protocol": "SASL_PLAINTEXT", "port": 9094}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"listeners": [TLS]}, "tls.existingSecret"),
        ({"listeners": [{"protocol": "SASL_SSL", "port": 9092}]}, "tls.existingSecret"),
        ({"listeners": [SASL, {"protocol": "SASL_PLAINTEXT", "port": 9095}]}, "is there twice"),
        ({"listeners": [SASL, {"protocol": "PLAINTEXT", "port": 9094}]}, "port 9094 is taken"),
        ({"listeners": [{"protocol": "PLAINTEXT", "port": 9644}]}, "health checks"),
        ({"tls": {"existingSecret": "listeners"}}, "no listener has TLS"),
        ({"tls": {"clientAuth": "required"}}, "tls.clientAuth is for"),
        (
            {
                "listeners": [TLS],
                "tls": {"existingSecret": "x", "caEnabled": False, "clientAuth": "required"},
            },
            "tls.caEnabled",
        ),
        ({"listeners": [SASL], "sasl": {"users": ["admin"]}}, "sasl.existingSecret"),
        ({"listeners": [SASL], "sasl": {"existingSecret": "x"}}, "sasl.users is empty"),
        ({"sasl": {"users": ["admin"], "existingSecret": "x"}}, "no listener has SASL"),
        ({"authorization": {"enabled": True}}, "authorization.superUsers"),
        ({"authorization": {"superUsers": ["User:admin"]}}, "authorization.enabled is false"),
        ({"controlTls": {"clusterPrincipals": ["User:CN=a"]}}, "controlTls.existingSecret"),
        ({"settings": {"controlplane.journal": "postgresql://u:p@h/d"}}, "journal.existingSecret"),
        ({"settings": {"listeners": "SASL_SSL://0.0.0.0:9092"}}, "with the value listeners"),
    ],
    ids=str,
)
def test_values_that_do_not_go_together_are_refused(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        rendered(tmp_path, LEAST | wrong)
    assert said in refusal.value.stderr
    assert "u:p@h" not in refusal.value.stderr


def test_settings_that_are_refused_are_ours_and_the_values_instead_are_the_charts() -> None:
    text = (CHART / "templates" / "validation.yaml").read_text()
    instead = dict(re.findall(r'^  "([\w.]+)" "([\w.]+)"$', text, re.MULTILINE))
    assert len(instead) > 10
    assert set(instead) <= all_keys()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in instead.values():
        found = values
        for name in path.split("."):
            found = found[name]


def test_the_parts_fit_together(manifests: list[Manifest]) -> None:
    """Selectors match pods, containers define the named ports, and all referenced names exist."""
    found_pods = [(metadata["labels"], spec) for metadata, spec in pods(manifests)]
    for service in of(manifests, "Service"):
        (spec,) = [
            spec
            for labels, spec in found_pods
            if service["spec"]["selector"].items() <= labels.items()
        ]
        named = {port["name"] for port in spec["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named
    for kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
        for each in of(manifests, kind):
            wanted = each["spec"]["selector"]["matchLabels"]
            assert sum(wanted.items() <= labels.items() for labels, _ in found_pods) == 1
    for labels, spec in found_pods:
        for constraint in spec["topologySpreadConstraints"]:
            assert constraint["labelSelector"]["matchLabels"].items() <= labels.items()
    services = {each["metadata"]["name"] for each in of(manifests, "Service")}
    (agents,) = of(manifests, "StatefulSet")
    environment = environment_of(agents["spec"]["template"]["spec"])
    assert agents["spec"]["serviceName"] in services
    assert environment["LACUNA_CONTROL"].removesuffix(":7070") in services
    (account,) = of(manifests, "ServiceAccount")
    for _, spec in pods(manifests):
        assert spec["serviceAccountName"] == account["metadata"]["name"]


def test_pods_have_no_rights(manifests: list[Manifest]) -> None:
    for _, spec in pods(manifests):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_our_commands_read_what_the_pods_are_given(
    manifests: list[Manifest], tmp_path: Path
) -> None:
    """Each command reads all of its variables and options, and the settings form a valid config file."""
    for found in of(manifests, "ConfigMap"):
        (tmp_path / "lacuna.toml").write_text(found["data"].get("lacuna.toml", ""))
    for metadata, spec in pods(manifests):
        given = environment_of(spec)
        assert {name for name in given if name.startswith("LACUNA_")} <= set(variables())
        if metadata["labels"]["app.kubernetes.io/component"] == "test":
            continue
        given |= {"POD_NAME": "agent-0", "POD_IP": "10.0.0.1"}
        expanded = {name: expand(value, given) for name, value in given.items() if value}
        if "LACUNA_CONFIG" in given:
            expanded["LACUNA_CONFIG"] = str(tmp_path / "lacuna.toml")
        done = subprocess.run(
            [sys.executable, "-m", "lacuna", *spec["containers"][0]["args"], "--print-config"],
            env=expanded,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr
        assert 'store = "s3://bucket' in done.stdout
        used = set(re.findall(r"  # (LACUNA_\w+)$", done.stdout, re.MULTILINE))
        ours = {name for name, value in given.items() if value and name.startswith("LACUNA_")}
        elsewhere = {each["name"] for each in PLACED["extraEnv"]} | {"LACUNA_CONFIG"}
        assert ours - elsewhere <= used
