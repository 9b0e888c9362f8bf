"""Queries that differ in constants share a plan: each answers as it does with a plan of its own."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.errors import QuerySyntaxError
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax.outline import Outline, outline_of
from stream_ext.oneshot.answers import answer_once
from stream_ext.oneshot.plan_templates import PlanTemplate, plan_template
from stream_ext.oneshot.question import Question, Questions
from tests.stream_ext.generated import EX, LITERALS, NODES, PREDICATES, PROLOGUE
from tests.stream_ext.oneshot.test_differential import made
from tests.stream_ext.oneshot.test_plans import answered
from tests.stream_ext.peers import TooMuch, load

_NAME = re.compile(r'(?<![\w?$:^"]):[a-z0-9]+|(?<![\w^"])"[a-zA-Z0-9]*"(?!["@^])')
#: A subject, and an object, that is a variable.
_ENDS = re.compile(r"\?[a-e](?= :[pqrn] )|(?<=:[pqrn] )\?[a-e](?= [.;}])")
_NAMES = (*(name for name in NODES if name[0] == ":"), *PREDICATES, ":g1", ":never", "<http://ex/a>", "<b>", "un:known")
_STRINGS = (*(text for text in LITERALS if text[-1] == '"' and "^" not in text), "'ab'", "'\"'", '"never"', '"\u00e4"')


@pytest.fixture(name="used")
def counted_uses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets the number of parameters each time a plan with parameters serves a text."""
    uses: list[int] = []
    network_for = PlanTemplate.network_for

    def counted(self: PlanTemplate, *arguments: object) -> object:
        found = network_for(self, *arguments)  # type: ignore[arg-type]  # as it was called
        if found is not None:
            uses.append(len(self.places))
        return found

    monkeypatch.setattr(PlanTemplate, "network_for", counted)
    return uses


def others(chance: random.Random, text: str) -> Iterator[str]:
    """The text with other constants, some of which are none, and with none changed."""
    start = text.index("{")
    ends = _ENDS.sub(lambda match: chance.choice((match[0], match[0], ":a", ":b", '"ab"')), text[start:])
    text = text[:start] + re.sub(r'"ab"(?= :[pqrn] )', ":c", ends)
    for number in range(10):
        share = 0.0 if number < 2 else chance.choice((0.15, 0.4))

        def exchanged(match: re.Match[str], share: float = share) -> str:
            if chance.random() >= share:
                return match[0]
            return chance.choice(_STRINGS if match[0][0] == '"' else _NAMES)

        yield f"{text[:start]}{_NAME.sub(exchanged, text[start:])} # {number}"


def play(seed: int, place: Path) -> int:
    """How many answers were compared."""
    chance, compared = random.Random(seed), 0
    try:
        data, queries = made(seed)
    except TooMuch:
        return 0
    with closing(hbase_store.open(f"lmdb:{place}", folding=False)) as store:
        load(store, data)
        questions = Questions()
        for asked in queries:
            for text in others(chance, str(asked.whole)):
                fresh = answered(store, text, store.head(), None)
                assert answered(store, text, store.head(), questions) == fresh, f"seed {seed}: {text}"
                compared += isinstance(fresh, Counter) and bool(fresh)
    return compared


@pytest.mark.parametrize("block", range(2))
def test_generated_queries_with_other_constants(block: int, tmp_path: Path, used: list[int]) -> None:
    seeds = range(block * 20, block * 20 + 20)
    assert sum(play(seed, tmp_path / str(seed)) for seed in seeds) > 100
    assert len(used) > 100, "these seeds use too few plans to prove anything"


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_thousands_of_generated_queries_with_other_constants(block: int, tmp_path: Path) -> None:
    for seed in range(20_000 + block * 50, 20_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed))


DATA = [
    *((f":s{n}", ":in", ":few" if n < 5 else ":many", "") for n in range(500)),
    *((f":s{n}", ":name", f'"name {n}"', "") for n in range(500)),
    *((f":s{n}", ":knows", f":s{n * 7 % 500}", "") for n in range(500)),
]


@pytest.fixture(name="store")
def store_of_500(tmp_path: Path) -> Iterator[Store]:
    with closing(hbase_store.open(f"lmdb:{tmp_path}/s", folding=False)) as store:
        load(store, DATA)
        yield store


Ask = Callable[[str], object]


@pytest.fixture(name="ask")
def asked_of(store: Store) -> Ask:
    """Answers as a plan of its own does; returns the answer."""
    questions = Questions()

    def ask(text: str) -> object:
        text = f"{PROLOGUE} {text}"
        fresh = answered(store, text, store.head(), None)
        assert answered(store, text, store.head(), questions) == fresh
        return fresh

    return ask


def test_the_third_text_uses_the_plan_of_the_second(ask: Ask, used: list[int]) -> None:
    for n in range(6):
        assert ask(f"SELECT ?n {{ :s{n} :name ?n }}") == Counter({(b'"name %d"' % n,): 1})
    assert used == [1] * 4


def test_strings_are_parameters_too(ask: Ask, used: list[int]) -> None:
    for n in range(6):
        assert ask(f"SELECT ?s {{ ?s :name 'name {n}' }}") == Counter({(b"<http://ex/s%d>" % n,): 1})
    assert used == [1] * 4


def test_a_term_that_is_in_the_store_only_later_is_found_then(tmp_path: Path, used: list[int]) -> None:
    questions = Questions()
    with closing(hbase_store.open(f"lmdb:{tmp_path}/later", folding=False)) as store:
        load(store, [(f":s{n}", ":name", '"x"', "") for n in range(5)])
        texts = [f"{PROLOGUE} SELECT ?n {{ :s{n} :name ?n }}" for n in range(7)]
        found = [answered(store, text, store.head(), questions) for text in texts]
        assert [bool(each) for each in found] == [True] * 5 + [False] * 2
        load(store, [(":s6", ":name", '"late"', "")])
        assert answered(store, texts[6], store.head(), questions) == Counter({(b'"late"',): 1})
    assert used


def test_of_texts_whose_plans_are_too_old_one_is_planned_and_the_others_use_its_plan(
    store: Store, used: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("question", "plan_templates"):
        monkeypatch.setattr(f"stream_ext.oneshot.{module}.SNAPSHOTS_MAX", 2)
    questions, texts = Questions(), [f"{PROLOGUE} SELECT ?n {{ :s{n} :name ?n }}" for n in range(6)]
    for text in texts:
        answered(store, text, store.head(), questions)
    for n in range(3):
        load(store, [(f":later{n}", ":name", '"later"', "")])
    used.clear()
    for text in texts:
        assert answered(store, text, store.head(), questions) == answered(store, text, store.head(), None)
    assert used == [1] * 4, "the first text of an outline learns nothing, the second one plans"


def test_a_constant_with_other_counts_gets_a_plan_of_its_own(ask: Ask, used: list[int]) -> None:
    """:few has 5 members, :many 495: what is joined first for the one is joined last for the other."""
    text = "SELECT ?s ?n {{ ?s :in :{} ; :knows :s{} ; :name ?n }}"
    for n in range(4):
        ask(text.format("few", n))
    assert len(used) == 2
    ask(text.format("many", 9))
    assert len(used) == 2
    ask(text.format("many", 10))
    assert len(used) == 3


def test_texts_that_no_plan_serves_are_planned_again_a_few_times_only(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has another word in its condition, which is no parameter; its subject would be one."""
    tried: list[str] = []

    def counted(outline: Outline, text: str, *more: Any) -> PlanTemplate | None:
        tried.append(text)
        return plan_template(outline, text, *more)

    monkeypatch.setattr("stream_ext.oneshot.plan_templates.plan_template", counted)
    for n in range(20):
        ask(f"SELECT ?n {{ :s{n} :name ?n FILTER(CONTAINS(?n, 'name {n}')) }}")
    assert len(tried) == 8


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?o {{ :s1 :{} ?o }}",
        "SELECT ?s {{ ?s :name ?n FILTER(?n = 'name {}') }}",
        "SELECT ?s {{ ?s :knows+ :{} }}",
        "SELECT ?s {{ VALUES ?s {{ :{} }} ?s :name ?n }}",
        "SELECT ?s {{ GRAPH :{} {{ ?s ?p ?o }} }}",
        "SELECT ?x {{ ?s :name ?n BIND(IRI(CONCAT(STR(?n), 'x{}')) AS ?x) }}",
        "SELECT ?s {{ ?s :name ?n FILTER(xsd:boolean(REGEX(?n, '{}'))) }}",
    ],
)
def test_what_is_no_subject_or_object_is_no_parameter(ask: Ask, used: list[int], text: str) -> None:
    for n in range(5):
        ask(text.format(f"s{n}"))
    assert not used


def test_a_prefix_that_is_not_declared_is_an_error_with_its_place() -> None:
    questions = Questions()
    for n in range(3):
        questions.read(f"{PROLOGUE} SELECT ?n {{ :s{n} :name ?n }}", EX)
    with pytest.raises(QuerySyntaxError, match="prefix 'un:' is not declared"):
        questions.read(f"{PROLOGUE} SELECT ?n {{ un:s :name ?n }}", EX)


def test_the_unit_of_a_text_has_its_own_constants(store: Store) -> None:
    questions = Questions()
    for n in range(4):
        text = f"{PROLOGUE} SELECT ?n {{ :s{n} :name ?n }}"
        question = questions.read(text, EX)
        answer_once(store, question, store.head(), None)
        outline = question.outline
        assert isinstance(outline, Query) and outline.variables == ("n",)
        assert question.unit == Question.read(text, EX).unit
    assert "ex/s3" not in repr(outline)


@pytest.mark.parametrize(
    "text",
    [
        "# {\nSELECT * { ?s ?p ?o }",
        "PREFIX : <http://ex/> # a { b\nSELECT * { :s ?p ?o }",
        'SELECT ("{" AS ?x) { :s ?p ?o }',
        "SELECT * { <http://ex/\\u0061> ?p ?o }",
        "SELECT * WHERE ",
    ],
)
def test_texts_whose_braces_may_be_no_braces_have_no_outline(text: str) -> None:
    assert outline_of(text, EX) is None


def test_an_outline_is_without_blanks_comments_and_constants() -> None:
    one = outline_of("PREFIX : <http://ex/a#>\nSELECT * { :s :p ?o } # x", EX)
    other = outline_of("PREFIX : <http://ex/a#>\nSELECT * {\n:other   :p ?o# y\n}", EX)
    assert one is not None and other is not None and one.key == other.key
    assert (one.constants, other.constants) == ((":s", ":p"), (":other", ":p"))
    assert outline_of("PREFIX : <http://ex/b#>\nSELECT * { :s :p ?o }", EX) != one
