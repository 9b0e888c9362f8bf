"""multipart/form-data (RFC 7578): the files of a form, each with what it says it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stream_ext.errors import BadArgument, BadData, TooLarge, UnsupportedMedia

TYPE = "multipart/form-data"

_BOUNDARY = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;,"]{1,70}))""", re.IGNORECASE)
_FILE_NAME = re.compile(r'filename="((?:[^"\\]|\\.)*)"|filename=([^\s;]+)', re.IGNORECASE)
#: What a file is by its name: browsers do not know the types of RDF.
_BY_NAME = {
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "nq": "application/n-quads",
    "trig": "application/trig",
    "rdf": "application/rdf+xml",
    "owl": "application/rdf+xml",
    "xml": "application/rdf+xml",
    "jsonld": "application/ld+json",
    "json": "application/ld+json",
}
_PARTS_MAX, _HEAD_BYTES_MAX = 1_000, 1 << 13
_SAYS_NOTHING = ("", "application/octet-stream", "text/plain")


@dataclass(frozen=True, slots=True)
class Part:
    media_type: str
    data: bytes


def parts_of(body: bytes, content_type: str) -> list[Part]:
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise BadArgument(f"Content-Type: {TYPE} without a boundary says not where its parts begin")
    mark = b"--" + (found[1] or found[2]).encode("latin-1")
    # The line break before a boundary belongs to it, and the first may stand at the very beginning.
    _, *pieces = (b"\r\n" + body).split(b"\r\n" + mark, _PARTS_MAX + 2)
    if len(pieces) > _PARTS_MAX + 1:
        raise TooLarge(f"the form has more than {_PARTS_MAX} parts: send it in several")
    if not pieces or not pieces[-1].startswith(b"--"):
        raise BadData(f"the {TYPE} body has no end: its last line is the boundary and --")
    return [_part(piece, number) for number, piece in enumerate(pieces[:-1], start=1)]


def _part(piece: bytes, number: int) -> Part:
    head, found, data = piece.partition(b"\r\n\r\n")
    if not found or len(head) > _HEAD_BYTES_MAX:
        raise BadData(
            f"part {number} of the form has no empty line between its head, of {_HEAD_BYTES_MAX} bytes at most, "
            "and its content"
        )
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    media_type = headers.get("content-type", "")
    if media_type.partition(";")[0].strip().lower() in _SAYS_NOTHING:
        media_type = _type_by_name(headers.get("content-disposition", ""), number)
    return Part(media_type, data)


def _type_by_name(disposition: str, number: int) -> str:
    found = _FILE_NAME.search(disposition)
    name = (found[1] or found[2] or "") if found else ""
    known = _BY_NAME.get(name.rpartition(".")[2].lower())
    if known is None:
        raise UnsupportedMedia(
            f"part {number} of the form does not say what it is: give it a Content-Type, text/turtle for example, "
            f"or a file name that ends in one of .{', .'.join(_BY_NAME)}"
        )
    return known
