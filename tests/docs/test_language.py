"""The language page says what the parser does: each refusal that it lists is made, and each that is made is listed."""

from __future__ import annotations

import ast
import re

import pytest

from stream_ext.errors import Unsupported
from stream_ext.language.syntax.words import FOREIGN_ELEMENTS
from stream_ext.plan.refused_syntax.refuse import parse_runnable
from tests.docs.pages import DOCS, ROOT, Page, codes, rows
from tests.stream_ext.language.test_refusals import REFUSED as TESTED

LANGUAGE = Page(DOCS / "reference" / "language.md")
BASE = "http://ex/"
REFUSED = LANGUAGE.section("Refused by name")
LISTED = {codes(name)[0]: codes(example)[0] for name, example in rows(REFUSED)}


@pytest.mark.parametrize(("name", "text"), LISTED.items(), ids=list(LISTED))
def test_what_the_page_says_is_refused_is_refused_under_that_name(name: str, text: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        parse_runnable(text, BASE)
    assert refusal.value.message == f"{name} is not supported yet"


def test_every_name_that_a_refusal_has_is_on_the_page() -> None:
    literal, patterns = refusals()
    literal |= FOREIGN_ELEMENTS | {name for _, name, _ in TESTED}
    assert literal - set(LISTED) == set()
    for pattern in patterns:
        assert any(re.fullmatch(pattern, name) for name in LISTED), pattern


def refusals() -> tuple[set[str], set[str]]:
    """The arguments of all calls of `refuse` in the parser: names, and patterns of names that are put together."""
    names: set[str] = set()
    patterns: set[str] = set()
    for path in sorted((ROOT / "stream_ext" / "language" / "syntax").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "refuse":
                _read(node.args[0], names, patterns)
    return names, patterns


def _read(argument: ast.expr, names: set[str], patterns: set[str]) -> None:
    if isinstance(argument, ast.Constant):
        names.add(str(argument.value))
    elif isinstance(argument, ast.IfExp):
        _read(argument.body, names, patterns)
        _read(argument.orelse, names, patterns)
    elif isinstance(argument, ast.JoinedStr):
        pieces = (re.escape(str(v.value)) if isinstance(v, ast.Constant) else "[A-Za-z_ ]+" for v in argument.values)
        patterns.add("".join(pieces))
