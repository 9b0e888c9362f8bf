"""How deep JSON nests, seen before the parser of JSON-LD reads it.

That parser calls itself for each level, and one that runs out of stack ends the whole process: a few kilobytes of
brackets would be enough. Outside of strings a bracket is a bracket, so the levels are counted without a parser."""

from __future__ import annotations

import re
from typing import IO, Any

import numpy as np

from stream_ext.errors import BadData

NESTING_MAX = 500
TOO_DEEP = f"its JSON is nested deeper than {NESTING_MAX} levels: make it flatter"
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b'"[]{}'))
_PIECE = 1 << 20  # bytes that are looked at together


class Nesting:
    """Counts along; what was seen of a document is its depth, and whether a string is open."""

    def __init__(self) -> None:
        self._depth, self._quoted, self._escape = 0, False, b""

    def see(self, piece: bytes) -> None:
        plain = self._escape + piece
        if b"\\" in plain:
            plain = _ESCAPED.sub(b"", plain)
        self._escape = b"\\" if plain.endswith(b"\\") else b""
        letters = np.frombuffer(plain.translate(None, _OTHERS), np.uint8)
        quoted = (np.cumsum(letters == ord('"'), dtype=np.int32) + self._quoted) & 1
        up, down = (letters == ord("{")) | (letters == ord("[")), (letters == ord("}")) | (letters == ord("]"))
        depth = self._depth + np.cumsum((up.astype(np.int8) - down) * (1 - quoted), dtype=np.int32)
        if len(depth):
            self._depth, self._quoted = int(depth[-1]), bool(quoted[-1])
            if depth.max() > NESTING_MAX:
                raise BadData(TOO_DEEP)


def check_nesting(data: bytes) -> None:
    if data.count(b"{") + data.count(b"[") > NESTING_MAX:
        nesting = Nesting()
        for begin in range(0, len(data), _PIECE):
            nesting.see(data[begin : begin + _PIECE])


class Shallow:
    """A file of JSON that is read on while it does not nest too deep."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._nesting = stream, Nesting()

    def read(self, *size: Any) -> bytes:
        piece = self._stream.read(*size)
        self._nesting.see(piece)
        return piece
