"""The W3C's tests: every text of SPARQL 1.1 is read, and every other one refused."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph

from stream_ext.errors import QuerySyntaxError, TextError
from stream_ext.language.syntax import parse
from tests.stream_ext.w3c import MANIFEST, RDF_TYPE, file_of, manifests, text_of


def syntax_tests() -> list[tuple[bool, Path]]:
    found = []
    for subjects in manifests(("sparql10", "sparql11")):
        for properties in subjects.values():
            for kind in properties.get(RDF_TYPE, []):
                if isinstance(kind, pyoxigraph.NamedNode) and "SyntaxTest" in kind.value:
                    found.append(("Positive" in kind.value, file_of(properties[MANIFEST + "action"][0])))
    return found


def test_every_legal_text_is_read() -> None:
    refused, texts = [], [path for legal, path in syntax_tests() if legal]
    for path in texts:
        try:
            parse(text_of(path), path.as_uri())
        except TextError as error:
            refused.append(f"{path}: {error}")
    assert not refused, "\n".join(refused)
    assert len(texts) > 250


def test_every_illegal_text_is_an_error() -> None:
    accepted, texts = [], [path for legal, path in syntax_tests() if not legal]
    for path in texts:
        try:
            parse(text_of(path), path.as_uri())
        except QuerySyntaxError:
            continue
        accepted.append(path)
    assert not accepted
    assert len(texts) > 90
