"""Certificates: of this server, and of the servers that it forwards to."""

from __future__ import annotations

import ssl
from pathlib import Path

from stream_ext.errors import BadArgument


def settings_of(cert: str | None, key: str | None) -> dict[str, str]:
    """The settings of TLS for uvicorn; empty without both. BadArgument if the files are no certificate and key."""
    if not cert and not key:
        return {}
    if not cert or not key:
        raise BadArgument("--tls-cert and --tls-key belong together: the certificate (with its chain), and its key")
    for flag, name in (("--tls-cert", cert), ("--tls-key", key)):
        if not Path(name).exists():
            raise BadArgument(f"{name}: this file does not exist ({flag})")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, _no_password)
    except OSError as error:
        files = f"--tls-cert {cert} --tls-key {key}"
        raise BadArgument(
            f"{files}: {error.strerror or error}; both are PEM files, the key without a password"
        ) from None
    return {"ssl_certfile": cert, "ssl_keyfile": key}


def trusting(cert: str) -> ssl.SSLContext:
    """Trusts what the system trusts, and this certificate itself, without its issuer."""
    context = ssl.create_default_context()
    context.load_verify_locations(cert)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _no_password() -> str:
    raise OSError("the key has a password")
