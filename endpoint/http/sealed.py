"""The seal of a forwarded request: by it the writer knows that a server of the same store has checked the client.

    Rillet-Forwarded: https 5f0c... 9a1b...      scheme that the client used, random text, seal

The seal is an HMAC of method, path, parameters and random text with the secret of the store. The secret itself is never
sent: who listens at the address of a writer that has ended learns nothing by which he could write."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from endpoint.errors import Forbidden

if TYPE_CHECKING:
    from endpoint.http.exchange import Exchange

HEADER = "rillet-forwarded"
#: In answers to forwarded requests: the last commit of emissions, and the kind of an error.
COMMIT, ERROR = "rillet-commit", "rillet-error"

_FIELDS = 3


class Forwarding(Protocol):
    """Sends requests of a reader to the writer."""

    async def forward(self, exchange: Exchange) -> bool:
        """Answers the exchange with what the writer answers; False: this server is the writer, and handles it."""
        ...

    def start(self) -> None: ...

    def close(self) -> Awaitable[None]: ...


class Seal:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sealed(self, scheme: str, method: str, target: bytes) -> str:
        """The header of a request with this method, and this path with its parameters."""
        nonce = secrets.token_hex(16)
        return f"{scheme} {nonce} {self._digest(scheme, method, target, nonce)}"

    def scheme_of(self, header: str, method: str, target: bytes) -> str:
        """The scheme that the client used. Forbidden if no server of this store has sealed the request."""
        parts = header.split(" ")
        if len(parts) == _FIELDS:
            scheme, nonce, digest = parts
            known = self._digest(scheme, method, target, nonce)
            if hmac.compare_digest(digest.encode(), known.encode()):
                return scheme
        raise Forbidden(
            f"this request was not forwarded by a server of the same store: leave the header {HEADER} out, or check "
            "that both servers were started with the same --store"
        )

    def _digest(self, scheme: str, method: str, target: bytes, nonce: str) -> str:
        text = b"\n".join((scheme.encode(), method.encode(), target, nonce.encode()))
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()
