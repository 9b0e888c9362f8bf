"""Names: suggestions for mistyped ones, and whether one is an IRI."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from itertools import islice

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
_COMPARED_MAX = 1_000  # names that a mistyped one is held against


def meant(key: str, known: Iterable[str], most: int = 1) -> str:
    """A suggestion for an unknown name: " (did you mean 'timestamp'?)", or nothing."""
    near = difflib.get_close_matches(key, islice(known, _COMPARED_MAX), n=most)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def is_iri(text: str) -> bool:
    return _IRI.fullmatch(text) is not None
