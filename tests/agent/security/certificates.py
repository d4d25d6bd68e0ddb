"""Certificates for tests: an authority, and what it signs, with keys that are quick to make."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_BEGIN: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END: Final = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
_PAST: Final = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)


def _encryption(password: bytes) -> KeySerializationEncryption:
    return BestAvailableEncryption(password) if password else NoEncryption()


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def write(self, folder: Path, name: str, password: bytes = b"") -> tuple[str, str]:
        """Writes both as PEM; returns the paths of the certificate and the key."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        key.write_bytes(
            self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password))
        )
        return str(certificate), str(key)

    def write_keystore(self, path: Path, password: bytes) -> str:
        """Writes both as a PKCS#12 file; returns its path."""
        content = pkcs12.serialize_key_and_certificates(
            b"agent", self.key, self.certificate, None, _encryption(password)
        )
        path.write_bytes(content)
        return str(path)


class Authority:
    """An authority of its own."""

    def __init__(self, name: str = "Authority") -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def certificate(self) -> x509.Certificate:
        """Its own certificate."""
        return self._build(self._name, self._key, _END, is_authority=True)

    def write(self, path: Path) -> str:
        """Writes its certificate as PEM; returns the path."""
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        return str(path)

    def issue(
        self,
        common_name: str = "localhost",
        names: Sequence[str] = ("localhost",),
        *,
        has_expired: bool = False,
    ) -> Pair:
        """A certificate for these host names and 127.0.0.1, whose subject has an organization too."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        return Pair(self._build(subject, key, _PAST if has_expired else _END, names), key)

    def _build(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        end: datetime.datetime,
        names: Sequence[str] = (),
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        hosts: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        hosts.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_BEGIN)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(key_usage(is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(identifier, False)
            .add_extension(x509.SubjectAlternativeName(hosts), False)
            .sign(self._key, hashes.SHA256())
        )


def key_usage(is_authority: bool) -> x509.KeyUsage:
    """What a key is for, which Python 3.13's default context wants an authority's certificate to say."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
