"""The section of attached stores: their status, what is held of the source main, and writes that go to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from stream_ext.catalog.registered_text import RegisteredText
from stream_ext.catalog.sources import HeldPattern
from stream_ext.errors import BadArgument, NotFound
from stream_ext.language.algebra.algebra import Query
from stream_ext.remote.evaluating import evaluating
from stream_ext.remote.source import MAIN, Source
from stream_ext.service.bind_join_check import BindJoinCheck
from stream_ext.service.opened import OpenedStore, Wait, check_wait
from stream_ext.service.source_status import found_source, status_of
from stream_ext.service.source_watch import SourceWatch
from stream_ext.service.source_writing import UpdatesTo, source_writing
from stream_ext.sources.absorbing import Absorbing
from stream_ext.sources.attached_source import AttachedSource
from stream_ext.sources.holding import Holding
from stream_ext.sources.patterns import needs_of
from stream_ext.sources.questions import Quad
from stream_ext.writer.registration import Registration
from stream_ext.writer.updates import SourceRequest


class AttachedSources:
    """One for each service, also if nothing is attached."""

    def __init__(self, opened: OpenedStore, updates: UpdatesTo | None = None, absorb: UpdatesTo | None = None) -> None:
        """Where updates go, and what streams absorb. BadArgument if the source takes no updates."""
        main = opened.sources.main
        if absorb == "source" and (main is None or (main.settings.update_url is None and not main.local)):
            raise BadArgument(
                "--absorb source: no source main takes updates: attach it (--attach URL), and name the address for "
                "them (--attach-update URL)"
            )
        self._opened, self._absorbs = opened, absorb == "source"
        self._absorbing: Absorbing | None = None
        self._watch = SourceWatch(opened.sources)
        self._holding: Holding | None = None
        #: Writes that go to the source main; None: they go to our own store.
        self.writing = source_writing(opened.store, opened.sources, updates, self._source_written)

    def start(self) -> None:
        self._watch.start()

    def close(self) -> None:
        self._watch.close()
        self.end_holding()

    def hold_main(self) -> None:
        """Begins to hold what registered queries need of the source `main`."""
        main, injector = self._opened.sources.main, self._opened.injector
        if main is not None:
            # The injector of now: an epoch that ends does not publish by the next one's.
            attached = AttachedSource(
                main, self._opened.store, self._opened.clock, lambda: injector.catalog, injector.own_change
            )
            self._holding = Holding(attached)
            self._holding.start()
            if self._absorbs:
                self._absorbing = Absorbing(attached, self.source_written)
                self._absorbing.start()

    def end_holding(self) -> None:
        if self._absorbing is not None:
            self._absorbing.close()
        if self._holding is not None:
            self._holding.close()
            self._holding = None

    @property
    def is_holding(self) -> bool:
        return self._holding is not None

    def explained(self, text: RegisteredText) -> list[dict[str, Any]]:
        """What a query would hold of the source main, and what it would ask."""
        return [] if self._holding is None else [{"source": MAIN, **each} for each in self._holding.explained(text)]

    def functions_of(self, query: Query) -> Sequence[str]:
        """The functions of the process of the source main that a registered query calls."""
        main = evaluating(self._opened.sources.main)
        return () if main is None else main.functions_of(query)

    def reserved(self, registration: Registration) -> tuple[Registration, Callable[[], None]]:
        """Waits until what the query needs of the source is held; the registration says what is asked instead. Call
        what it returns when the query is registered."""
        if self._holding is None or registration.functions:
            return registration, lambda: None
        reserved = self._holding.reserve(needs_of(registration.read))
        if reserved.remote_patterns:
            assert self._opened.sources.main is not None, "it is asked"
            self._opened.sources.main.traits  # noqa: B018  what it is, is found out before the writer's turn
            registration = replace(
                registration,
                remote_patterns=tuple(sorted(reserved.remote_patterns)),
                check=BindJoinCheck(self._opened.store, self._opened.sources, reserved.remote_patterns).check,
                home="inline" if self._opened.has_spark else registration.home,  # nobody else has the sources
            )
        return registration, reserved.release

    @property
    def updated_source(self) -> Source | None:
        """The source that updates go to; None: they go to our own store."""
        return None if self.writing is None else self.writing.source

    def sources_status(self) -> list[dict[str, Any]]:
        return [self._source_status(source) for source in self._opened.sources]

    def sources_away(self) -> list[dict[str, Any]]:
        """Those that have not answered since their last failure, with this failure. Waits for nothing."""
        health = {source.settings.name: source.health for source in self._opened.sources}
        return [{"source": name, "error": each.error} for name, each in health.items() if each.state == "away"]

    def source_status(self, name: str) -> dict[str, Any]:
        """With what is held of it, pattern by pattern."""
        source = found_source(self._opened.sources, name)
        holding = self._holding_of(source)
        return self._source_status(source) | ({} if holding is None else {"groups": holding.groups()})

    def held_patterns(self) -> list[HeldPattern]:
        """What is held of the source `main`, or is being fetched: all quads that match one of these."""
        return [] if self._holding is None else self._holding.needed()

    def source_changed(self, inserted: Sequence[Quad], deleted: Sequence[Quad]) -> None:
        """A change of the source `main` that is known exactly: what is held follows, as one snapshot."""
        if self._holding is not None:
            self._holding.apply(inserted, deleted)

    def refresh_source(self, name: str, wait: Wait = "published") -> int:
        """Fetches what is held of a source anew; returns a snapshot that has it."""
        check_wait(wait)
        sn = self._held_of(name).refresh()
        self._opened.wait_for(sn, wait)
        return sn

    def source_written(self, quads: Iterable[Quad]) -> None:
        """An update has inserted or deleted these quads of the source `main`, texts of subject, predicate, object and
        graph: returns when what is held of them is right."""
        if self._holding is not None:
            self._holding.written(quads)

    def _source_status(self, source: Source) -> dict[str, Any]:
        """How it answers; of the source main also what is held."""
        holding = self._holding_of(source)
        found = status_of(source, {} if holding is None else holding.status())
        if holding is not None and self._absorbing is not None and self._absorbing.error is not None:
            found["error"] = found["error"] or f"triples were not absorbed: {self._absorbing.error}"
        return found

    def _holding_of(self, source: Source) -> Holding | None:
        return self._holding if source is self._opened.sources.main else None

    def _held_of(self, name: str) -> Holding:
        if self._holding is None or name != MAIN:
            raise NotFound(f"nothing is held of a source {name!r}: only {MAIN!r} is held, if it is attached")
        return self._holding

    def _source_written(self, request: SourceRequest) -> None:
        if self._holding is not None and request.clears:
            self._holding.refresh()
        elif request.quads:
            self.source_written((s, p, o, g or b"") for s, p, o, g in request.quads)
