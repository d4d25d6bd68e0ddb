"""A certificate for 127.0.0.1 and its authority, for targets over TLS; made anew in each run."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=2)
_KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the certificate, its key, both in one file as Kafka's keystore, and the authority's certificate."""

    certificate: Path
    key: Path
    keystore: Path
    authority: Path

    @property
    def client(self) -> dict[str, str]:
        """The settings with which librdkafka trusts it."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}


def make_certificate(folder: Path) -> Certificate:
    """Makes the files in `folder`. The certificate signs itself, so it is its own authority."""
    key = rsa.generate_private_key(65537, _KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFETIME)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    made = Certificate(
        folder / "tls.crt", folder / "tls.key", folder / "tls.pem", folder / "tls.crt"
    )
    made.certificate.write_bytes(certificate)
    made.key.write_bytes(secret)
    made.keystore.write_bytes(secret + certificate)
    return made
