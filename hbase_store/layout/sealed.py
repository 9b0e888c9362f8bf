"""Sealed values: what every row of ours begins and ends with, so that damage is noticed before it is believed.

A sealed value is a magic of two letters (what kind of row it is), a version byte, a zero byte, the payload and a
CRC32 of all before it, little-endian. A payload that is larger than one value may be is cut into pieces."""

from __future__ import annotations

import struct
import zlib
from typing import TypeVar

import msgspec

from hbase_store.backends.keyvalue import CALL_BYTES_MAX, Key, Value
from hbase_store.errors import Corrupt, LayoutError

VERSION = 1
_CRC = struct.Struct("<I")
OVERHEAD = 4 + _CRC.size
#: Some room is left for the key and for what a backend adds.
PAYLOAD_BYTES_MAX = CALL_BYTES_MAX - 1024

S = TypeVar("S", bound=msgspec.Struct)


def seal(magic: bytes, payload: bytes) -> Value:
    content = magic + bytes((VERSION, 0)) + payload
    return content + _CRC.pack(zlib.crc32(content))


def is_whole(value: Value) -> bool:
    """Whether the checksum of a sealed value is right."""
    return len(value) >= OVERHEAD and _CRC.unpack_from(value, len(value) - 4)[0] == zlib.crc32(value[:-4])


def unseal(magic: bytes, value: Value | None, table: str, key: Key) -> memoryview:
    """The payload of what `table` holds under `key`."""
    if value is None:
        raise Corrupt(f"the row {key.hex()} is missing from table {table}; restore the store from a backup")
    if not is_whole(value):
        raise corrupt(table, key, f"its checksum over {len(value)} bytes is wrong")
    if value[:2] != magic:
        raise corrupt(table, key, f"it is a row of kind {value[:2]!r}, not {magic!r}")
    if value[2] != VERSION:
        raise LayoutError(f"the row {key.hex()} of table {table} has version {value[2]}; this Rillet reads {VERSION}")
    return payload_of(value)


def payload_of(value: Value) -> memoryview:
    """The payload of a sealed value that was looked at before."""
    return memoryview(value)[4:-4]


def corrupt(table: str, key: Key, what: str) -> Corrupt:
    return Corrupt(f"the row {key.hex()} of table {table} is damaged: {what}; restore the store from a backup")


def seal_struct(magic: bytes, struct: msgspec.Struct) -> Value:
    return seal(magic, msgspec.msgpack.encode(struct))


def unseal_struct(magic: bytes, value: Value | None, table: str, key: Key, kind: type[S]) -> S:
    payload = unseal(magic, value, table, key)
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except msgspec.DecodeError as error:
        raise corrupt(table, key, str(error)) from error


def of_pieces(count: int) -> list[int]:
    """How large each of so many pieces is at most: where there are several, all but the last are as large as can be."""
    return [CALL_BYTES_MAX] * count


def cut(payload: bytes) -> list[bytes]:
    """Pieces that fit into one value each; at least one."""
    starts = range(0, max(len(payload), 1), PAYLOAD_BYTES_MAX)
    return [payload[start : start + PAYLOAD_BYTES_MAX] for start in starts]
