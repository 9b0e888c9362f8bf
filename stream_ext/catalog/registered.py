"""Registered texts: the text of a registered query, parsed and planned once for all uses that follow soon."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.timing import timing_of
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.syntax import parse_again
from stream_ext.plan import named_terms
from stream_ext.plan.logic import Select
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.stream_variables import over_streams
from stream_ext.plan.templates import Parametrised, parametrised
from stream_ext.windows.schedule import ScheduledWindow


@dataclass(frozen=True, slots=True)
class RegisteredText:
    """A text as a query, its logic, its template and constants. `parametrised` None: it shares no network."""

    query: Query
    select: Select
    parametrised: Parametrised | None

    @classmethod
    def of(cls, query: Query, check: Check = Control.FREE.check) -> RegisteredText:
        select = logic_of(query, check=check)
        return cls(query, select, parametrised(query, select, ()))

    @property
    def constants(self) -> list[bytes]:
        """The terms of its patterns and its parameters; registration makes them permanent, so that each has an id."""
        shared = () if self.parametrised is None else self.parametrised.constants
        return list(dict.fromkeys([*named_terms.constants_of(self.select), *shared]))


def reading_of(text: str, base: str, check: Check = Control.FREE.check) -> RegisteredText:
    """The text of a query, parsed. Registration, lateness, retention and the runner need it soon after one another, so
    the last ones are cached. `check` is called again and again while a long text is parsed."""
    return _remembered(text, base) if len(text) <= _REMEMBERED_CHARACTERS else _read(text, base, check)


def _read(text: str, base: str, check: Check = Control.FREE.check) -> RegisteredText:
    unit = parse_again(text, base, check)
    query = unit.query if isinstance(unit, Register) else unit
    if not isinstance(query, Query):
        raise TypeError(f"this is an update, not a query: {text!r}")  # registration has refused it already
    return RegisteredText.of(query, check)


_remembered = lru_cache(maxsize=512)(_read)
_REMEMBERED_CHARACTERS = 10_000


def query_of(text: str, base: str) -> Query:
    """The query of a registration's text, with or without REGISTER."""
    return reading_of(text, base).query


def query_over(definition: QueryDefinition, catalog: Catalog) -> Query:
    """The query of a definition; a window on a variable is replaced by one on each stream."""
    streams = (catalog.streams[number].iri for number in catalog.streams_of(definition))
    return over_streams(query_of(definition.text, definition.base), streams)


def constants_of(query: Query) -> list[bytes]:
    return RegisteredText.of(query).constants


def windows_of(
    query: Query, catalog: Catalog, t0: int | None = None, arrived: bool = False
) -> tuple[ScheduledWindow, ...]:
    """The query's windows over the streams of the catalog; `arrived`: as for evaluations at arrivals."""
    windows = timing_of(query, catalog, t0).windows
    return tuple(window.for_arrivals() for window in windows) if arrived else windows
