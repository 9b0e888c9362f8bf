"""Registration: from a text to a query that runs.

What depends on the text alone is done in the caller's thread. What depends on the catalog (is the name free, which
streams exist, what are their positions) is done by the writer, in the snapshot of the registration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import msgspec

from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import (
    Catalog,
    CatalogStep,
    Names,
    QueryDefinition,
    StreamDefinition,
    generated_name,
    names_of,
)
from stream_ext.catalog.chains import check_ends
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.past import PastEvent, with_event
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.registered_text import TEMPLATES, RegisteredText
from stream_ext.catalog.sources import HeldPattern, SourceRecord
from stream_ext.catalog.timing import key_of
from stream_ext.errors import BadArgument, NameInUse, TooLarge
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Form, Query, Register, WindowClause
from stream_ext.language.algebra.statements import Explain, Show, Update
from stream_ext.language.algebra.terms import Position
from stream_ext.oneshot.advice import warnings_of
from stream_ext.oneshot.question import Question
from stream_ext.plan.passes.stream_variables import follows_streams, has_stream_variables
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.plan.refused_syntax.refuse import runnable
from stream_ext.plan.sources.whole import whole_select
from stream_ext.windows.schedule import initial_state
from stream_ext.writer.catalog_changes import drop_query
from stream_ext.writer.change import HeadView, Intent, Together
from stream_ext.writer.elements import check_terms
from stream_ext.writer.registration_warnings import empty_graphs, stream_meant, unseen_predicates


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    definition: QueryDefinition
    created: bool
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Registration:
    """A text that may be registered. As a change it creates the query, and the streams that it names and that do not
    exist yet."""

    text: str
    base: str
    names: Names | None  # None: it has no name, and gets one
    read: RegisteredText
    queries_max: int
    home: Literal["inline"] | None = None  # it stays in the server's process
    live: bool = False  # ends with its connection, and creates no stream
    remote_patterns: tuple[HeldPattern, ...] = ()  # what the source main is asked for
    check: Callable[[Registered], None] | None = None  # raises if it may not be asked for that
    functions: tuple[str, ...] = ()  # those of the source's process, which evaluates the query as a whole
    replaces: bool = False  # a query of this name with another text ends in the same snapshot

    @property
    def like(self) -> Query:
        """The query; where its outline is known, another one of that outline: no parameter of it may be asked for."""
        return self.read.like

    @property
    def query(self) -> Query:
        return self.read.query

    @property
    def together(self) -> Together | None:
        """What a replacement ends must have been published: no snapshot begins a query and ends it."""
        return None if self.replaces else Together.REGISTRATIONS

    def __call__(self, view: HeadView) -> Intent:
        names = self.names or self._generated(view.catalog)
        existing = view.catalog.find_query(names.name) or view.catalog.find_query(names.iri)
        ended: list[CatalogStep] = []
        past: list[PastEvent] = []
        if existing is not None and self.replaces and not self._is_same(existing):
            replaced = PastEvent(view.store.now_ms(), view.head + 1, "replaced", text=existing.text)
            past = with_event(existing.past, replaced)
            ended, view = self._without(existing, view)
        elif existing is not None:
            same = self._same(existing)  # refused here: an error of `result` would be one of the writer
            return Intent(result=lambda _: RegistrationOutcome(same, False, []))
        if len(view.catalog.queries) >= self.queries_max:
            raise TooLarge(f"{self.queries_max} queries are registered, the limit (--max-queries); drop one first")
        alike = None if ended else self._of_outline(view)
        if alike is not None:
            return self._intent_like(alike, names, view)
        if self.live:
            for window in self.like.windows:
                if window.stream.variable is None:
                    view.catalog.stream(key_of(window))
        return self._new(names, ended, past, view)

    def _new(self, names: Names, ended: list[CatalogStep], past: list[PastEvent], view: HeadView) -> Intent:
        """A query of an outline that is not known yet. `ended`: the steps that ended the query before, which `view` is
        without."""
        found = _resolve(self.like.windows, view, self.base, names.name)
        any_stream = follows_streams(self.like)
        if has_stream_variables(self.like) and not any_stream:
            found.read_all()
        number = view.new_number("query")
        output = self._output(names, number, found, view) if self._derives else None
        read = sorted(found.catalog.streams) if any_stream else found.streams
        iris = [found.catalog.streams[stream].iri for stream in read]
        registered = Registered.over(self.read, found.catalog, read, self.remote_patterns, self.functions)
        if self.check is not None:
            self.check(registered)
        definition = self._definition(number, names, registered, found.streams, output, past, view)
        step = CatalogStep("query", number, definition, registered)
        if output is not None:
            check_ends(found.catalog.after(step), definition)
        warnings = [
            *warnings_of(self.like),
            *found.warnings,
            *empty_graphs(self.like, view),
            *unseen_predicates(registered, view),
        ]
        is_of_text = registered.own is None and output is None  # else it has constants of this text
        if self.read.of_outline is not None and is_of_text and not (ended or found.steps or any_stream):
            self.read.of_outline.remembered = _Alike(
                definition, registered, warnings, view.catalog.streams, view.catalog.main, self._circumstances
            )
        return Intent(
            result=lambda _: RegistrationOutcome(definition, True, warnings),
            steps=[*ended, *found.steps, step],
            # Its network looks for the ids of its constants.
            terms=[*self.read.constants, *(map(iri, iris) if has_stream_variables(self.like) else ())],
        )

    def _definition(
        self,
        number: int,
        names: Names,
        registered: Registered,
        streams: list[int],
        output: int | None,
        past: list[PastEvent],
        view: HeadView,
    ) -> QueryDefinition:
        return QueryDefinition(
            number=number,
            name=names.name,
            iri=names.iri,
            text=self.text,
            base=self.base,
            r2s=self.like.emits.value,
            variables=list(columns_of(self.like)),
            constructs=self.like.form is Form.CONSTRUCT,
            live=self.live,
            streams=streams,
            registered_sn=view.head + 1,
            since=view.head + 1,
            state=initial_state(registered.timing, view.positions, view.head),
            output=output,
            any_stream=follows_streams(self.like),
            home=self.home,
            remote_patterns=list(self.remote_patterns),
            placement=registered.placement,
            functions=list(self.functions),
            past=past,
        )

    # ---- what is the same for all texts of an outline, until something else changes than queries

    def _of_outline(self, view: HeadView) -> _Alike | None:
        template = self.read.of_outline
        alike = None if template is None else cast("_Alike | None", template.remembered)
        if template is None or alike is None or self._circumstances != alike.circumstances:
            return None
        if alike.streams is not view.catalog.streams or alike.main is not view.catalog.main:
            return None
        if alike.definition.since != view.head + 1:
            template.remembered = alike = alike.at(view)
        return alike

    @property
    def _circumstances(self) -> tuple[object, ...]:
        """What a definition depends on beside the text and the catalog."""
        return self.live, self.home, self.remote_patterns, self.functions, self.check

    def _intent_like(self, alike: _Alike, names: Names, view: HeadView) -> Intent:
        number = view.new_number("query")
        registered = alike.registered.with_text(self.read)
        definition = msgspec.structs.replace(
            alike.definition, number=number, name=names.name, iri=names.iri, text=self.text
        )
        warnings = alike.warnings
        return Intent(
            result=lambda _: RegistrationOutcome(definition, True, [*warnings]),
            steps=[CatalogStep("query", number, definition, registered)],
            terms=self.read.constants,
        )

    def _generated(self, catalog: Catalog) -> Names:
        folder = self.base + "queries/"

        def is_used(name: str) -> bool:
            known = [catalog.find_query, *([catalog.find_stream] if self._derives else [])]
            return any(find(key) is not None for find in known for key in (name, folder + name))

        return names_of(generated_name(is_used), folder)

    @property
    def _derives(self) -> bool:
        """Whether the emissions become a stream: those of a CONSTRUCT, except a live one, which has no name for
        others."""
        return self.like.form is Form.CONSTRUCT and not self.live

    def _output(self, names: Names, number: int, found: _Found, view: HeadView) -> int:
        """The stream of the query's emissions: a new one of its name, or an unused one that has this name."""
        there = found.catalog.find_stream(names.name) or found.catalog.find_stream(names.iri)
        if there is None:
            of_stream = view.new_number("stream")
            there = StreamDefinition(of_stream, names.name, names.iri, StreamOptions())
        elif not _waits(there, view):
            raise NameInUse(
                f"the output of a CONSTRUCT is a stream with the query's name, but stream {there.name!r} "
                "already exists with elements of its own; drop it first, or use another name"
            )
        stream = msgspec.structs.replace(there, of_query=number, runs_by="elements", created_by=None)
        found.take(CatalogStep("stream", stream.number, stream))
        return stream.number

    def _without(self, existing: QueryDefinition, view: HeadView) -> tuple[list[CatalogStep], HeadView]:
        """The steps that end the existing query, and the state after them. A stream that came with it stays if the new
        query reads it."""
        read = {key_of(window) for window in self.query.windows if window.stream.variable is None}

        def stays(step: CatalogStep) -> bool:
            if step.kind != "stream" or step.number == existing.output:
                return False
            stream = view.catalog.streams[step.number]
            return not read.isdisjoint((stream.name, stream.iri))

        steps = [step for step in drop_query(existing.iri)(view).steps if not stays(step)]
        catalog = view.catalog
        for step in steps:
            catalog = catalog.after(step)
        return steps, replace(view, catalog=catalog)

    def _is_same(self, existing: QueryDefinition) -> bool:
        # A shell takes the last line's end away; and sent to a server at another address it is still the same query.
        return existing.text.strip() == self.text.strip()

    def _same(self, existing: QueryDefinition) -> QueryDefinition:
        if self._is_same(existing):
            return existing
        raise NameInUse(
            f"{existing.name!r} is already a registered query with another text; replace it (?replace=true, rillet "
            "register --replace), drop it first, or use another name",
            existing.name,
        )


@dataclass(frozen=True, slots=True)
class _Alike:
    """A registration of an outline: the next ones differ in their names, texts and constants."""

    definition: QueryDefinition
    registered: Registered
    warnings: list[str]
    streams: Mapping[int, StreamDefinition]
    main: SourceRecord | None
    circumstances: tuple[object, ...]

    def at(self, view: HeadView) -> _Alike:
        """The same at a later head: streams may have gone on, and triples may have come."""
        state = initial_state(self.registered.timing, view.positions, view.head)
        later = view.head + 1
        definition = msgspec.structs.replace(self.definition, registered_sn=later, since=later, state=state)
        like = self.registered.text.like
        warnings = [*warnings_of(like), *empty_graphs(like, view), *unseen_predicates(self.registered, view)]
        return replace(self, definition=definition, warnings=warnings)


def known_registration(text: str, base: str, name: str | None, queries_max: int) -> Registration | None:
    """As `read_registration`, for a text of a known outline; None: it must be parsed."""
    known = TEMPLATES.read(text, base)
    if known is None:
        return None
    names = _agreed(names_of(known.name, base + "queries/"), known.name, name, base)
    check_terms(known.text.constants)
    return Registration(text, base, names, known.text, queries_max)


def _agreed(names: Names | None, written: str | None, name: str | None, base: str) -> Names | None:
    """The names of the query, if the text and the path agree."""
    if name is None:
        return names
    wanted = names_of(name, base + "queries/")
    if names is not None and names != wanted:
        raise BadArgument(f"the text registers {written!r}, but the path names {name!r}")
    return wanted


def read_registration(
    question: Question,
    name: str | None,
    queries_max: int,
    check: Check = Control.FREE.check,
    functions_of: Callable[[Query], Sequence[str]] = lambda query: (),
) -> Registration:
    """`name` is the one that the caller wants (a PUT path); one in the text must agree with it. `functions_of`: the
    functions that a query calls in the source's process."""
    unit, text, base = question.unit, question.text, question.base
    folder = base + "queries/"
    if isinstance(unit, Query):
        unit = Register(None, None, unit, Position(1, 1))  # the bare query says the same, and is refused the same
    functions = tuple(functions_of(unit.query)) if isinstance(unit, Register) else ()
    runnable(unit, text, functions)
    if not isinstance(unit, Register):
        if unit == Update(()):
            raise BadArgument("the text is empty: send a query, or REGISTER ... AS and a query")
        if isinstance(unit, Explain | Show):
            raise BadArgument("EXPLAIN and SHOW register nothing: send the text to /sparql")
        raise BadArgument("an update cannot be registered: send it as an update")
    query, written = unit.query, unit.iri or unit.name
    names = _agreed(None if written is None else names_of(written, folder), written, name, base)
    if functions:
        whole_select(query, functions)  # refused here: the writer has others waiting
    read = RegisteredText.of(query, check)
    check_terms(read.constants)
    return Registration(text, base, names, read, queries_max, functions=functions)


def _waits(stream: StreamDefinition, view: HeadView) -> bool:
    """Whether the stream is unused: nothing was ever pushed to it, and it has no option `time`."""
    position = view.positions.get(stream.number)
    pushed = position is not None and position.batch > 0
    return not pushed and stream.runs_by is None and stream.of_query is None and stream.options.time is None


@dataclass(slots=True)
class _Found:
    """The streams of the windows, and those among them that are created with the query."""

    catalog: Catalog
    streams: list[int] = field(default_factory=list)
    steps: list[CatalogStep] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take(self, step: CatalogStep) -> None:
        self.steps.append(step)
        self.catalog = self.catalog.after(step)

    def read_all(self) -> None:
        """Windows of the past on a variable read the streams that exist now."""
        self.streams = sorted(self.catalog.streams)
        if not self.streams:
            raise BadArgument(
                "START ... END replays the past of a stream, but no such stream exists yet; register this "
                "query when it exists"
            )


def _resolve(windows: Sequence[WindowClause], view: HeadView, base: str, query: str) -> _Found:
    found = _Found(view.catalog)
    for window in windows:
        if window.stream.variable is not None:
            continue
        key = key_of(window)
        stream = found.catalog.find_stream(key)
        if stream is None:
            names = names_of(key, base + "streams/")
            near = stream_meant(found.catalog, key, names.name)
            number = view.new_number("stream")
            options = StreamOptions(time=window.time_predicate)
            stream = StreamDefinition(number, names.name, names.iri, options, created_by=query)
            found.take(CatalogStep("stream", number, stream))
            found.warnings.append(
                f"stream {names.name!r} did not exist{near}: it was created with the default options "
                f"{'except for its time ' if window.time_predicate else ''}(timing data: its elements are "
                "visible in windows only); unless something is pushed to it, it is dropped together with the "
                "query"
            )
        found.streams.append(stream.number)
    return found
