"""Administration in the language itself: CREATE STREAM, DROP STREAM and QUERY, UNREGISTER, SHOW.

The result of such a statement is a table like that of a SELECT, for clients that can read nothing else.

    CREATE STREAM <http://ex/s> WITH (lateness = "5s")     =>     stream, iri, created"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hbase_store.layout.terms import iri, literal, parse_term
from stream_ext.catalog.catalog import QueryDefinition, StreamDefinition
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.statements import CreateStream, Drop, Named, Show
from stream_ext.language.algebra.terms import Constant

Statement = CreateStream | Drop | Show

_XSD = "http://www.w3.org/2001/XMLSchema#"
_INTEGERS = frozenset(_XSD + name for name in ("integer", "int", "long", "nonNegativeInteger"))


class CatalogService(Protocol):
    """What a statement needs of the service."""

    def create_stream(self, name_or_iri: str, options: Mapping[str, object]) -> tuple[StreamDefinition, bool]: ...
    def drop_stream(self, name_or_iri: str) -> None: ...
    def drop_query(self, name: str) -> None: ...
    def streams(self) -> list[StreamDefinition]: ...
    def queries(self) -> list[QueryDefinition]: ...


@dataclass(frozen=True, slots=True)
class AdministrationAnswer:
    """Rows of terms under their variables."""

    variables: tuple[str, ...]
    rows: Sequence[tuple[bytes, ...]]


def changes_state(statement: Statement) -> bool:
    return not isinstance(statement, Show)


def administer(statement: Statement, service: CatalogService) -> AdministrationAnswer:
    match statement:
        case CreateStream():
            return _create(statement, service)
        case Drop():
            return _drop(statement, service)
        case Show():
            return _streams(service) if statement.kind == "STREAMS" else _queries(service)


def key_of(named: Named) -> str:
    return named.iri or named.name or ""


def _create(statement: CreateStream, service: CatalogService) -> AdministrationAnswer:
    definition, created = service.create_stream(key_of(statement.stream), options_of(statement))
    row = (literal(definition.name), iri(definition.iri), _boolean(created))
    return AdministrationAnswer(("stream", "iri", "created"), [row])


def _drop(statement: Drop, service: CatalogService) -> AdministrationAnswer:
    key = key_of(statement.target)
    if statement.kind == "STREAM":
        service.drop_stream(key)
        return AdministrationAnswer(("stream", "dropped"), [(literal(key), _boolean(True))])
    service.drop_query(key)
    return AdministrationAnswer(("query", "dropped"), [(literal(key), _boolean(True))])


def _streams(service: CatalogService) -> AdministrationAnswer:
    rows = [(literal(each.name), iri(each.iri)) for each in service.streams()]
    return AdministrationAnswer(("stream", "iri"), rows)


def _queries(service: CatalogService) -> AdministrationAnswer:
    rows = [(literal(each.name), iri(each.iri), literal(each.r2s), literal(each.text)) for each in service.queries()]
    return AdministrationAnswer(("query", "iri", "r2s", "text"), rows)


def _boolean(value: bool) -> bytes:
    return literal("true" if value else "false", datatype=_XSD + "boolean")


# ---- options as a text writes them -----------------------------------------------------------------------------


def options_of(statement: CreateStream) -> dict[str, object]:
    """As PUT /streams/{stream} takes them: names in any case, and IRIs in a list where a list is wanted."""
    options: dict[str, object] = {}
    for written, constant in statement.options:
        name = written.lower()
        if name in options:
            raise BadArgument(f"the option {name} is written twice")
        options[name] = _timeless(constant) if name == "timeless" else _value(constant)
    return options


def _value(constant: Constant) -> object:
    term = parse_term(constant.text)
    if term.datatype in _INTEGERS and term.value.lstrip("+-").isdecimal():
        return int(term.value)
    if term.datatype == _XSD + "boolean":
        return term.value in ("true", "1")
    return term.value


def _timeless(constant: Constant) -> object:
    """true, false, one predicate, or the IRIs of several in one string."""
    value = _value(constant)
    return value.split() if isinstance(value, str) else value
