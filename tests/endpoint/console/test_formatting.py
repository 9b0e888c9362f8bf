"""The editor's layout: only white space changes, and a text keeps its meaning and its comments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from endpoint.console.editor.examples import EXAMPLES
from endpoint.console.editor.formatting import formatted
from stream_ext.errors import RilletError
from stream_ext.language.printing import to_canonical
from stream_ext.language.syntax import parse
from tests.stream_ext.w3c import folder

EXAMPLE_FILES = sorted((Path(__file__).parents[3] / "docs/examples/rooms").glob("*.rq"))


def same(text: str) -> None:
    after = formatted(text)
    assert to_canonical(parse(after)) == to_canonical(parse(text))
    assert formatted(after) == after
    assert "".join(after.split()) == "".join(text.split()), "tokens and comments stay as they are"


def test_a_text_in_one_line_is_laid_out() -> None:
    text = (
        "PREFIX ex:<http://ex/> # ours\nREGISTER RSTREAM near AS SELECT ?zone (AVG(?speed) AS ?mean)"
        "FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 10s STEP 1s] WHERE{WINDOW ex:w{?taxi ex:in ?zone;ex:speed ?speed"
        ",-3}OPTIONAL{?zone ex:partOf/ex:in+ ?city}FILTER(?speed>3&&?zone!=ex:z1)}GROUP BY ?zone LIMIT 3"
    )
    assert formatted(text) == (
        "PREFIX ex: <http://ex/>  # ours\n"
        + "REGISTER RSTREAM near AS\n"
        + "SELECT ?zone (AVG(?speed) AS ?mean)\n"
        + "FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 10s STEP 1s]\n"
        + "WHERE {\n"
        + "  WINDOW ex:w {\n"
        + "    ?taxi ex:in ?zone ;\n"
        + "      ex:speed ?speed, -3\n"
        + "  }\n"
        + "  OPTIONAL {\n"
        + "    ?zone ex:partOf/ex:in+ ?city\n"
        + "  }\n"
        + "  FILTER(?speed > 3 && ?zone != ex:z1)\n"
        + "}\n"
        + "GROUP BY ?zone\n"
        + "LIMIT 3\n"
    )


@pytest.mark.parametrize("file", EXAMPLE_FILES, ids=lambda file: file.name)
def test_the_examples_keep_their_meaning(file: Path) -> None:
    same(file.read_text())


@pytest.mark.parametrize(
    "text",
    [text for kind in EXAMPLES.values() for text in kind.values()],
    ids=[n for k in EXAMPLES.values() for n in k],
)
def test_the_templates_are_texts_of_the_language(text: str) -> None:
    same(text)


def test_the_texts_of_the_w3c_keep_their_meaning() -> None:
    texts = 0
    for file in sorted(folder().rglob("*.r[qu]")):
        text = file.read_text(errors="replace")
        try:
            before = to_canonical(parse(text))
        except RilletError:
            continue
        after = formatted(text)
        assert to_canonical(parse(after)) == before, file
        assert re.sub(r"\s", "", after) == re.sub(r"\s", "", text), file
        texts += 1
    assert texts > 700
