"""multipart/form-data (RFC 7578): the files of a form, each with its media type.

Werkzeug splits the body into parts; this module decides the media type and encoding of a part, and the limits."""

from __future__ import annotations

import base64
import binascii
import quopri
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from werkzeug.datastructures import Headers
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Field, File, MultipartDecoder, NeedData, State

from stream_ext.errors import BadArgument, BadData, TooLarge, UnsupportedMedia

TYPE = "multipart/form-data"

#: Media types by the suffix of the file name: browsers do not know those of RDF.
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
#: The body is decoded in steps of so many bytes, so that no step takes long.
_STEP_BYTES = 1 << 16
_UNKNOWN_TYPES = ("", "application/octet-stream", "text/plain")


@dataclass(frozen=True, slots=True)
class Part:
    media_type: str
    data: bytes


@dataclass(slots=True)
class _Unfinished:
    number: int
    headers: Headers
    file_name: str
    pieces: list[bytes] = field(default_factory=list)

    def part(self) -> Part:
        return Part(self._media_type(), self._decoded(b"".join(self.pieces)))

    def _media_type(self) -> str:
        media_type = self.headers.get("content-type", "")
        if media_type.partition(";")[0].strip().lower() not in _UNKNOWN_TYPES:
            return media_type
        known = _BY_NAME.get(self.file_name.rpartition(".")[2].lower())
        if known is None:
            raise UnsupportedMedia(
                f"part {self.number} of the form has no known type: give it a Content-Type, text/turtle for example, "
                f"or a file name that ends in one of .{', .'.join(_BY_NAME)}"
            )
        return known

    def _decoded(self, data: bytes) -> bytes:
        encoding = self.headers.get("content-transfer-encoding", "binary").strip().lower()
        decode = _TRANSFER_ENCODINGS.get(encoding)
        if decode is None:
            raise BadData(
                f"part {self.number} of the form has Content-Transfer-Encoding: {encoding}; the supported "
                f"ones are {', '.join(_TRANSFER_ENCODINGS)}"
            )
        try:
            return decode(data)
        except binascii.Error as error:
            raise BadData(f"part {self.number} of the form is not {encoding}: {error}") from error


#: RFC 7578 has deprecated them, but some clients still send them.
_TRANSFER_ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "binary": bytes,
    "8bit": bytes,
    "7bit": bytes,
    "base64": lambda data: base64.b64decode(b"".join(data.split()), validate=True),
    "quoted-printable": quopri.decodestring,
}


def parts_of(body: bytes, content_type: str) -> list[Part]:
    boundary = parse_options_header(content_type)[1].get("boundary", "")
    if not 0 < len(boundary) <= 70:
        raise BadArgument(f"Content-Type: {TYPE} needs the boundary of its parts, of 1 to 70 characters")
    decoder = MultipartDecoder(boundary.encode(), max_parts=_PARTS_MAX)
    parts: list[_Unfinished] = []
    try:
        for event in _events(decoder, body, lambda: len(parts) + 1):
            if isinstance(event, (File, Field)):
                name = event.filename if isinstance(event, File) else ""
                parts.append(_Unfinished(len(parts) + 1, event.headers, name))
            elif isinstance(event, Data):
                parts[-1].pieces.append(event.data)
    except RequestEntityTooLarge as error:
        raise TooLarge(f"the form has more than {_PARTS_MAX} parts: send several forms") from error
    except ValueError as error:
        raise BadData(f"part {len(parts) + 1} of the form: {error}") from error
    return [each.part() for each in parts]


def _events(decoder: MultipartDecoder, body: bytes, number: Callable[[], int]) -> Iterator[object]:
    """The events of the decoder, step by step, up to the closing boundary."""
    for start in range(0, len(body), _STEP_BYTES):
        decoder.receive_data(body[start : start + _STEP_BYTES])
        while not isinstance(event := decoder.next_event(), NeedData):
            yield event
            if isinstance(event, Data) and event.more_data:
                break  # the decoder would search the same bytes again
        if decoder.state is State.EPILOGUE:
            return
        if decoder.state is State.PART and len(decoder.buffer) > _HEAD_BYTES_MAX:
            raise BadData(
                f"part {number()} of the form has no empty line between its head, of {_HEAD_BYTES_MAX} bytes at most, "
                "and its content"
            )
    raise BadData(f"the {TYPE} body has no end: its last line is the boundary and --")
