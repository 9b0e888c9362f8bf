"""Texts drawn from the grammar are read, and are the same after printing; other engines read the plain ones."""

from __future__ import annotations

import pyoxigraph
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from stream_ext.errors import TextError
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.statements import Unit
from stream_ext.language.printing import cache_key, to_sparql
from stream_ext.language.syntax import parse
from stream_ext.oneshot.explain_text import explain_text
from stream_ext.plan.refused_syntax.refuse import refusals
from tests.stream_ext.language.grammar import queries, updates
from tests.stream_ext.language.roundtrip import BASE, check_roundtrip

#: A refusal that the grammar above runs into by chance: names meet, windows do not agree.
_BY_CHANCE = (
    "has a value in",
    "has two windows",
    "is written twice",
    "needs a window that closes",
    "use one dialect in a query",
)


def read(text: str) -> Unit | None:
    try:
        return parse(text, BASE)
    except TextError as error:
        assert any(reason in error.message for reason in _BY_CHANCE), f"{error}\n{text}"
        return None


@seed(20261118)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(queries(), updates()))
def test_a_text_of_the_grammar_is_the_same_after_printing(text: str) -> None:
    unit = read(text)
    if unit is not None:
        check_roundtrip(unit)
        assert list(refusals(unit)) is not None
        assert explain_text(unit)
        assert cache_key(unit) == cache_key(unit)


@seed(20261118)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries())
def test_pyoxigraph_reads_the_plain_text(text: str) -> None:
    unit = read(text)
    if not isinstance(unit, Query):
        return
    plain = to_sparql(unit)
    try:
        pyoxigraph.Store().query(plain)
    except SyntaxError as error:
        raise AssertionError(f"{error}\n{plain}\n{text}") from None
    except (OSError, RuntimeError, ValueError):
        pass  # it was read; services and functions are not there
