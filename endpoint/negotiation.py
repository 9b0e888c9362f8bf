"""Content negotiation: the media type of an answer, by the Accept header of the request.

If the header names any media type that we write, the client gets it; only if it names none the answer is 406.
Werkzeug parses the header."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from werkzeug.http import parse_accept_header

from stream_ext.errors import BadArgument, NotAcceptable

#: Longer headers are rejected: all ranges are compared with one another, and some headers are cached.
_ACCEPT_CHARACTERS = 4_096


class Offer(NamedTuple):
    media_type: str  # the Content-Type of the answer
    format: str  # the name of its writer


class _Range(NamedTuple):
    media_type: str
    quality: float

    def matches(self, media_type: str) -> bool:
        if self.media_type in ("*/*", "*"):
            return True
        if self.media_type.endswith("/*"):
            return media_type.startswith(self.media_type[:-1])
        return media_type == self.media_type

    @property
    def precision(self) -> int:
        return 0 if self.media_type in ("*/*", "*") else 1 if self.media_type.endswith("/*") else 2


@lru_cache(maxsize=512)
def _ranges(accept: str) -> tuple[_Range, ...]:
    """The media ranges of the header, the best first, without their parameters; malformed ones are skipped."""
    if len(accept) > _ACCEPT_CHARACTERS:
        raise BadArgument(f"the Accept header has {len(accept)} characters; the limit is {_ACCEPT_CHARACTERS}")
    ranges = [
        _Range(media_type.partition(";")[0].strip().lower(), quality)
        for media_type, quality in parse_accept_header(accept)
    ]
    return tuple(sorted(ranges, key=lambda each: -each.quality))


def _allowed(offer: Offer, ranges: Sequence[_Range]) -> bool:
    """Whether the most precise range that matches has a quality above 0."""
    return _liked(offer, ranges) > 0


def choose(accept: str, offers: Sequence[Offer]) -> Offer:
    """The offer with the highest quality. Between equals the order of the header decides, under a wildcard our
    order."""
    return _chosen(accept, tuple(offers))


@lru_cache(maxsize=512)
def _chosen(accept: str, offers: tuple[Offer, ...]) -> Offer:
    ranges = _ranges(accept)
    if not ranges:
        return offers[0]
    for each in ranges:
        for offer in offers:
            if each.quality > 0 and each.matches(offer.media_type) and _allowed(offer, ranges):
                return offer
    have = ", ".join(dict.fromkeys(offer.media_type for offer in offers))
    raise NotAcceptable(f"Accept: {accept} names no media type that is available here; available: {have}")


def prefers_html(accept: str, offers: Sequence[Offer]) -> bool:
    """Whether a browser asks: the header names text/html, with a higher quality than everything that we write."""
    if "text/html" not in accept.lower():
        return False
    ranges = _ranges(accept)
    html = max((each.quality for each in ranges if each.media_type == "text/html"), default=0.0)
    return all(html > _liked(offer, ranges) for offer in offers)


def _liked(offer: Offer, ranges: Sequence[_Range]) -> float:
    """The quality of the most precise range that matches."""
    fitting = [each for each in ranges if each.matches(offer.media_type)]
    return max(fitting, key=lambda each: each.precision).quality if fitting else 0.0
