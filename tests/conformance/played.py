"""A test played: its data loaded into a store as `rillet load` does it, its query asked, the answer brought home.

The rows come back through the writer of the result file's own format, so that what is compared is what a client of
that format would read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from endpoint.formats.results import write
from hbase_store import Loading, Store
from stream_ext.language.algebra.algebra import Extend, Query, Shape, SubSelect
from stream_ext.language.algebra.walk import walk
from stream_ext.language.syntax import parse
from stream_ext.oneshot.answers import answer_once, decoded
from stream_ext.oneshot.evaluate import Asking
from stream_ext.oneshot.question import Questions
from stream_ext.rdf import careful_rows, parse_rdf
from stream_ext.remote.allowed_urls import AllowedUrls, places
from tests.conformance.cases import Case
from tests.conformance.expected import Expected, csv_result, read_expected, standard_result
from tests.conformance.remote import Remote, remote
from tests.conformance.sameness import Table, same
from tests.conformance.values import comparable

_MEDIA_TYPES = {".nt": "application/n-triples", ".ttl": "text/turtle", ".rdf": "application/rdf+xml"}
_WRITERS = {".srx": "xml", ".srj": "json", ".tsv": "tsv", ".csv": "csv"}


#: A text that differs in nothing but a comment is planned by the template of the first ones.
_AGAIN = ("", "\n# again", "\n# by the plan of others")


def judge(case: Case, store: Store) -> str:
    """What is wrong; "" if nothing is. The store must be empty. The query is asked three times: the third time as those
    are whose plan is that of others with other constants."""
    text = case.query.read_bytes().decode()
    if "SERVICE" in text:
        with remote(case.services) as elsewhere:
            answers = played(case, text, store, elsewhere)
    else:
        answers = played(case, text, store, None)
    expected = read_expected(case.result)
    return next((wrong for found in answers if (wrong := difference(case, text, expected, found))), "")


def played(case: Case, text: str, store: Store, elsewhere: Remote | None) -> list[Expected]:
    for path in case.data:
        load(store, path, None, elsewhere)
    for name, path in graphs_of(case, text):
        load(store, path, name)
    if elsewhere is None:
        questions = Questions()
        return [ask(store, text + more, case.query.as_uri(), case.result.suffix, questions) for more in _AGAIN]
    asking = Asking(allowed_urls=AllowedUrls(service=places(elsewhere.address)))
    found = ask(store, elsewhere.here(text), case.query.as_uri(), case.result.suffix, Questions(), asking)
    return [replace(found, rows=tuple(tuple(map(elsewhere.there, row)) for row in found.rows or ()))]


def graphs_of(case: Case, text: str) -> Iterable[tuple[str, Path]]:
    """The named graphs; a test that says FROM means the file of that name, which is here a graph of the store."""
    clauses = shape_of(case, text).graphs
    named = [clause.graph.text[1:-1].decode() for clause in clauses if clause.graph is not None]
    files = {name: Path(name.removeprefix("file://")) for name in named}
    return (files | dict(case.graphs)).items()


def shape_of(case: Case, text: str) -> Shape:
    return query_of(case, text).shape


def query_of(case: Case, text: str) -> Query:
    query = parse(text, case.query.as_uri())
    assert isinstance(query, Query)
    return query


def load(store: Store, path: Path, graph: str | None, elsewhere: Remote | None = None) -> None:
    data = path.read_bytes() if elsewhere is None else elsewhere.here(path.read_bytes().decode()).encode()
    parsed = parse_rdf(data, _MEDIA_TYPES[path.suffix], path.as_uri())
    loading = Loading(careful_rows, False)
    loading.add(parsed.terms, (parsed.s, parsed.p, parsed.o, parsed.g))
    store.load(loading, graph=None if graph is None else f"<{graph}>".encode())


def ask(
    store: Store, text: str, base: str, suffix: str, questions: Questions, asking: Asking | None = None
) -> Expected:
    answer = answer_once(store, questions.read(text, base), store.head(), None, asking=asking)
    if answer.boolean is not None:
        return Expected(boolean=answer.boolean)
    if answer.graph is not None:
        decode = answer.vocabulary.decode
        return Expected(triples=tuple(zip(*(decode(column) for column in answer.graph), strict=True)))
    rows = decoded(answer.columns, answer.vocabulary.decode, answer.count)
    written = b"".join(write(_WRITERS.get(suffix, "json"), answer.variables, rows, None))
    return csv_result(written.decode()) if suffix == ".csv" else standard_result(written, suffix_read(suffix))


def suffix_read(suffix: str) -> str:
    return suffix if suffix in _WRITERS else ".srj"


def difference(case: Case, text: str, expected: Expected, found: Expected) -> str:
    if expected.boolean is not None or expected.triples is not None:
        table, other = expected.triples or (), found.triples or ()
        right = expected.boolean == found.boolean and same(table, other)
    elif set(expected.variables) != set(found.variables):
        return f"{case.name}: variables {found.variables}, expected {expected.variables}\n{text}"
    else:
        table, other = expected.rows or (), by_names(found, expected.variables)
        # A graph says the order by its indexes, or not at all.
        ordered = expected.ordered or (case.result.suffix != ".ttl" and bool(shape_of(case, text).order_by))
        right = same_set(table, other) if case.lax else same(table, other, ordered=ordered)
        if not right and computes(case, text):
            right = same(valued(table), valued(other), ordered=ordered)
    return "" if right else observed(case, text, expected, found, table, other)


def computes(case: Case, text: str) -> bool:
    """Whether there are values in the answer that are in no data."""
    # A number in TSV is abbreviated, and its lexical form with it.
    return (
        case.result.suffix == ".tsv"
        or bool(shape_of(case, text).expressions)
        or any(isinstance(p, Extend | SubSelect) for p in walk(query_of(case, text).pattern))
    )


def valued(table: Table) -> Table:
    return [tuple(map(comparable, row)) for row in table]


def by_names(found: Expected, names: tuple[str, ...]) -> Table:
    places = [found.variables.index(name) for name in names]
    return [[row[place] for place in places] for row in found.rows or ()]


def same_set(table: Table, other: Table) -> bool:
    return same([*{tuple(row) for row in table}], [*{tuple(row) for row in other}])


def observed(case: Case, text: str, expected: Expected, found: Expected, table: Table, other: Table) -> str:
    if expected.boolean is not None:
        return f"{case.name}: {found.boolean}, expected {expected.boolean}\n{text}"
    missing = [row for row in map(tuple, table) if row not in set(map(tuple, other))]
    surplus = [row for row in map(tuple, other) if row not in set(map(tuple, table))]
    counts = f"{len(other)} rows, expected {len(table)}"
    return f"{case.name}: {counts}\n{text}\nvariables {expected.variables}\nmissing {missing}\nsurplus {surplus}"
