"""Registered CONSTRUCT queries, and emissions that are made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.errors import BadArgument, NotFound, Unsupported
from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, opened, push, registration, triple

BUILD = "CONSTRUCT { ?y :of ?x . ?x :has [ :is ?y ] }"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def graphs(service: Service) -> list[list[str]]:
    return [sorted(emission["graph"].splitlines()) for emission in emissions_of(service)]


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_constructed_is_a_set_of_triples_and_its_blank_nodes_stay(restart: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 2s STEP 1s", select=BUILD))
        push(service, "s", 100, triple("a", "b"))
        if not restart:
            push(service, "s", 1000, triple("c", "b"))
    with opened(tmp_path) as service:
        if restart:
            push(service, "s", 1000, triple("c", "b"))
        push(service, "s", 2000, triple("z", "y", "other"))
        first, second = graphs(service)
        of = f"<{EX}b> <{EX}of> <{EX}a> ."
        blanks = {line.split()[0] for line in first if line.startswith("_:")}
        assert (len(first), len(blanks), of in first) == (3, 1, True)
        assert set(first) < set(second), "the same solution makes the same triples again"
        assert len(second) == 6
        latest = service.latest("q")
        assert latest.graph is not None and latest.count == 6


def test_istream_and_dstream_of_a_construct_are_of_its_triples(service: Service) -> None:
    for r2s in ("ISTREAM", "DSTREAM"):
        service.register(registration(r2s, window="RANGE 1s STEP 1s", select="CONSTRUCT { ?y :is :there }", r2s=r2s))
    for time, names in ((100, "ab"), (1100, "bc"), (2100, "")):
        push(service, "s", time, *(triple(f"x{time}", name) for name in names), triple("x", "y", "other"))
    service.heartbeat("s", 3000, wait="evaluated")

    def there(name: str) -> list[list[str]]:
        lines = [emission["graph"].splitlines() for emission in emissions_of(service, name)]
        return [sorted(line.split()[0].removeprefix(f"<{EX}").rstrip(">") for line in found) for found in lines]

    assert there("ISTREAM") == [["a", "b"], ["c"], []]
    assert there("DSTREAM") == [[], ["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (" LIMIT 1", [["a"], ["a"], ["b"]]),  # by first appearance, while they are answers
        (" OFFSET 1", [["b"], ["b", "c"], ["c"]]),
        (" ORDER BY DESC(?x) LIMIT 1", [["b"], ["c"], ["c"]]),
        (" ORDER BY ?x OFFSET 1 LIMIT 1", [["b"], ["b"], ["c"]]),
    ],
)
def test_the_solutions_of_a_construct_are_cut_at_each_evaluation(
    order: str, expected: list[list[str]], tmp_path: Path
) -> None:
    select = "CONSTRUCT { ?x :at ?y . ?x :has [ :is ?y ] }"
    with opened(tmp_path) as service:
        service.register(registration(window="RANGE 2s STEP 1s", select=select) + order)
        service.register(registration("came", window="RANGE 2s STEP 1s", select=select, r2s="ISTREAM") + order)
        push(service, "s", 100, triple("a", 1))
        push(service, "s", 200, triple("b", 1))
        push(service, "s", 1000, triple("b", 1), triple("other", 1, "q"))
    with opened(tmp_path) as service:
        push(service, "s", 1100, triple("c", 1))
        push(service, "s", 3000, triple("other", 1, "q"))

        def subjects(name: str) -> list[list[str]]:
            lines = [[x for x in e["graph"].splitlines() if "/at>" in x] for e in emissions_of(service, name)]
            return [sorted(line.split("> ")[0].removeprefix(f"<{EX}") for line in found) for found in lines]

        assert subjects("q") == expected
        before = [[], *expected]
        assert subjects("came") == [sorted({*now} - {*was}) for was, now in zip(before, expected, strict=False)]
        assert [len(e["graph"].splitlines()) for e in emissions_of(service)] == [3 * len(names) for names in expected]
        latest = service.latest("q")
        assert latest.graph is not None and latest.count == 3 * len(expected[-1])


def test_what_no_registered_query_can_be_is_refused_by_name(service: Service) -> None:
    with pytest.raises(Unsupported, match="a registered DESCRIBE"):
        service.register("REGISTER QUERY q AS DESCRIBE ?x WHERE { ?x ?p ?y }")


def test_a_bare_query_is_refused_for_what_its_registration_is_refused_for(service: Service) -> None:
    for text, name in (
        (registration(select="DESCRIBE ?x"), "a registered DESCRIBE"),
        (registration().removesuffix("}") + "FILTER(<http://ex/f>(?x)) }", "the function <http://ex/f>"),
    ):
        for written in (text, text.replace("REGISTER RSTREAM q AS ", "")):
            with pytest.raises(Unsupported, match=name):
                service.register(written)
    assert service.queries() == []


# ---- made again


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM", "DSTREAM"])
@pytest.mark.parametrize(
    "select",
    [
        "SELECT ?x ?y",
        "SELECT ?y (COUNT(?x) AS ?n)",
        "SELECT DISTINCT ?y ?z",
        "ASK",
        "CONSTRUCT { ?x :at [ :is ?y ] }",
        "SELECT ?x (RAND() AS ?r)",
        "SELECT ?y (STRUUID() AS ?u)",
        "SELECT ?z (UUID() AS ?u) (BNODE() AS ?n)",
    ],
)
def test_every_emission_can_be_made_again_at_its_snapshot(service: Service, r2s: str, select: str) -> None:
    text = registration(window="RANGE 2s STEP 1s", select=select, r2s=r2s).replace("?x :p ?y }", "?x :p ?y } ?y :k ?z")
    service.register(text + (" GROUP BY ?y" if "COUNT" in select else ""))
    for turn, time in enumerate(range(100, 6000, 700)):
        service.update(f"INSERT DATA {{ {triple(f'n{turn % 3}', turn, 'k')} }}", wait="evaluated")
        push(service, "s", time, triple(f"x{turn}", f"n{turn % 3}"), triple("x", f"n{turn % 2}"))
    emissions = emissions_of(service)
    assert len(emissions) >= (1 if select == "ASK" else 4) or r2s == "DSTREAM"
    for emission in emissions:
        again = json.loads(service.emission_again("q", emission["emission"]))
        assert again.keys() == emission.keys()
        for key, value in emission.items():
            if key == "results":
                assert sorted(map(str, again[key]["bindings"])) == sorted(map(str, value["bindings"]))
            elif key == "graph":
                assert sorted(again[key].splitlines()) == sorted(value.splitlines())
            else:
                assert again[key] == value, key


def test_what_cannot_be_made_again_says_why(service: Service) -> None:
    service.register(registration(window="RANGE 1s STEP 1s") + " LIMIT 1")
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 1000, triple("b", 1))
    with pytest.raises(BadArgument, match="LIMIT without ORDER BY"):
        service.emission_again("q", 1)
    for number in (0, 2):
        with pytest.raises(NotFound, match="has no emission"):
            service.emission_again("q", number)


def test_a_query_without_windows_is_made_again_too(service: Service) -> None:
    service.register(f"PREFIX : <{EX}> REGISTER ISTREAM q AS SELECT ?x WHERE {{ ?x :p ?y }}")
    for name in "abc":
        service.update(f"INSERT DATA {{ {triple(name, 1)} }}", wait="evaluated")
    for emission in emissions_of(service):
        assert json.loads(service.emission_again("q", emission["emission"])) == emission
    assert len(emissions_of(service)) == 3
