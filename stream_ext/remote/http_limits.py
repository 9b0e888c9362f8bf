"""HTTP within limits that httpx does not have.

A time for the whole head of an answer: httpx has one for each byte, so that a server that sends a header a byte at a
time would be waited for as long as it likes. And an answer may be packed once, not several times over: each layer may
make a thousand times as many bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    import httpx

#: How answers may be packed.
PACKING = "gzip"


class PackedOtherwise(Exception):
    """An answer is packed in a way that was not asked for."""


def client(verify: ssl.SSLContext | bool, **settings: Any) -> httpx.Client:
    """An httpx.Client; it knows neither proxies nor passwords of the environment."""
    import httpx  # takes a tenth of a second to import

    from stream_ext.remote.timed_streams import TimedBackend

    transport = httpx.HTTPTransport(verify=verify, trust_env=False)
    # httpx has no argument for it. Each read of a connection goes through it.
    transport._pool._network_backend = TimedBackend(transport._pool._network_backend)
    headers = {"accept-encoding": PACKING, **settings.pop("headers", {})}
    return httpx.Client(transport=transport, trust_env=False, headers=headers, **settings)


@contextmanager
def streamed(of: httpx.Client, method: str, url: str, head_s: float, **request: Any) -> Iterator[httpx.Response]:
    """As httpx.Client.stream; the head is there within `head_s`, or httpx.ReadTimeout is raised. PackedOtherwise for an
    answer that cannot be unpacked safely."""
    from stream_ext.remote.timed_streams import ends

    ends.at = time.monotonic() + head_s
    try:
        response = of.send(of.build_request(method, url, **request), stream=True)
    finally:
        ends.at = None
    try:
        packed = response.headers.get("content-encoding", "identity").strip().lower()
        if packed not in (PACKING, "identity", ""):
            raise PackedOtherwise(f"answered what is packed by {packed[:100]!r}, and was asked for {PACKING}")
        yield response
    finally:
        response.close()
