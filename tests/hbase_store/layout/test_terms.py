"""Terms keep their bytes, and ids say what they stand for."""

from __future__ import annotations

import numpy as np
import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbase_store.layout.terms import (
    BLANK,
    DICTIONARY,
    INTEGER,
    Term,
    blank_id,
    inline_id,
    inline_integers,
    inline_text,
    integer_id,
    iri,
    literal,
    parse_term,
    tag_of,
)

XSD = "http://www.w3.org/2001/XMLSchema#"
#: All of Unicode but lone surrogates, which UTF-8 cannot hold; controls and line separators come up often.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\n\r\t\0\x7f\x85\u2028\ufeff\U0010ffff<>{}|^` ')
)
LANGUAGES = st.from_regex(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8}){0,2}", fullmatch=True)


@given(TEXT)
def test_an_iri_comes_back_whatever_is_in_it(value: str) -> None:
    assert parse_term(iri(value)) == Term("iri", value)


@given(TEXT, LANGUAGES | st.none(), TEXT)
def test_a_literal_comes_back_with_its_language_or_datatype(lexical: str, language: str | None, datatype: str) -> None:
    if language is not None:
        assert parse_term(literal(lexical, language)) == Term("literal", lexical, language)
    else:
        assert parse_term(literal(lexical, datatype="x" + datatype)) == Term("literal", lexical, None, "x" + datatype)


@given(TEXT)
def test_another_parser_reads_the_same_term(lexical: str) -> None:
    line = b"<http://a/s> <http://a/p> " + literal(lexical) + b" .\n"
    (triple,) = pyoxigraph.parse(line, format=pyoxigraph.RdfFormat.N_TRIPLES)
    assert triple.object.value == lexical


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (literal('a"b\\c\nd\re\tf'), b'"a\\"b\\\\c\\nd\\re\tf"'),
        (literal("a", datatype=XSD + "string"), b'"a"'),
        (literal("a", "en-GB"), b'"a"@en-GB'),
        (literal("é", datatype=XSD + "token"), '"é"^^<http://www.w3.org/2001/XMLSchema#token>'.encode()),
        (iri("http://a/ü b>"), "<http://a/ü\\u0020b\\u003E>".encode()),
    ],
)
def test_only_what_must_be_escaped_is_escaped(made: bytes, text: bytes) -> None:
    assert made == text


def test_escapes_that_are_never_written_are_read() -> None:
    assert parse_term(rb'"\u00e9\U0001F600\t\b\f\'"') == Term("literal", "é\U0001f600\t\b\f'")


@pytest.mark.parametrize("text", [b"", b"x", b'"', b'"a"^^x', b'"a"x', rb'"\q"', b"<a"])
def test_what_is_no_term_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"N-Triples"):
        parse_term(text)


def test_a_literal_cannot_have_a_language_and_a_datatype() -> None:
    with pytest.raises(ValueError, match="not both"):
        literal("a", "en", XSD + "token")
    with pytest.raises(ValueError, match="not a language tag"):
        literal("a", "en us")


@given(st.integers(-(1 << 59), (1 << 59) - 1))
def test_an_integer_within_60_bits_is_its_own_id(value: int) -> None:
    text = literal(str(value), datatype=XSD + "integer")
    id = inline_id(text)
    assert id == integer_id(value) != 0
    assert inline_text(id) == text
    assert inline_integers(np.array([id], np.uint64)).tolist() == [value]
    assert tag_of(np.array([id], np.uint64)).tolist() == [INTEGER]


@given(st.lists(st.integers(-(1 << 59), (1 << 59) - 1)))
def test_ids_of_integers_sort_as_their_values(values: list[int]) -> None:
    assert sorted(values) == sorted(values, key=integer_id)


@pytest.mark.parametrize(
    "lexical", ["01", "+1", "-0", "", "1.0", " 1", "1\n", "٣", "a", str(1 << 59), str(-(1 << 59) - 1), "9" * 30]
)
def test_an_integer_that_is_not_canonical_or_too_large_goes_to_the_dictionary(lexical: str) -> None:
    assert inline_id(literal(lexical, datatype=XSD + "integer")) == 0


@pytest.mark.parametrize(
    "text", [b'"1"', b'"1"@en', b'"1"^^<http://www.w3.org/2001/XMLSchema#int>', b"_:x", b"_:b01", b"_:b", b"<b1>"]
)
def test_other_terms_are_not_inline(text: bytes) -> None:
    assert inline_id(text) == 0


@given(st.integers(0, 10**18 - 1))
def test_a_blank_node_is_its_number(number: int) -> None:
    text = b"_:b%d" % number
    assert inline_id(text) == blank_id(number)
    assert inline_text(blank_id(number)) == text
    assert tag_of(np.array([blank_id(number), 1], np.uint64)).tolist() == [BLANK, DICTIONARY]
