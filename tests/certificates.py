"""Authorities and certificates for tests and benchmarks, as files, with keys that are fast to create."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_BEGIN: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_PAST: Final = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
_END: Final = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate and of its key: each as PEM, and both in one PKCS#12 file."""

    certificate: str
    key: str
    keystore: str


class Authority:
    """Signs certificates and writes them to a folder; `path` is its own certificate, `name`.pem in that folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, self._key.public_key(), _END, is_authority=True)
        made = own.sign(self._key, hashes.SHA256())
        self.path = self._write(f"{name}.pem", made.public_bytes(Encoding.PEM))

    def issue(
        self,
        name: str,
        *hosts: str,
        password: str = "",
        has_expired: bool = False,
        subject: x509.Name | None = None,
    ) -> Certificate:
        """Write a certificate of `CN=name,O=tests`, or of another subject, and its key, encrypted with a password if
        given.

        It is valid only for these host names and addresses, by default 127.0.0.1 and localhost.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        if subject is None:
            subject = x509.Name(
                [
                    x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tests"),
                    x509.NameAttribute(NameOID.COMMON_NAME, name),
                ]
            )
        names = x509.SubjectAlternativeName(
            [_general(host) for host in hosts or ("127.0.0.1", "localhost")]
        )
        made = (
            self._builder(subject, key.public_key(), _PAST if has_expired else _END)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        both = pkcs12.serialize_key_and_certificates(name.encode(), key, made, None, encryption)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return Certificate(
            certificate=self._write(f"{name}.pem", made.public_bytes(Encoding.PEM)),
            key=self._write(f"{name}.key", pem),
            keystore=self._write(f"{name}.p12", both),
        )

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        end: datetime.datetime,
        *,
        is_authority: bool = False,
    ) -> x509.CertificateBuilder:
        """Return a builder with the fields that Python 3.13's default context expects."""
        usage = x509.KeyUsage(
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
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_BEGIN)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )

    def _write(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
