"""Pages and figures are sent packed to a browser that takes them so: a table of many rows is mostly repetition."""

from __future__ import annotations

import gzip

from flask import Response, request

#: A shorter one fits into one packet of the network anyway.
_LEAST_BYTES = 1400
_TEXTS = ("text/html", "application/json")
#: Pages are made anew for each request, so little time is spent on each.
_LEVEL = 3


def pack(response: Response) -> None:
    """Packs the body of a page, in place."""
    if response.mimetype not in _TEXTS or response.is_streamed or "content-encoding" in response.headers:
        return
    response.vary.add("accept-encoding")
    body = response.get_data()
    if len(body) < _LEAST_BYTES or not request.accept_encodings["gzip"]:
        return
    response.set_data(gzip.compress(body, _LEVEL, mtime=0))
    response.headers["content-encoding"] = "gzip"
