"""Helpers for the tests of the chart: values, Helm, and rendered manifests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason=".ci/chart-tools installs it")

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "lacuna"
LEAST: dict[str, Any] = {"store": {"url": "s3://bucket/prefix"}}
#: Clients need a password, and all that is secret is in Secrets.
SECURE: dict[str, Any] = {
    "store": {"url": "s3://bucket?sse=aws:kms", "existingSecret": "bucket-keys"},
    "listeners": [{"protocol": "SASL_SSL", "port": 9092}],
    "tls": {"existingSecret": "listeners"},
    "sasl": {"users": ["admin", "operator.2"], "existingSecret": "passwords"},
    "authorization": {"enabled": True, "superUsers": ["User:admin", "User:CN=job,O=tests"]},
    "controlTls": {"existingSecret": "mtls", "clusterPrincipals": ["User:CN=pods,O=tests"]},
    "encryption": {"existingSecret": "cluster-keys"},
}
#: Clients need a certificate, and nobody is told from anybody by the control planes.
CERTIFIED: dict[str, Any] = {
    "store": {"url": "s3://bucket"},
    "listeners": [{"protocol": "SSL", "port": 9092}],
    "tls": {"existingSecret": "listeners", "clientAuth": "required"},
    "authorization": {"enabled": True, "superUsers": ["User:CN=agents,O=tests"]},
    "controlTls": {"existingSecret": "mtls"},
}
#: Every value is another than in values.yaml, except one that another needs.
MOST: dict[str, Any] = {
    "image": {"repository": "registry.example/lacuna", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "store": {
        "url": "s3://bucket?endpoint=http://s3:9000",
        "createBucket": True,
        "region": "eu-central-1",
        "existingSecret": "bucket-keys",
    },
    "journal": {"existingSecret": "database", "key": "uri"},
    "serviceAccount": {"create": True, "name": "other", "annotations": {"role": "r"}},
    "settings": {
        "fetch.cache.bytes": "64MiB",
        "num.partitions": 16,
        "auto.create.topics.enable": False,
        "delegation.token.secret.key": "env:TOKEN_KEY",
    },
    "listeners": [{"protocol": "SASL_SSL", "port": 9093}, {"protocol": "SSL", "port": 9094}],
    "tls": {"existingSecret": "listeners", "caEnabled": True, "clientAuth": "required"},
    "sasl": {
        "enabledMechanisms": ["PLAIN", "OAUTHBEARER"],
        "users": ["admin"],
        "existingSecret": "passwords",
    },
    "authorization": {
        "enabled": True,
        "superUsers": ["User:admin"],
        "allowEveryoneIfNoAclFound": True,
    },
    "controlTls": {"existingSecret": "mtls", "clusterPrincipals": ["User:CN=a", "User:CN=b"]},
    "encryption": {"existingSecret": "cluster-keys", "key": "other.toml"},
    "tests": {"enabled": False},
    "ipv6": True,
    "clusterDomain": "example.internal",
}
PLACED: dict[str, Any] = {
    "verbose": False,
    "resources": {"limits": {"memory": "2Gi"}},
    "podAnnotations": {"a": "b"},
    "extraEnv": [{"name": "LACUNA_BROKER_RACK", "value": "a"}],
    "nodeSelector": {"disk": "none"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "high",
}
MOST["controlplane"] = {"replicas": 3, "leaseMs": 5000, **PLACED}
MOST["agent"] = {
    "workers": 4,
    "zoneLabel": "topology.kubernetes.io/zone",
    "autoscaling": {
        "enabled": True,
        "minReplicas": 3,
        "maxReplicas": 9,
        "targetCPUUtilizationPercentage": 50,
    },
    **PLACED,
}

Manifest = dict[str, Any]


def helm(folder: Path, command: str, values: dict[str, Any], *arguments: str) -> str:
    """Return Helm's output. Raises CalledProcessError."""
    ours = Path(sys.executable).with_name("helm")
    found = str(ours) if ours.exists() else shutil.which("helm")
    if found is None:
        pytest.skip("no helm here: .ci/chart-tools .venv installs it")
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    done = subprocess.run(
        [found, *command.split(), str(CHART), f"--values={path}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    return done.stdout


def rendered(folder: Path, values: dict[str, Any]) -> list[Manifest]:
    """Return the manifests that Helm renders for these values."""
    printed = helm(folder, "template release", values, "--namespace=lacuna")
    return [found for found in yaml.safe_load_all(printed) if found]


def of(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [found for found in manifests if found["kind"] == kind]


def pods(manifests: list[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Return the metadata and the spec of each pod."""
    for found in manifests:
        if found["kind"] == "Pod":
            yield found["metadata"], found["spec"]
        elif "template" in found.get("spec", {}):
            template = found["spec"]["template"]
            yield template["metadata"], template["spec"]


def environment_of(spec: Manifest) -> dict[str, str]:
    """Return the variables of a pod's container, with "" for values from elsewhere."""
    (container,) = spec["containers"]
    return {each["name"]: each.get("value", "") for each in container.get("env", [])}


def expand(value: str, given: dict[str, str]) -> str:
    """Replace $(NAME) as Kubernetes does."""
    return re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], value)
