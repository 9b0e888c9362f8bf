"""Template numbers: equal templates have the same number, in every process and after every restart.

Python's own hash differs between processes. This one is made of the fields of a plan, one after the other."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

import msgspec


def number_of(plan: object) -> int:
    """Between 1 and 2**63 - 1. `plan`: dataclasses, structs, tuples and sets of values, in one another."""
    digest = blake2b(_encoded(plan), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 1) or 1


def _encoded(plan: object) -> bytes:
    # Not recursive: a condition may be nested more deeply than Python recurses.
    found: list[bytes] = []
    waiting: list[Any] = [plan]
    while waiting:
        part = waiting.pop()
        match part:
            case frozenset() | set():
                encoded = sorted(map(_encoded, part))
                found.append(b"{%d" % len(encoded))
                found += encoded
            case tuple() | list():
                found.append(b"(%d" % len(part))
                waiting += reversed(part)
            case Enum():
                found.append(_value(f"{type(part).__name__}.{part.name}"))
            case None | bool() | int() | float() | str() | bytes():
                found.append(_value(part))
            case msgspec.Struct():
                found.append(_value(type(part).__name__))
                waiting += (getattr(part, name) for name in reversed(part.__struct_fields__))
            case _ if is_dataclass(part):
                found.append(_value(type(part).__name__))
                waiting += (getattr(part, field.name) for field in reversed(fields(part)))
            case _:
                raise TypeError(f"a template contains a {type(part).__name__}, which has no number")
    return b"".join(found)


def _value(value: object) -> bytes:
    text = repr(value).encode()
    return b"%d:%s" % (len(text), text)
