"""Who writes to a store: this process, if it is free; else the server that holds it, which does the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hbase_store.errors import WriterElsewhere

_RETRY_FOR_S, _RETRY_EVERY_S = 5.0, 0.25
Way = TypeVar("Way")


def by_whoever_writes(here: Callable[[], Way], there: Callable[[str], Way]) -> Way:
    """`here` takes the lease, or raises WriterElsewhere; `there` is given a server's address. A server that is just
    starting or ending is asked again for some seconds; a holder that is none is named in the error."""
    until = time.monotonic() + _RETRY_FOR_S
    while True:
        try:
            return here()
        except WriterElsewhere as error:
            if error.address and _answers(error.address):
                return there(error.address)
            if not error.address or time.monotonic() >= until:
                raise
        time.sleep(_RETRY_EVERY_S)


def _answers(address: str) -> bool:
    import httpx  # takes a tenth of a second, which who writes here himself need not wait

    try:
        return httpx.get(address.rstrip("/") + "/$/ping", timeout=_RETRY_FOR_S).is_success
    except httpx.HTTPError:
        return False
