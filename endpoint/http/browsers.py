"""The security headers of answers, for browsers that show them.

Data of other people is sent in forms that browsers show, for example RDF/XML with HTML elements in it. So these
headers forbid an answer to load or run anything; only our own pages load our own files. No answer is shown inside a
page of another site, and no other window can control one of ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

Headers = Sequence[tuple[bytes, bytes]]

_SHUT = "frame-ancestors 'none'; base-uri 'none'"
_DATA = f"default-src 'none'; form-action 'none'; {_SHUT}"
_COMMON = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin"))
_OF_DATA: Headers = ((b"content-security-policy", _DATA.encode()), *_COMMON)
# Browsers show XML by a style that they write into it.
_OF_XML: Headers = ((b"content-security-policy", (_DATA + "; style-src 'unsafe-inline'").encode()), *_COMMON)


@lru_cache(maxsize=64)
def of_data(media_type: bytes | None) -> Headers:
    """The headers of an answer that is not a page."""
    return _OF_XML if media_type is not None and b"xml" in media_type else _OF_DATA


def of_page(http: str = "") -> dict[str, str]:
    """The headers of a page of ours; `http`: where the page sends requests and forms besides its own origin."""
    source = f"'self' {http}".rstrip()
    return {
        "content-security-policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            f"connect-src {source}; form-action {source}; {_SHUT}"
        ),
        "x-content-type-options": "nosniff",
        # Not "no-referrer": then browsers send the forms of the page with an unknown origin.
        "referrer-policy": "same-origin",
        # A page that opened ours in a window cannot change its text just before the user presses a button.
        "cross-origin-opener-policy": "same-origin",
    }
