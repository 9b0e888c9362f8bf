"""Lines that one expression takes apart say the same as they do to the reader that takes every line by itself."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from stream_ext.errors import BadData
from stream_ext.rdf import parse_push, pushes

NDJSON = "application/x-ndjson"
_PLAIN = (
    "<a:o>", "<http://ex/é#x>", '"plain"', '"é 😀"', '""', '"21"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"x"@EN-gb',
    '"s"^^<http://www.w3.org/2001/XMLSchema#string>',
)  # fmt: skip
_OBJECTS = (*_PLAIN, '"a\\tb"', '"\\u00e9"', "_:b", '"a/b"')


def a_line(chance: random.Random, odd: float, plain: Sequence[str]) -> bytes:
    data = f"<a:s{chance.randrange(5)}> <a:p{chance.randrange(3)}> {chance.choice(plain)} ."
    time: Any = chance.choice((0, -5, 1_000, 10**18))
    if chance.random() >= odd:
        separators = chance.choice(((",", ":"), (", ", ": ")))
        return json.dumps({"timestamp": time, "data": data}, separators=separators, ensure_ascii=False).encode()
    others: tuple[bytes, ...] = (
        b"", b"  ", json.dumps({"data": data, "timestamp": 7}).encode(),
        json.dumps({"timestamp": time, "data": data}).encode(),  # é as an escape of JSON
        json.dumps({"timestamp": "1970-01-01T00:00:00Z", "data": data}).encode(),
        json.dumps({"timestamp": time, "graph": "g", "data": data}).encode(),
        json.dumps({"timestamp": time, "data": data + data + " # behind"}).encode(),
        json.dumps({"timestamp": time, "data": f"<a:s><a:p>{chance.choice(_OBJECTS)}."}).encode(),
        json.dumps({"timestamp": time, "data": {"@id": "a:s", "a:p": 5}}).encode(),
        b'{"timestamp":5,"data":"<a:s> <a:p> <a:o> ."}\r',
    )  # fmt: skip
    return chance.choice(others)


def read(data: bytes) -> tuple[Any, ...]:
    """All that is known of a push; of one that is wrong, what is wrong where."""
    try:
        found = parse_push(data, NDJSON, 9, "http://base/")
    except BadData as error:
        return str(error), error.line, error.column
    parsed = found.parsed
    columns = (parsed.s, parsed.p, parsed.o, parsed.g, found.element, found.time, found.graph)
    return (parsed.terms, *(column.tolist() for column in columns), found.blanks_per_element)


def both_ways(data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    found = read(data)
    with monkeypatch.context() as patch:
        patch.setattr(pushes, "plain_elements", lambda piece: None)
        assert read(data) == found, data
    return found


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.5])
def test_pushes_say_the_same_either_way(odd: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes, "_PIECE_BYTES", 500)
    for seed in range(60):
        chance = random.Random(seed)
        # Every other ten lines have IRIs only.
        lines = [a_line(chance, odd, _PLAIN[: (8, 2)[n // 10 % 2]]) for n in range(chance.randrange(1, 60))]
        found = both_ways(b"\n".join(lines) + chance.choice((b"", b"\n", b"\r\n")), monkeypatch)
        assert len(found) > 3, found


_GOOD = b'{"timestamp":1,"data":"<a:s> <a:p> <a:o> ."}\n'


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"timestamp":01,"data":"<a:s> <a:p> <a:o> ."}',
        b'{"timestamp":1000000000000000001,"data":"<a:s> <a:p> <a:o> ."}',
        b'{"timestamp":1,"data":"<a:s> <a:p> <a:o> ."} x', b'{"timestamp":1,"data":"<a:s> <a:p> <a:o>"}',
        b'{"timestamp":1,"data":"<a:s> <a:p> \\"\xff\\" ."}', b'{"timestamp":1,"data":"<a:s> <a:p> \\"a\tb\\" ."}',
        b'{"timestamp":1,"data":"<s> <a:p> <a:o> ."}', b'{"timestamp":1.5,"data":"<a:s> <a:p> <a:o> ."}', b"rubbish",
        b'{"timestamp":1,"data":"<a:s> <a:p> \\"a\\nb\\" ."}{"timestamp":1,"data":"<a:s> <a:p> <a:o> ."}',
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(wrong: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes, "_PIECE_BYTES", 200)
    message, line, _ = both_ways(_GOOD * 20 + wrong + b"\n" + _GOOD * 3, monkeypatch)
    assert line == 21, message


def test_plain_lines_are_taken_apart_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes, "_element_rows", lambda *_: pytest.fail("this line was read by itself"))
    assert len(read(_GOOD * 5_000)[5]) == 5_000
