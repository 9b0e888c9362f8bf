"""The JSON of an emission against its members written one by one, each by a JSON library."""

import json
import random
from typing import Any

import msgspec
import numpy as np
import pytest

from hbase_store.layout import terms
from hbase_store.layout.terms import parse_term
from stream_ext.emissions.emission import EmissionBody, to_json
from stream_ext.emissions.terms_in_json import term_json, terms_json

_SIGNS = ["a", "Z", "7", " ", "/", "%", "%s", "<", ">", "^^<", "@en", "~", "{", "}", ",", "\x7f", "\x80", "\u2028"]
_ODD = ['"', "\\", "\t", "\n", "\r", "\x00", "\x1f", "é", "ß", "\ufffe", "\U0001d11e", "\\u00e9", '\\"']


def in_words(chance: random.Random, is_odd: bool) -> str:
    return "".join(chance.choices([*_SIGNS, *(_ODD if is_odd else [])], k=chance.randrange(6)))


def a_term(chance: random.Random) -> bytes:
    text = in_words(chance, chance.random() < 0.5)
    match chance.randrange(5):
        case 0:
            return terms.iri("http://ex/" + in_words(chance, chance.random() < 0.2))
        case 1:
            return b"_:b%d" % chance.randrange(9)
        case 2:
            return terms.literal(text, language=chance.choice(["en", "de-at", "x-1"]))
        case 3:
            return terms.literal(text, datatype="http://ex/" + in_words(chance, chance.random() < 0.2))
        case _:
            return terms.literal(text)


def as_described(text: bytes) -> dict[str, str]:
    """SPARQL 1.1 Query Results JSON Format, 3.2.2."""
    term = parse_term(text)
    kind = {"iri": "uri", "blank": "bnode", "literal": "literal"}[term.kind]
    more = {"xml:lang": term.language} if term.language else {"datatype": term.datatype} if term.datatype else {}
    return {"type": kind, **more, "value": term.value}


def body(variables: list[str], texts: list[bytes], columns: list[list[int]]) -> EmissionBody:
    places = [np.array(column, "<i4").tobytes() for column in columns]
    return EmissionBody("q", 1, "RSTREAM", 0, [], 1, variables, texts, places, None, 0, None)


@pytest.mark.parametrize("seed", range(20))
def test_each_term_is_written_byte_by_byte_as_a_json_library_writes_its_members(seed: int) -> None:
    chance = random.Random(seed)
    texts = [a_term(chance) for _ in range(200)]
    for text, shown in zip(texts, terms_json(texts), strict=True):
        assert shown == term_json(text) == msgspec.json.encode(as_described(text)), f"seed {seed}: {text!r}"


@pytest.mark.parametrize("text", [b"<>", b'""', b'"a"^^<>', b'"a"@', b"<a>b>", b'"<a>"', b'"%s"@en-GB'])
def test_terms_at_the_edge_of_what_is_plain_are_written_so_too(text: bytes) -> None:
    expected = msgspec.json.encode(as_described(text))
    assert term_json(text) == expected
    assert terms_json([b"<http://ex/a>", text, b"_:b"])[1] == expected
    assert terms_json([text]) == [expected]


def test_a_term_with_a_line_break_of_its_own_is_one_term() -> None:
    texts = [b"<http://ex/a>", b'"a\nb"', b'"c\n"', b"<http://ex/b>"]
    assert terms_json(texts) == [term_json(text) for text in texts]


@pytest.mark.parametrize("seed", range(20))
def test_rows_have_a_member_for_each_bound_variable(seed: int) -> None:
    chance = random.Random(seed)
    texts = list(dict.fromkeys(a_term(chance) for _ in range(12)))
    variables, rows, least = [["s"], ["s", "été"], []][seed % 3], chance.randrange(9), -1 if seed % 2 else 0
    columns = [[chance.randrange(least, len(texts)) for _ in range(rows)] for _ in variables]
    expected: list[dict[str, Any]] = [
        {name: as_described(texts[place]) for name, place in zip(variables, row, strict=True) if place >= 0}
        for row in zip(*columns, strict=True)
    ]
    sent = to_json(body(variables, texts, columns))
    assert json.loads(sent)["results"]["bindings"] == expected, f"seed {seed}"
    assert sent.endswith(b'"results":{"bindings":%s}}' % msgspec.json.encode(expected))
