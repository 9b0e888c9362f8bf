"""Relative references to absolute IRIs, as RFC 3986 section 5.2 says (`urljoin` differs in corners).

An IRI that has a scheme stays as it is written: what is loaded from N-Triples is not normalised either,
and a query must be able to name it."""

from __future__ import annotations

import re

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")

Parts = tuple[str | None, str | None, str, str | None, str | None]


def is_absolute(iri: str) -> bool:
    return _SCHEME.match(iri) is not None


def resolve(reference: str, base: str) -> str:
    """`resolve("../g", "http://a/b/c/d")` is `http://a/b/g`."""
    if is_absolute(reference):
        return reference
    _, authority, path, query, fragment = _split(reference)
    base_scheme, base_authority, base_path, base_query, _ = _split(base)
    if authority is not None:
        return _join(base_scheme, authority, _remove_dots(path), query, fragment)
    if path == "":
        query = base_query if query is None else query
        return _join(base_scheme, base_authority, base_path, query, fragment)
    if not path.startswith("/"):
        path = _merge(base_authority, base_path, path)
    return _join(base_scheme, base_authority, _remove_dots(path), query, fragment)


def _split(iri: str) -> Parts:
    match = _PARTS.fullmatch(iri)
    assert match is not None  # every part may be empty, so everything matches
    return match[1], match[2], match[3], match[4], match[5]


def _join(scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None) -> str:
    return "".join(
        (
            "" if scheme is None else scheme + ":",
            "" if authority is None else "//" + authority,
            path,
            "" if query is None else "?" + query,
            "" if fragment is None else "#" + fragment,
        )
    )


def _merge(base_authority: str | None, base_path: str, path: str) -> str:
    if base_authority is not None and base_path == "":
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _remove_dots(path: str) -> str:
    """RFC 3986 5.2.4 on whole segments: `.` vanishes, `..` takes the segment before it along."""
    segments = path.split("/")
    merged: list[str] = []
    for segment in segments:
        if segment == "..":
            # The empty first segment is the leading slash: nothing goes above it.
            if len(merged) > 1 or (merged and merged[0] != ""):
                merged.pop()
        elif segment != ".":
            merged.append(segment)
    if segments[-1] in (".", ".."):
        merged.append("")
    result = "/".join(merged)
    return "/" + result if path.startswith("/") and not result.startswith("/") else result
