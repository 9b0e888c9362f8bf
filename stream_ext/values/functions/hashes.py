"""Hash functions (SPARQL 1.1, 17.4.6): of the UTF-8 bytes of a string without a language, in lower-case hex."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from stream_ext.values.values import Value


def _hash(name: str) -> Callable[[Value | None], str | None]:
    def digest(value: Value | None) -> str | None:
        if not isinstance(value, str):
            return None
        return hashlib.new(name, value.encode(), usedforsecurity=False).hexdigest()

    return digest


HASHES = {name: _hash(name.lower()) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")}
