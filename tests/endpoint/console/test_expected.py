"""What the editor offers at the cursor is what the parser accepts there."""

from __future__ import annotations

import pytest

from endpoint.console.editor.expected import expected
from stream_ext.errors import QuerySyntaxError
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.words import KEYWORDS

BASE = "http://ex/"
OVER = "REGISTER RSTREAM near AS SELECT * FROM NAMED WINDOW <w> ON STREAM taxis ["


def keywords(before: str) -> set[str]:
    found = expected(before, BASE, lambda: None).keywords
    assert found is not None
    return set(found)


def wanted(before: str) -> str:
    return expected(before, BASE, lambda: None).wanted


def test_only_words_that_may_follow_are_offered() -> None:
    assert keywords("SELECT * { ?s ?p ?o } ") == {"GROUP", "HAVING", "LIMIT", "OFFSET", "ORDER", "VALUES"}
    assert keywords("SELECT * { ?s ?p ?o } GROUP ") == {"BY"}
    assert keywords("REGISTER ") == {"DSTREAM", "ISTREAM", "QUERY", "RSTREAM", "STREAM"}
    assert {"RANGE", "TUMBLING", "NOW", "ALL"} <= keywords(OVER)
    assert {"STEP", "SLIDE", "REPORT"} <= keywords(OVER + "RANGE 10s ")
    assert not {"SELECT", "RANGE", "WHERE"} & keywords(OVER + "RANGE 10s ")
    assert "UNION" in keywords("SELECT * { { ?s ?p ?o } ")
    assert keywords("SELECT * { FILTER ") == {"EXISTS", "NOT EXISTS"}
    assert "SELECT" in keywords("") and "LIMIT" not in keywords("")


def test_what_is_missing_is_known() -> None:
    assert wanted("SELECT * { ?s ") == "predicate"
    assert wanted("SELECT * { ?s ?p ?o ; ") == "predicate"
    assert wanted("SELECT * { ?s ?p ") == "object"
    assert wanted("SELECT * { ?s ?p ?o . ") == "group"
    assert wanted("SELECT * { FILTER(") == wanted("SELECT (") == wanted("SELECT * {} ORDER BY ") == "expression"
    assert wanted("REGISTER RSTREAM ") == wanted(OVER.removesuffix("taxis [")) == "name"


def test_after_an_error_or_a_very_long_text_nothing_is_said() -> None:
    assert expected("SELECT * { ?s unknown:p ", BASE, lambda: None).keywords is None
    assert expected("SELECT * { " + "?s ?p ?o . " * 1000, BASE, lambda: None).keywords is None


@pytest.mark.parametrize("before", ["", "SELECT * { ?s ?p ?o } ", "SELECT * { ", "INSERT ", OVER, "SELECT ?x ", "ASK "])
def test_an_offered_word_is_no_error_and_another_is_one(before: str) -> None:
    offered = keywords(before)
    for word in KEYWORDS:
        try:
            parse(before + word, BASE)
            stop = len(before + word) + 1
        except QuerySyntaxError as error:
            stop = error.column
        assert (stop > len(before) + 1) == (word in offered), word
