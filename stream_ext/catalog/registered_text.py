"""What the text of a registered query means by itself; texts that differ in their constants are read as one.

    REGISTER ISTREAM w1 AS SELECT ?x ... { WINDOW :w { ?x :in :zone1 } }
    REGISTER ISTREAM w2 AS SELECT ?x ... { WINDOW :w { ?x :in :zone2 } }

The second text of an outline (`language/syntax/outline.py`) is read twice: as it is, and with markers in the places of
its parameters. If the template is the same then, a further text of this outline is the template and its constants: it
is not parsed, checked and planned. Its own query is made when somebody asks for it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache

from hbase_store.cache import RecentlyUsed
from stream_ext.computed_once import computed_once
from stream_ext.errors import RilletError
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.walk import has_services
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.outline import Outline, canonical, marked, outline_of, prefixes_of
from stream_ext.language.syntax.words import NO_NAMES
from stream_ext.plan.logic import Select
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties import named_terms
from stream_ext.plan.refused_syntax.refuse import calls_custom_functions, runnable
from stream_ext.plan.templates.parameters import Parametrised, QueryTemplate, parametrised

_REMEMBERED_CHARACTERS = 10_000
_OUTLINES_MAX = 512
#: An outline of which so many texts were no parameters of one template is not tried again.
_TRIED_MAX = 3
#: The name of a registration, before the first brace of its text. Neither strings nor comments are there.
_NAME = re.compile(r"(?<![\w:<])REGISTER\s+[A-Z]+\s+([A-Z_][\w.-]*)(?=\s)", re.ASCII | re.IGNORECASE)
_MARKER = "urn:rillet:registered:"
_MARKERS = re.compile(rb"urn:rillet:registered:(\d+)")


class RegisteredText:
    """A text as a query, its logic, its template and constants.

    `like`: the query; where the text is of a known outline, that of another text, which differs from it in parameters
    only. `parametrised` None: it shares no network. `constants`: the terms that it names; registration makes them
    permanent, so that each has an id, the same in all networks. `of_outline`: what is the same for all texts of its
    outline, if that is known."""

    def __init__(
        self,
        like: Query,
        parametrised: Parametrised | None,
        constants: list[bytes],
        select: Select | None,
        make: Callable[[], Query] | None = None,
        of_outline: TextTemplate | None = None,
    ) -> None:
        """`select` and `make`: one of them is None; `make` parses the text."""
        self.like, self.parametrised, self.constants = like, parametrised, constants
        self.of_outline = of_outline
        self._select, self._make = select, make

    @classmethod
    def of(cls, query: Query, check: Check = Control.FREE.check) -> RegisteredText:
        select = logic_of(query, check=check)
        shared = parametrised(query, select, ())
        constants = [*named_terms.constants_of(select), *named_terms.constants_of_expressions(select)]
        constants += () if shared is None else shared.constants
        return cls(query, shared, list(dict.fromkeys(constants)), select)

    @computed_once
    def query(self) -> Query:
        return self.like if self._make is None else self._make()

    @property
    def select(self) -> Select:
        if self._select is None:
            self._select = logic_of(self.query)
        return self._select


@dataclass(slots=True)
class TextTemplate:
    """What the texts of an outline have in common. Of its constants, those at `places` are parameters; the others are
    `fixed`. A number in `slots` and `constants` is a place.

    `remembered`: what the last registration found out about all of them."""

    query: Query
    template: QueryTemplate
    prefixes: dict[str, str]
    places: tuple[int, ...]
    fixed: tuple[str | None, ...]
    slots: tuple[bytes | int, ...]
    constants: tuple[bytes | int, ...]
    remembered: object = field(default=None, repr=False)

    def read(self, outline: Outline, text: str, base: str) -> RegisteredText | None:
        """None: the text differs in more than parameters, or only the parser knows what they are."""
        if any(each is not None and each != own for each, own in zip(self.fixed, outline.constants, strict=True)):
            return None
        found = {place: canonical(outline.constants[place], self.prefixes) for place in self.places}
        terms = {place: term for place, term in found.items() if term is not None}
        if len(terms) < len(found):
            return None
        shared = Parametrised(self.template, tuple(terms[s] if isinstance(s, int) else s for s in self.slots))
        constants = list(dict.fromkeys(terms[each] if isinstance(each, int) else each for each in self.constants))
        return RegisteredText(self.query, shared, constants, None, lambda: query_in(text, base), self)


@dataclass(frozen=True, slots=True)
class NamedText:
    """A known registration: its name, and its text."""

    name: str
    text: RegisteredText


class TextTemplates:
    """The outlines of the last texts. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: A number: so many texts of this outline were parsed.
        self._known: RecentlyUsed[tuple[str | int, ...], TextTemplate | int] = RecentlyUsed(_OUTLINES_MAX)

    def read(self, text: str, base: str) -> NamedText | None:
        """None: it must be parsed."""
        found = _named_outline(text, base)
        if found is None:
            return None
        name, outline = found
        with self._lock:
            known = self._known.get(outline.key) or 0
            if isinstance(known, int):
                self._known.put(outline.key, known + 1)
        if isinstance(known, TextTemplate):
            read = known.read(outline, text, base)
            return None if read is None else NamedText(name, read)
        if 1 <= known <= _TRIED_MAX and (made := _template_of(text, base, name, outline)) is not None:
            with self._lock:
                self._known.put(outline.key, made)
        return None


def _named_outline(text: str, base: str) -> tuple[str, Outline] | None:
    """The name of a registration, and the outline of its text without the name; None: it has none that is simple."""
    outline = outline_of(text, base)
    if outline is None:
        return None
    head = outline.key[1]
    assert isinstance(head, str), "an outline begins with its base and its head"
    names = list(_NAME.finditer(head))
    if len(names) != 1 or names[0][1].upper() in NO_NAMES:
        return None
    start, end = names[0].span(1)
    return names[0][1], Outline((base, head[:start], head[end:], *outline.key[2:]), outline.constants)


def _template_of(text: str, base: str, name: str, outline: Outline) -> TextTemplate | None:
    """None: not all that depends on its constants are parameters, or the query has no template."""
    try:
        unit = runnable(parse(text, base), text)
        if not isinstance(unit, Register) or unit.name != name or _MARKER in text:
            return None
        if has_services(unit.query) or calls_custom_functions(unit.query):
            return None  # what may be asked, and which functions there are, may be another thing later
        read, prefixes = RegisteredText.of(unit.query), prefixes_of(text, base)
        if read.parametrised is None:
            return None
        terms = [canonical(constant, prefixes) for constant in outline.constants]
        places = [place for place, term in enumerate(terms) if term in read.parametrised.constants]
        slots, constants = _slots_of(text, base, places, read.parametrised.template)
        lifted = [each for each in slots if isinstance(each, int)]
        if set(lifted) != set(places):  # another one of the same term is no parameter
            places = sorted(set(lifted))
            slots, constants = _slots_of(text, base, places, read.parametrised.template)
    except RilletError:
        return None  # somewhere a marker is no constant: the name of a window, a datatype
    if not slots or {each for each in slots if isinstance(each, int)} != set(places):
        return None
    fixed = tuple(None if place in places else each for place, each in enumerate(outline.constants))
    template = read.parametrised.template
    return TextTemplate(unit.query, template, prefixes, tuple(places), fixed, slots, constants)


def _slots_of(
    text: str, base: str, places: Collection[int], template: QueryTemplate
) -> tuple[tuple[bytes | int, ...], tuple[bytes | int, ...]]:
    """The parameters, and all terms of the patterns, of the text with markers at these places; empty if the template is
    another one then."""
    with_markers = RegisteredText.of(query_in(marked(text, places, _MARKER), base))
    shared = with_markers.parametrised
    if shared is None or shared.template != template or _MARKERS.search(repr(shared.template).encode()):
        return (), ()
    return tuple(map(_place_or_term, shared.constants)), tuple(map(_place_or_term, with_markers.constants))


def _place_or_term(term: bytes) -> bytes | int:
    match = _MARKERS.search(term)
    return term if match is None else int(match[1])


#: Outlines of this process.
TEMPLATES = TextTemplates()


def query_in(text: str, base: str) -> Query:
    """The query of a registration's text, with or without REGISTER."""
    unit = parse(text, base)
    query = unit.query if isinstance(unit, Register) else unit
    if not isinstance(query, Query):
        raise TypeError(f"this is an update, not a query: {text!r}")  # registration has refused it already
    return query


def reading_of(text: str, base: str) -> RegisteredText:
    """The text of a registered query. Requests for one query come soon after one another, so the last ones are
    remembered."""
    return _remembered(text, base) if len(text) <= _REMEMBERED_CHARACTERS else _read(text, base)


def _read(text: str, base: str) -> RegisteredText:
    known = TEMPLATES.read(text, base)
    return RegisteredText.of(query_in(text, base)) if known is None else known.text


_remembered = lru_cache(maxsize=512)(_read)


def query_of(text: str, base: str) -> Query:
    return reading_of(text, base).query


def constants_of(query: Query) -> list[bytes]:
    return RegisteredText.of(query).constants
