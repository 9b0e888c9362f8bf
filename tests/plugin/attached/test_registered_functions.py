"""Registered queries that call functions in Python: rdflib evaluates them as a whole, at each evaluation.

The oracle is our own engine: a function that does what a builtin does gives the emissions of the builtin."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rdflib import BNode, Dataset, Graph, Literal, Namespace
from rdflib.plugins.sparql.evalutils import _eval
from rdflib_endpoint import DatasetExt

from plugin import attach
from plugin.attached.attached import Attached
from stream_ext.errors import BadArgument, DeadlineExceeded, Unsupported
from tests.endpoint.drop_in.running import running
from tests.parts.waiting import until

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning"),
]

EX = Namespace("http://ex/")
HEAD = "PREFIX ex: <http://ex/> "
UPPER = "<urn:f:upper>"
TAXI = "FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 3s STEP 1s] "
IN = "WINDOW ex:w { ?taxi ex:in ?zone }"
NEAR = f"{TAXI} WHERE {{ {IN} ?zone ex:name ?n BIND({UPPER}(?n) AS ?y) }}"


def upper(rows: list[Any], context: Any, part: Any, solution: Any) -> Any:
    """What BIND(UCASE(?x) AS ?y) does."""
    (argument,) = part.expr.expr
    return [*rows, solution.merge({part.var: Literal(str(_eval(argument, solution)).upper())})], context, part, solution


def both(rows: list[Any], context: Any, part: Any, solution: Any) -> Any:
    """Two rows for each."""
    return [*rows, *(solution.merge({part.var: Literal(each)}) for each in (1, 2))], context, part, solution


FUNCTIONS = {"urn:f:upper": upper, "urn:f:both": both, "urn:f:called": both}
CALLED = "<urn:f:called>"  # also a predicate

#: A query with `urn:f:upper` where the other has UCASE, each over windows, stored data, and one thing more.
FORMS = {
    "a join": f"SELECT ?zone ?y {NEAR}",
    "istream": f"SELECT ISTREAM ?zone ?y {NEAR}",
    "dstream": f"SELECT DSTREAM ?zone ?y {NEAR}",
    "projected": f"SELECT ?zone ({UPPER}(?n) AS ?y) {TAXI} WHERE {{ {IN} ?zone ex:name ?n }}",
    "optional": f"SELECT ?zone ?y {NEAR[:-2]} OPTIONAL {{ ?zone ex:partOf ?city }} }}",
    "named graphs": f"SELECT ?g ?y {TAXI} WHERE {{ {IN} GRAPH ?g {{ ?zone ex:name ?n }} BIND({UPPER}(?n) AS ?y) }}",
    "one graph": f"SELECT ?y {TAXI} WHERE {{ {IN} GRAPH ex:g {{ ?zone ex:name ?n }} BIND({UPPER}(?n) AS ?y) }}",
    "counts": f"SELECT ?y (COUNT(*) AS ?k) {NEAR} GROUP BY ?y",
    "in order": f"SELECT ?y ?zone ?taxi {NEAR} ORDER BY DESC(?y) ?zone ?taxi LIMIT 4",
    "ask": f"ASK {NEAR}",
    "a graph": f"CONSTRUCT {{ ?zone ex:called ?y }} {NEAR}",
    "a template that names one": f"CONSTRUCT {{ ?zone {CALLED} ?y }} {NEAR}",
    "a template that alone names one": f"CONSTRUCT {{ ?zone {CALLED} ?n }} {TAXI} WHERE {{ {IN} ?zone ex:name ?n }}",
    "two windows": f"SELECT ?y {TAXI} FROM NAMED WINDOW ex:v ON STREAM taxis [RANGE 1s STEP 1s] WHERE {{ WINDOW ex:w "
    "{ ?taxi ex:in ?zone } WINDOW ex:v { ?other ex:in ?zone } ?zone ex:name ?n " + f"BIND({UPPER}(?n) AS ?y) }}",
    "at arrivals": f"SELECT ?zone ?y {NEAR}".replace("RANGE 3s STEP 1s", "TRIPLES 3"),
    "without the window": f"SELECT ?zone ?y {TAXI} WHERE {{ ?zone ex:name ?n BIND({UPPER}(?n) AS ?y) }}",
    "what streams absorb": f"SELECT ?y {TAXI} WHERE {{ {IN} ?taxi ex:name ?n BIND({UPPER}(?n) AS ?y) }}",
    "from clauses": f"SELECT ?y FROM DEFAULT FROM ex:g {NEAR}",
}


@contextmanager
def attached_to(dataset: Graph, **settings: Any) -> Iterator[Attached]:
    with attach(dataset, functions=FUNCTIONS, **settings) as attached:
        yield attached


def evaluate(attached: Attached, time: int) -> None:
    """The closes up to this time, however long a busy machine takes for them."""

    def is_evaluated() -> bool:
        try:
            attached.heartbeat("taxis", time, wait="evaluated")
        except DeadlineExceeded:
            return False
        return True

    until(is_evaluated, f"the evaluation at {time}")


def emitted(attached: Attached, query: str, in_order: bool = False) -> list[Any]:
    """What it emitted, without its name and the times of the source."""
    return [
        (each["emission"], each["time"], each["windows"], _answer(each, in_order))
        for each in attached.subscribe(query, follow=False)
    ]


def _answer(emission: dict[str, Any], in_order: bool) -> Any:
    if "boolean" in emission:
        return emission["boolean"]
    rows = emission["results"]["bindings"] if "results" in emission else emission["graph"].splitlines()
    return rows if in_order else sorted(json.dumps(row, sort_keys=True) for row in rows)


def _write(dataset: Any, chance: random.Random) -> None:
    zone, name = EX[f"z{chance.randrange(4)}"], Literal(chance.choice(["Bern", "thun", "Chur"]))
    graph = chance.choice([dataset.default_graph, dataset.graph(EX.g), dataset.graph(EX.h)])
    change = graph.add if chance.random() < 0.7 else graph.remove
    change((zone, EX.name, name))
    if chance.random() < 0.3:
        change((zone, EX.partOf, chance.choice([EX.city, BNode("city")])))


def test_a_function_that_does_what_a_builtin_does_emits_the_same() -> None:
    chance, dataset = random.Random(7), Dataset()
    for zone in range(3):
        dataset.default_graph.add((EX[f"z{zone}"], EX.name, Literal(f"zone {zone}")))
        dataset.graph(EX.g).add((EX[f"z{zone}"], EX.name, Literal(f"zone {zone} of g")))
    with attached_to(dataset) as attached:
        attached.stream("names", timeless=True)
        names = {form: f"q{number}" for number, form in enumerate(FORMS)}
        for form, text in FORMS.items():
            attached.register(f"{HEAD} REGISTER QUERY {names[form]} AS {text}")
            attached.register(f"{HEAD} REGISTER QUERY {names[form]}b AS {text.replace(UPPER, 'UCASE')}")
        for second in range(1, 9):
            for _ in range(chance.randrange(4)):
                _write(attached.dataset, chance)
            if chance.random() < 0.3:
                attached.push("names", f'<http://ex/t{second % 3}> <http://ex/name> "t{second % 3}" .')
            zones = ", ".join(f"<http://ex/z{chance.randrange(4)}>" for _ in range(2))
            element = f"<http://ex/t{chance.randrange(3)}> <http://ex/in> {zones} ."
            attached.push("taxis", element, timestamp=1000 * second + chance.randrange(900))
            evaluate(attached, 1000 * second + 1000)
        for form, name in names.items():
            mine, expected = (emitted(attached, each, form == "in order") for each in (name, f"{name}b"))
            assert mine == expected, form
            assert any(answer for *_, answer in mine), f"{form}: nothing was compared"


def test_a_function_may_make_several_rows() -> None:
    text = f"SELECT ?taxi ?k {TAXI} WHERE {{ {IN} BIND(<urn:f:both>(?zone) AS ?k) }}"
    with attached_to(Dataset()) as attached:
        attached.register(f"{HEAD} REGISTER QUERY mine AS {text}")
        attached.register(
            f"{HEAD} REGISTER QUERY other AS {text.replace('BIND(<urn:f:both>(?zone) AS ?k)', 'VALUES ?k { 1 2 }')}"
        )
        push(attached, 1000)
        mine = emitted(attached, "mine")
        assert mine == emitted(attached, "other")
        assert len(mine[-1][-1]) == 4


ELEMENT = "<http://ex/t1> <http://ex/in> <http://ex/z1>, <http://ex/z2> ."


def push(attached: Attached, time: int) -> None:
    """An element, and the close after it."""
    attached.push("taxis", ELEMENT, timestamp=time)
    evaluate(attached, time + 1000)


def named(*zones: str) -> Dataset:
    dataset = Dataset()
    for zone in zones:
        dataset.default_graph.add((EX[zone], EX.name, Literal(zone)))
    return dataset


def test_a_function_that_raises_is_called_again_and_no_evaluation_is_lost() -> None:
    broken = threading.Event()

    def careful(rows: list[Any], context: Any, part: Any, solution: Any) -> Any:
        if broken.is_set():
            raise ValueError("no such zone")
        return upper(rows, context, part, solution)

    with attach(named("z1"), functions={"urn:f:upper": careful}) as attached:
        attached.register(f"{HEAD} REGISTER QUERY near AS SELECT ?y {NEAR}")
        push(attached, 1000)
        broken.set()
        push(attached, 2000)
        status = attached.service.query_status("near")
        assert status["state"] == "waiting" and "raised ValueError: no such zone" in status["error"]
        attached.dataset.default_graph.add((EX.z2, EX.name, Literal("z2")))
        broken.clear()
        times = itertools.count(3000, 1000)

        def is_running() -> bool:
            push(attached, next(times))
            return attached.service.query_status("near")["state"] == "running"

        until(is_running, "the query to catch up")
        found = [(number, time, len(answer)) for number, time, _, answer in emitted(attached, "near")]
        assert found[:3] == [(1, 2000, 1), (2, 3000, 2), (3, 4000, 2)]
        assert [time for _, time, _ in found] == [1000 * (number + 1) for number, *_ in found]


def test_a_restart_goes_on_with_the_numbers_and_waits_for_the_functions(tmp_path: Path) -> None:
    dataset, store = named("z1"), f"lmdb:{tmp_path / 'own'}"
    with attached_to(dataset, store=store) as attached:
        attached.register(f"{HEAD} REGISTER QUERY near AS SELECT ISTREAM ?y {NEAR}")
        push(attached, 1000)
    with attach(dataset, store=store) as attached:
        evaluate(attached, 3000)
        status = attached.service.query_status("near")
        assert status["state"] == "waiting" and "there is no <urn:f:upper> in this process" in status["error"]
    dataset.default_graph.add((EX.z2, EX.name, Literal("z2")))
    with attached_to(dataset, store=store) as attached:
        evaluate(attached, 4000)
        numbers_and_times = [(number, time) for number, time, *_ in emitted(attached, "near")]
        assert numbers_and_times == [(1, 2000), (2, 3000), (3, 4000)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"SELECT ?y WHERE {{ ?zone ex:name ?n BIND({UPPER}(?n) AS ?y) }}", "needs a window"),
        (f"SELECT ?y {NEAR}".replace("WINDOW ex:w {", "WINDOW ?any {"), r"\?any cannot range over windows"),
        (f"SELECT ?y {NEAR}".replace("?taxi ex:in ?zone", "GRAPH ?g { ?taxi ex:in ?zone }"), "leave out GRAPH in"),
        (f"SELECT ?y {NEAR}".replace("STREAM taxis", "STREAM ?any"), "streams that are named"),
        (
            f"SELECT ?y WHERE {{ STREAM ex:t [RANGE 2s] {{ ?a ex:in ?b }} BIND({UPPER}(?b) AS ?y) }}",
            "FROM NAMED WINDOW",
        ),
        (f"SELECT ?y FROM STREAM ex:t [RANGE 2s] WHERE {{ ?a ex:in ?b BIND({UPPER}(?b) AS ?y) }}", "FROM NAMED WINDOW"),
    ],
)
def test_what_windows_as_graphs_cannot_say_is_refused_by_name(text: str, why: str) -> None:
    with attached_to(Dataset()) as attached, pytest.raises(BadArgument, match=rf"<urn:f:upper> is a function.*{why}"):
        attached.register(f"{HEAD} REGISTER QUERY near AS {text}")


def test_a_function_that_nobody_has_is_refused_as_before() -> None:
    with attached_to(Dataset()) as attached, pytest.raises(Unsupported, match="the function <urn:f:lower>"):
        attached.register(f"{HEAD} REGISTER QUERY near AS SELECT ?y {NEAR}".replace("upper", "lower"))


def test_functions_of_a_dataset_are_called_over_http_too() -> None:
    dataset = DatasetExt()
    dataset.add((EX.z1, EX.name, Literal("bern thun")))

    @dataset.extension_function()
    def words(text: str) -> list[str]:
        return text.split()

    text = f"{HEAD} REGISTER QUERY near AS SELECT ?y {NEAR}".replace("urn:f:upper", "urn:sparql-function:words")
    with attach(dataset) as attached, running(attached.app()) as client:
        explained = attached.service.explain(text)
        assert explained["whole"] == {"source": "main", "functions": ["urn:sparql-function:words"]}
        form = {"content-type": "application/sparql-query"}
        assert client.post("/queries", content=text, headers=form).status_code == 201
        push(attached, 1000)
        found = client.get("/queries/near/results").json()["results"]["bindings"]
        assert [row["y"]["value"] for row in found] == ["bern", "thun"]
        refused = client.get("/queries/near/results", params={"emission": "1"})
        assert refused.status_code == 400 and "main" in refused.text
        (emission,) = attached.subscribe("near", follow=False)
        as_of = emission["sources"]["main"]["as_of"]
        assert 0 < as_of["from"] <= as_of["to"]
        assert attached.service.held_patterns() == []


def test_the_last_answer_of_an_istream_is_evaluated_again() -> None:
    with attached_to(named("z1", "z2")) as attached:
        attached.register(f"{HEAD} REGISTER QUERY near AS SELECT ISTREAM ?y {NEAR}")
        push(attached, 1000)
        push(attached, 2000)
        assert [len(answer) for *_, answer in emitted(attached, "near")] == [2, 0]
        assert len(attached.service.decode(attached.service.latest("near"))) == 2


def test_custom_eval_takes_part_in_every_registered_query() -> None:
    def no_names(context: Any, part: Any) -> Any:
        if part.name == "BGP" and any(p == EX.name for _, p, _ in part.triples):
            return iter(())
        raise NotImplementedError

    with attach(named("z1"), custom_eval=no_names) as attached:
        attached.register(f"{HEAD} REGISTER QUERY near AS SELECT ?zone {NEAR.replace(UPPER, 'UCASE')}")
        push(attached, 1000)
        assert [answer for *_, answer in emitted(attached, "near")] == [[]]


def test_a_graph_that_a_function_makes_is_read_and_gone() -> None:
    dataset = DatasetExt()

    @dataset.graph_function()
    def guessed(zone: str) -> Graph:
        made = Graph()
        made.add((EX.z1, EX.name, Literal(f"{zone} guessed")))
        return made

    call = "BIND(<urn:sparql-function:guessed>(STR(?zone)) AS ?g) GRAPH ?g { ?s ex:name ?y }"
    text = f"SELECT ?y {TAXI} WHERE {{ {IN} {call} }}"
    with attach(dataset) as attached:
        attached.register(f"{HEAD} REGISTER QUERY near AS {text}")
        push(attached, 1000)
        ((*_, answer),) = emitted(attached, "near")
        values = {json.loads(row)["y"]["value"] for row in answer}
        assert values == {"http://ex/z1 guessed", "http://ex/z2 guessed"}
        assert len(dataset) == 0


def test_blank_nodes_of_the_dataset_are_the_same_at_each_evaluation() -> None:
    dataset = Dataset()
    dataset.default_graph.add((BNode("one"), EX.name, Literal("z1")))
    text = f"SELECT ISTREAM ?who ?y {TAXI} WHERE {{ {IN} ?who ex:name ?n BIND({UPPER}(?n) AS ?y) }}"
    with attached_to(dataset) as attached:
        attached.register(f"{HEAD} REGISTER QUERY near AS {text}")
        push(attached, 1000)
        push(attached, 2000)
        first, second = emitted(attached, "near")
        assert len(first[-1]) == 2 and second[-1] == []


def test_the_console_knows_the_functions() -> None:
    with attached_to(named("z1")) as attached, running(attached.app()) as client:
        text = f"{HEAD} REGISTER QUERY near AS SELECT ?y {NEAR}"
        checked = client.get("/console/query/check", params={"query": text}).json()
        assert checked["problems"] == [] and checked["kind"] == "registration"
        unknown = client.get("/console/query/check", params={"query": text.replace("upper", "lower")}).json()
        assert "<urn:f:lower>" in unknown["problems"][0]["message"]
        without = f"{HEAD} REGISTER QUERY near AS SELECT ?y WHERE {{ ?s ex:name ?n BIND({UPPER}(?n) AS ?y) }}"
        assert "needs a window" in str(client.get("/console/query/check", params={"query": without}).json())
        page = client.get("/console/explain", params={"query": text}).text
        assert "evaluated as a whole" in page and "not supported" not in page
