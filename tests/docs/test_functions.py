"""The page of functions names all that there are, and no others."""

from __future__ import annotations

from stream_ext.language.syntax.words import FUNCTIONS
from stream_ext.values.functions import CASTS
from tests.docs.pages import DOCS, Page, codes
from tests.stream_ext.values.computing import XSD

PAGE = Page(DOCS / "reference" / "functions.md")


def test_every_function_is_on_the_page() -> None:
    assert set(codes(PAGE.section("By name"))) == set(FUNCTIONS)


def test_every_cast_is_on_the_page() -> None:
    named = {code.removeprefix("xsd:") for code in codes(PAGE.section("Casts")) if "(" not in code}
    assert named == {name.removeprefix(XSD) for name in CASTS}
