"""Finds the process that can write to a store: this one, if no other does; otherwise the server that has the lease."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hbase_store.errors import AnotherWriter

_RETRY_FOR_S, _RETRY_EVERY_S = 5.0, 0.25
Written = TypeVar("Written")


def with_writer(write_here: Callable[[], Written], write_through: Callable[[str], Written]) -> Written:
    """`write_here` writes in this process, or raises AnotherWriter; `write_through` is called with the address of
    the server that writes. A server that is just starting or ending is tried again for some seconds; otherwise the
    error names the writer."""
    until = time.monotonic() + _RETRY_FOR_S
    while True:
        try:
            return write_here()
        except AnotherWriter as error:
            if error.address and _answers(error.address):
                return write_through(error.address)
            if not error.address or time.monotonic() >= until:
                raise
        time.sleep(_RETRY_EVERY_S)


def _answers(address: str) -> bool:
    import httpx  # the import takes a tenth of a second; not needed if this process writes

    try:
        return httpx.get(address.rstrip("/") + "/$/ping", timeout=_RETRY_FOR_S).is_success
    except httpx.HTTPError:
        return False
