"""What every answer says to the browser that shows it.

Data that others wrote comes back from here in forms that a browser can show, RDF/XML with elements of HTML among them.
So an answer loads nothing and runs nothing, whatever is in it; only our own pages load what is ours. No answer is shown
inside a page of another site, and no other window can steer one of ours."""

from __future__ import annotations

from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]

_SHUT = "frame-ancestors 'none'; base-uri 'none'"
_DATA = f"default-src 'none'; form-action 'none'; {_SHUT}"
_COMMON = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin"))
_OF_DATA: Headers = ((b"content-security-policy", _DATA.encode()), *_COMMON)
# Browsers show XML by a style that they write into it.
_OF_XML: Headers = ((b"content-security-policy", (_DATA + "; style-src 'unsafe-inline'").encode()), *_COMMON)


def of_data(media_type: bytes | None) -> Headers:
    """Of whatever is no page."""
    return _OF_XML if media_type is not None and b"xml" in media_type else _OF_DATA


def of_page(http: str = "") -> dict[str, str]:
    """Of a page of ours; `http` is where it sends requests and forms besides its own origin."""
    source = f"'self' {http}".rstrip()
    return {
        "content-security-policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            f"connect-src {source}; form-action {source}; {_SHUT}"
        ),
        "x-content-type-options": "nosniff",
        # Not "no-referrer": a browser would send the forms of such a page as of an unknown origin.
        "referrer-policy": "same-origin",
        # Whoever opened the page in a window cannot put another text under the button that somebody is about to press.
        "cross-origin-opener-policy": "same-origin",
    }
