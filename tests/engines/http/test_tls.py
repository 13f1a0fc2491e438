"""``http.connection`` over TLS: only an authority that is known or named is trusted."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from engines import registry as arms
from harness.core.errors import IndexNotReady
from tests.make.search_server import DOCUMENTS, serving


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Sign a certificate of this machine by itself, valid for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509
        .CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    (tmp_path / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_certificate_is_verified_unless_the_file_says_otherwise(
    certificate: Path, index: Path
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    path = index.parent / "mine.toml"
    with serving(tls) as served:
        path.write_text(served.toml(), encoding="utf-8")
        with pytest.raises(IndexNotReady, match=r"certificate is not trusted.* as ca_file"):
            arms.load(str(path), index).build(DOCUMENTS, index)
        known = f'"{certificate.with_name("ca.pem")}"'
        for number, changed in enumerate(({"ca_file": known}, {"verify": "false"})):
            path.write_text(served.toml(**changed), encoding="utf-8")
            made = index / str(number)
            made.mkdir()
            one = arms.load(str(path), index)
            one.build(DOCUMENTS, made)
            with one.open(made) as searcher:
                assert searcher.search("red cone", 1).hits[0].doc_id == "d0"
