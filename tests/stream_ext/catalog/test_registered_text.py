"""Texts that differ in constants are read as one: each means what it means if it is parsed by itself.

python -m tests.stream_ext.catalog.test_registered_text SEED"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_ext.catalog.catalog import Catalog, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.registered_text import NamedText, RegisteredText, TextTemplates
from stream_ext.catalog.timing import timing_of
from stream_ext.errors import RilletError
from stream_ext.language.algebra.algebra import Register
from stream_ext.language.syntax import parse
from stream_ext.oneshot.advice import warnings_of
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.plan.refused_syntax.refuse import runnable
from tests.stream_ext.continuous.test_sharing import OF_TEMPLATES
from tests.stream_ext.exchanged import Wider, texts_of, wide_quads
from tests.stream_ext.opened import emissions_of, opened, push, registration, triple, values

BASE, EX = "http://rillet/", "http://ex/"
CONSTANTS = (":a", ":b", "<http://ex/c>", '"ab"', '"de"@en', "3", ":p", ":w1", "_:x", "<b>", "un:known")
CATALOG = Catalog({n: StreamDefinition(n, f"s{n}", f"{EX}s{n}", StreamOptions()) for n in (1, 2)})


def parsed(text: str) -> tuple[str, RegisteredText] | None:
    """None: it is refused."""
    try:
        unit = runnable(parse(text, BASE), text)
    except RilletError:
        return None
    assert isinstance(unit, Register)
    assert unit.name is not None
    return unit.name, RegisteredText.of(unit.query)


def meaning(read: RegisteredText) -> Any:
    """All that a registration takes of a text, but for its constants."""
    like = read.like
    windows = [re.sub(r"Position\(.*?\)", "", str(each)) for each in like.windows]
    shape = like.form, like.emits, tuple(columns_of(like)), windows
    return read.parametrised, read.constants, shape, timing_of(like, CATALOG), warnings_of(like)


def check(templates: TextTemplates, text: str) -> bool:
    """Whether the text was read without being parsed."""
    known = templates.read(text, BASE)
    if known is None:
        return False
    alone = parsed(text)
    assert alone is not None, f"it is refused if it is parsed: {text}"
    assert isinstance(known, NamedText)
    assert known.name == alone[0], text
    assert meaning(known.text) == meaning(alone[1]), text
    assert known.text.query == alone[1].query, text
    assert known.text.select == alone[1].select, text
    return True


def windowed(chance: random.Random, number: int) -> Iterator[str]:
    """One of the templates of shared networks, with constants of its own in each text."""
    head, pattern, windows = chance.choice(OF_TEMPLATES)
    named = " ".join(f"FROM NAMED WINDOW :w{n} ON s{n} [RANGE {n + 1}s STEP 1s]" for n in range(1, windows + 1))
    for each in range(6):
        filled = re.sub("%", lambda _: chance.choice(CONSTANTS[: chance.choice((3, 6, len(CONSTANTS)))]), pattern)
        name = f"q{number}.{each}" if chance.random() < 0.9 else "AS"
        yield f"PREFIX : <{EX}> REGISTER RSTREAM {name} AS {head} {named} WHERE {{ {filled} }}"


def over_the_store(chance: random.Random) -> Iterator[str]:
    data = wide_quads(chance)
    for _ in range(6):
        for number, each in enumerate(texts_of(chance, Wider(chance, data).query().whole, 10)):
            text = each.spelled
            start = re.search(r"\b(SELECT|ASK|CONSTRUCT|DESCRIBE)\b", text)
            if start is not None:
                yield f"{text[: start.start()]} REGISTER ISTREAM n{number} AS {text[start.start() :]}"


def play(seed: int) -> int:
    chance, templates = random.Random(seed), TextTemplates()
    texts = [*over_the_store(chance), *(text for n in range(20) for text in windowed(chance, n))]
    return sum(check(templates, text) for text in texts)


@pytest.mark.parametrize("block", range(4))
def test_a_text_of_a_known_outline_means_what_it_means_alone(block: int) -> None:
    assert sum(play(seed) for seed in range(10 * block, 10 * block + 10)) > 100


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_thousands_of_texts_do(block: int) -> None:
    assert sum(play(seed) for seed in range(1_000 + 200 * block, 1_200 + 200 * block)) > 2_000


def test_what_is_folded_away_is_no_parameter() -> None:
    """`:b = :b` is true: a text in which the two differ is another query."""
    templates = TextTemplates()
    texts = [
        f"PREFIX : <{EX}> REGISTER ISTREAM q{n} AS SELECT ?x {{ ?x :p :{a[0]} FILTER(?x = :z || :{a[1]} = :{a[2]}) }}"
        for n, a in enumerate(["abb", "cbb", "dbb", "bbb", "dbe", "ebe", "ffe"])
    ]
    for text in texts:
        check(templates, text)


def test_a_text_with_the_name_of_a_marker_is_parsed() -> None:
    templates = TextTemplates()
    for number in range(5):
        text = f"REGISTER ISTREAM q{number} AS SELECT ?x {{ ?x <p> <urn:rillet:registered:{number}> }}"
        assert not check(templates, text), "what is a marker, and what is a constant, cannot be told apart"


def test_a_service_is_looked_at_in_every_text(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for number in range(3):
            with pytest.raises(RilletError, match="SERVICE"):
                service.register(
                    f"REGISTER ISTREAM q{number} AS SELECT ?x {{ ?x <http://ex/p> <http://ex/{number}> "
                    "SERVICE <http://127.0.0.1:1/> { ?x ?y ?z } }"
                )


def test_registrations_of_one_outline_see_what_has_changed_between_them(tmp_path: Path) -> None:
    """The stream's time, its new reader, and the predicates of the store."""

    def text(number: int) -> str:
        return registration(f"q{number}", pattern=f"?x :p :n{number} . ?x :of ?y")

    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for number in range(4):
            service.register(text(number))
        push(service, "s", 5_000, triple("a", "b"))
        late = service.register(text(4))[0]
        assert late.state.registered == 5_000
        assert late.since == service.query_definition("q0").since + 5
        again, created, _ = service.register(text(4))
        assert (again, created) == (late, False)
        with pytest.raises(RilletError, match="another text"):
            service.register(text(4).replace(":n4", ":n5"))


def test_replays_of_all_streams_have_constants_of_their_own(tmp_path: Path) -> None:
    """The logic over the streams of a variable is made of one text."""
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for number in range(4):
            push(service, "s", 1_000 * (number + 1), triple(f"a{number}", f"n{number}"))
        for number in range(4):
            service.register(
                f"PREFIX : <{EX}> REGISTER RSTREAM q{number} AS SELECT ?x FROM NAMED WINDOW :w ON ?s "
                f"[START 0 END 10000] WHERE {{ WINDOW :w {{ ?x :p :n{number} }} }}"
            )
        push(service, "s", 20_000, triple("x", "y"))
        found = [[values(each) for each in emissions_of(service, f"q{number}")] for number in range(4)]
    assert found == [[[(f"a{number}",)]] for number in range(4)]


def test_definitions_that_are_alike_share_what_is_alike(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for _ in service.register_all(registration(f"q{n}", pattern=f"?x :p :n{n}") for n in range(40)):
            pass
        one, other = service.query_definition("q30"), service.query_definition("q31")
        assert one.variables is other.variables
        assert one.state is other.state or one.since != other.since
    with opened(tmp_path) as service:
        one, other = service.query_definition("q30"), service.query_definition("q31")
        assert one.text != other.text
        assert one.variables is other.variables


if __name__ == "__main__":
    print(play(int(sys.argv[1])))
