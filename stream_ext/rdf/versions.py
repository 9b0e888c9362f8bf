"""Version labels: what a document in RDF 1.2 says of itself, in its media type or by VERSION in its text."""

from __future__ import annotations

from stream_ext.errors import BadData

_MESSAGES = "-messages"
_PLAIN = ("1.1", "1.2-basic", "1.2")
#: Those of RDF 1.2, and those of the draft of RDF Messages.
VERSION_LABELS = (*_PLAIN, *(label + _MESSAGES for label in _PLAIN))


def is_of_messages(label: str) -> bool:
    """Whether a known label announces a message log."""
    return label.endswith(_MESSAGES)


def announces_messages(label: bytes, line: int = 0, column: int = 0) -> bool:
    """Whether the label in a document announces a message log; BadData if it is not known."""
    text = label.decode(errors="replace")
    if text not in VERSION_LABELS:
        raise BadData(f"the version {text[:80]!r} is not known here: {', '.join(VERSION_LABELS)} are", line, column)
    return is_of_messages(text)
