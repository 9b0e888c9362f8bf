"""Queries that differ in constants share a plan: each answers as it does with a plan of its own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.errors import QuerySyntaxError, RilletError
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax.outline import Outline, outline_of
from stream_ext.oneshot.answers import answer_once, rows_of
from stream_ext.oneshot.plan_templates import PlanTemplate, plan_template
from stream_ext.oneshot.question import Question, Questions
from tests.stream_ext.exchanged import NOT_FOR_PEERS, Text, Wider, texts_of, wide_quads
from tests.stream_ext.generated import EX, PROLOGUE, Asked, Quad
from tests.stream_ext.oneshot.test_plans import answered
from tests.stream_ext.peers import Ours, TooMuch, compare, load

_QUERIES, _TEXTS, _COMPARED_EVERY = 6, 10, 7


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


def play(seed: int, place: Path, queries: int = _QUERIES) -> int:
    """How many answers were compared. Between texts the store learns terms that they have asked for."""
    chance = random.Random(seed)
    data, compared = wide_quads(chance), 0
    with closing(Ours(place, data)) as ours:
        for number in range(queries):
            questions, asked = Questions(), Wider(chance, data).query()
            for text in texts_of(chance, asked, _TEXTS):
                wrong = differs(ours.store, text, questions)
                assert not wrong, f"seed {seed}: {text.spelled}\n{wrong}"
                compared += 1
                if chance.randrange(_COMPARED_EVERY) == 0:
                    wrong = differs_from_peers(ours, data, text.plain)
                    assert not wrong, f"seed {seed}: {text.plain}\n{wrong}"
            if number == queries // 2:
                more = [quad for quad in wide_quads(chance) if not any(term[:2] == "_:" for term in quad)]
                load(ours.store, more)
                data = sorted({*data, *more})
    return compared


@dataclass(frozen=True)
class Found:
    """Rows in their order, or the message of an error."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[bytes | None, ...], ...] = ()
    error: str = ""

    @property
    def bag(self) -> Counter[tuple[bytes | None, ...]]:
        return Counter(self.rows)

    def ordered_by(self, names: Iterable[str]) -> list[list[bytes | None]]:
        places = [self.names.index(name) for name in names]
        return [[row[place] for place in places] for row in self.rows]


def found_in(store: Store, text: str, questions: Questions | None) -> Found:
    try:
        question = Question.read(text, EX) if questions is None else questions.read(text, EX)
        answer = answer_once(store, question, store.head(), None)
    except RilletError as error:
        return Found(error=str(error))
    if answer.graph is not None:
        return Found((), tuple(zip(*(answer.vocabulary.decode(column) for column in answer.graph), strict=True)))
    return Found(answer.variables, (*rows_of(answer), *([(b"true",)] if answer.boolean else [])))


def differs(store: Store, text: Text, questions: Questions) -> str:
    """How the answer by a plan with parameters differs from that of a plan of its own; "" if it does not. Rows that are
    equal in what they are ordered by may come in any order, and be cut."""
    own, found = found_in(store, text.spelled, None), found_in(store, text.spelled, questions)
    if text.is_ordered and not own.error:
        whole, keys = found_in(store, text.whole_spelled, None), [name for name, _ in text.plain.keys]
        is_same = (
            not found.error and own.names == found.names and len(own.rows) == len(found.rows)
            and own.ordered_by(keys) == found.ordered_by(keys) and not found.bag - whole.bag
        )  # fmt: skip
    else:
        is_same = (own.error, own.names, own.bag) == (found.error, found.names, found.bag)
    return "" if is_same else f"by a plan of its own {own}\nby a template {found}"


def differs_from_peers(ours: Ours, data: list[Quad], asked: Asked) -> str:
    """A fault only if two other engines agree."""
    if any(term in str(asked) for term in NOT_FOR_PEERS):
        return ""
    try:
        return compare(ours, data, asked)
    except TooMuch:
        return ""


def test_generated_queries_with_other_constants(tmp_path: Path, used: list[int]) -> None:
    assert sum(play(seed, tmp_path / str(seed)) for seed in range(6)) == 360
    assert len(used) > 30, "these seeds use too few plans to prove anything"


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_thirty_thousand_generated_queries_with_other_constants(block: int, tmp_path: Path) -> None:
    seeds = range(20_000 + block * 5, 20_000 + block * 5 + 5)
    assert sum(play(seed, tmp_path / str(seed)) for seed in seeds) == 300


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
