"""SPARQL 1.1's update evaluation tests: after the request the store holds what the W3C says.

A graph that is listed and holds no triple counts as one that is not there; a store may keep empty graphs or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.clock import ManualClock
from stream_ext.errors import Unsupported
from stream_ext.plan.refused_syntax.refuse import parse_runnable
from stream_ext.rdf import parse_rdf
from stream_ext.service.service import Service
from tests.conformance.cases import entries, is_there
from tests.conformance.played import load
from tests.conformance.sameness import Row, same
from tests.stream_ext.w3c import MANIFEST, RDF_TYPE, Node, Properties, file_of, folder, graph

_UPDATE = "http://www.w3.org/2009/sparql/tests/test-update#"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_KIND = MANIFEST + "UpdateEvaluationTest"
_MEDIA_TYPES = {".ttl": "text/turtle", ".nq": "application/n-quads"}
_COUNT = 94  # what the manifests of SPARQL 1.1 list

#: name: why it is not played. Nothing is.
IGNORED: dict[str, str] = {}

#: (file, name of the graph; None: the default graph)
Files = tuple[tuple[Path, str | None], ...]


@dataclass(frozen=True)
class Case:
    name: str
    request: Path
    before: Files
    after: Files


def cases() -> list[Case]:
    return [case for path in sorted((folder() / "sparql11").rglob("manifest.ttl")) for case in read(path)]


def read(path: Path) -> Iterator[Case]:
    subjects = graph(path)
    for node in entries(subjects):
        test = subjects[node]
        if _KIND in {kind.value for kind in test[RDF_TYPE]}:
            action, result = (subjects[test[MANIFEST + name][0]] for name in ("action", "result"))
            name = f"{path.parent.name}/{node.value.rpartition('#')[2]}"
            request = file_of(action[_UPDATE + "request"][0])
            yield Case(name, request, files(subjects, action), files(subjects, result))


def files(subjects: dict[Node, Properties], state: Properties) -> Files:
    named = [subjects[each] for each in state[_UPDATE + "graphData"]]
    return (
        *((file_of(each), None) for each in state[_UPDATE + "data"]),
        *((file_of(each[_UPDATE + "graph"][0]), each[_LABEL][0].value) for each in named),
    )


def expected(case: Case) -> list[Row]:
    rows: list[Row] = []
    for path, name in case.after:
        parsed = parse_rdf(path.read_bytes(), _MEDIA_TYPES[path.suffix], path.as_uri())
        assert (parsed.g < 0).all()
        of = None if name is None else f"<{name}>".encode()
        triples = zip(*(column.tolist() for column in (parsed.s, parsed.p, parsed.o)), strict=True)
        rows += [(*(parsed.terms[place] for place in triple), of) for triple in triples]
    return list(dict.fromkeys(rows))


def found(store: Store, sn: int) -> list[Row]:
    s, p, o, g = store.at(sn).quads()
    names = dict(zip(g[g != 0].tolist(), store.terms(g[g != 0]), strict=True))
    triples = zip(store.terms(s), store.terms(p), store.terms(o), strict=True)
    return [(*triple, names.get(id)) for triple, id in zip(triples, g.tolist(), strict=True)]


def is_refused(case: Case) -> bool:
    try:
        parse_runnable(case.request.read_bytes().decode(), case.request.as_uri())
    except Unsupported:
        return True
    return False


def judge(case: Case, url: str) -> str:
    """What is wrong; "" if nothing is. The store must be empty."""
    with closing(hbase_store.open(url, folding=False)) as store:
        for path, name in case.before:
            load(store, path, name)
    text = case.request.read_bytes().decode()
    with Service.open(url, base=case.request.as_uri(), clock=ManualClock(0), engine="inline") as service:
        done = service.update(text)
        held = found(service.store, done.snapshot)
    return "" if same(held, expected(case)) else f"{text}\nheld {held}\nexpected {expected(case)}"


CASES = cases() if is_there() else []
REFUSED = frozenset(case.name for case in CASES if is_refused(case))


def test_all_published_updates_are_found() -> None:
    folder()  # skips loudly where there are none
    assert len(CASES) == len({case.name for case in CASES}) == _COUNT


def test_no_published_update_is_refused() -> None:
    folder()
    if REFUSED:
        pytest.skip(f"{len(REFUSED)} of {len(CASES)} W3C updates are refused by name, and not played")


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in REFUSED], ids=lambda case: case.name)
def test_the_store_holds_what_the_published_result_says(case: Case, tmp_path: Path) -> None:
    if case.name in IGNORED:
        pytest.skip(f"{case.name}: {IGNORED[case.name]}")
    wrong = judge(case, f"lmdb:{tmp_path}/store")
    assert not wrong, wrong
