"""JSON that nests without end is refused, and the process lives: its parsers call themselves for each level."""

import io
import json
import random

import pytest

from stream_ext.errors import BadData
from stream_ext.rdf import parse_push, parse_rdf
from stream_ext.rdf.documents import JSON_LD, NDJSON, lines_of
from stream_ext.rdf.nesting import NESTING_MAX, Nesting

TOO_DEEP = f"is nested deeper than {NESTING_MAX} levels"


def nested(levels: int) -> bytes:
    return b'{"a:p":' * levels + b"1" + b"}" * levels


def test_json_ld_may_nest_and_not_for_ever() -> None:
    assert len(parse_rdf(nested(NESTING_MAX), JSON_LD, "").s) == NESTING_MAX
    assert len(list(lines_of(io.BytesIO(nested(NESTING_MAX)), JSON_LD, ""))) == 1
    for levels in (NESTING_MAX + 1, 100_000):
        with pytest.raises(BadData, match=TOO_DEEP):
            parse_rdf(nested(levels), JSON_LD, "")
        with pytest.raises(BadData, match=TOO_DEEP):
            list(lines_of(io.BytesIO(nested(levels)), JSON_LD, ""))
        with pytest.raises(BadData, match=rf"in this element: .*{TOO_DEEP}") as caught:
            parse_push(b'{"data": ""}\n{"data": ' + nested(levels) + b"}", NDJSON, 1, "")
        assert caught.value.line == 2


def test_brackets_in_strings_are_no_levels() -> None:
    text = json.dumps([{"a:p": "[{" * 5000 + '\\"' * 7 + "["}])
    assert len(parse_rdf(text.encode(), JSON_LD, "").s) == 1


def test_levels_are_counted_alike_however_the_document_comes_in_pieces() -> None:
    draw = random.Random(3)
    for _ in range(200):
        value: object = "".join(draw.choices('[]{}\\"a', k=draw.randrange(9)))
        levels = draw.randrange(NESTING_MAX - 3, NESTING_MAX + 4)
        for _ in range(levels):
            value = [value] if draw.random() < 0.5 else {"".join(draw.choices('[]{}\\"a', k=3)): value}
        data, nesting, deep = json.dumps([["\\"], value]).encode(), Nesting(), False
        while data:
            size = draw.choice((1, 2, 7, 300))
            try:
                nesting.see(data[:size])
            except BadData:
                deep = True
                break
            data = data[size:]
        assert deep == (levels + 1 > NESTING_MAX)
