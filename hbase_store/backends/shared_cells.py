"""What all servers of a store must agree on, as cells of `meta`: the secret by which they know each other, and the base
against which relative IRIs are resolved.

A cell is set by compare-and-set, so of two servers that begin at the same time one decides, and both use that."""

from __future__ import annotations

import secrets

from hbase_store.backends.keyvalue import CompareAndSet, KeyValue
from hbase_store.errors import StoreUnavailable

#: Of the keys of these cells.
SHARED_PREFIX = b"shared/"
_SECRET_KEY = SHARED_PREFIX + b"secret"
_BASE_KEY = SHARED_PREFIX + b"base"
_TRIES = 4


def shared_secret(kv: KeyValue) -> bytes:
    """A random text that only processes know that can open the store; it is made at the first call."""
    for _ in range(_TRIES):
        (found,) = kv.get_many("meta", [_SECRET_KEY])
        if found is not None:
            return found
        kv.publish([], CompareAndSet(_SECRET_KEY, None, secrets.token_hex(32).encode()))
    raise StoreUnavailable("the secret that the servers of this store share could not be read; try again")


def shared_base(kv: KeyValue) -> str | None:
    """The base of the server that wrote last; None: no server has written yet."""
    (found,) = kv.get_many("meta", [_BASE_KEY])
    return None if found is None else found.decode()


def share_base(kv: KeyValue, base: str) -> None:
    """Sets the base; for the process that has the lease."""
    new = base.encode()
    for _ in range(_TRIES):
        (found,) = kv.get_many("meta", [_BASE_KEY])
        if found == new or kv.publish([], CompareAndSet(_BASE_KEY, found, new)):
            return
    raise StoreUnavailable("the base of this store changes again and again; make sure that only one process writes")
