"""Authorities and certificates for tests, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.agent.security.certificates import key_usage

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate and of its key."""

    certificate: str
    key: str


class Authority:
    """Signs certificates; `path` is its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_usage(is_authority=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = str(folder / f"{name}.pem")
        Path(self.path).write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *hosts: str, file: str = "", password: str = "") -> Certificate:
        """Signs a certificate of `CN=name,O=tests` for hosts: 127.0.0.1 and localhost unless others are given."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tests"),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        names = [_general(each) for each in hosts or ("127.0.0.1", "localhost")]
        made = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        found = Certificate(
            *(str(self._folder / f"{file or name}.{end}") for end in ("pem", "key"))
        )
        Path(found.certificate).write_bytes(made.public_bytes(serialization.Encoding.PEM))
        encryption = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        Path(found.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
            )
        )
        return found


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
