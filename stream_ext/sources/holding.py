"""Holding: what registered queries need of the source `main` is held here, and changed fresh.

    what the source has of the patterns of all queries, less what is held  -->  one snapshot, if there is a difference

One thread does this: at the start, each `refresh_s`, when somebody asks for it, and before a query is registered that
needs more than is held. A refresh that finds no difference makes no snapshot. If the source does not answer, what is
held stays as it is, and the status says why; the next refresh tries again. What no query needs any more is released by
the next refresh."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hbase_store import Snapshot
from stream_ext.catalog.catalog import CatalogStep
from stream_ext.catalog.registered_text import RegisteredText
from stream_ext.catalog.sources import MAIN_NUMBER, AsOf, HeldPattern, SourceRecord
from stream_ext.errors import BadArgument, DeadlineExceeded, RilletError, SourceAway
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.remote.remote_question import question_of_group
from stream_ext.oneshot.bind_joins import bind_join_plan, holds_at_any
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.sources.attached_source import AttachedSource
from stream_ext.sources.blank_nodes import is_blank
from stream_ext.sources.choice import HoldingChoice, too_much
from stream_ext.sources.difference import Difference, count_of_held, held_count
from stream_ext.sources.fetched import Fetching, UnknownBlankNodes
from stream_ext.sources.needs import Needs, Reserved
from stream_ext.sources.patterns import Need, needs_of, widest
from stream_ext.sources.questions import Quad
from stream_ext.sources.refresh import Refresh
from stream_ext.sources.status import Status
from stream_ext.writer.change import HeadView, Intent

log = logging.getLogger("rillet.sources")

#: So many quads are looked at one by one after an update; if it has more, everything is fetched.
_QUADS_MAX = 1_000
#: Whom a source keeps waiting may ask again after so long.
_RETRY_AFTER_S = 5
#: A refresh takes no longer than this, however slowly the source answers; nor do the counts of an EXPLAIN.
_REFRESH_S, _EXPLAINED_S = 3600.0, 60.0
#: A request that is under way at the end is waited for this long.
_END_S = 5.0


@dataclass(slots=True)
class _RefreshRequest:
    """A refresh that somebody waits for: of everything, of what a query needs that is being registered (`reserved`), or
    of some `quads`; or a `change` that is known, for which the source is not asked. `asks_anew`: queries that ask the
    source ask it again."""

    reserved: Reserved | None = None
    quads: Sequence[Quad] = ()
    change: tuple[Sequence[Quad], Sequence[Quad]] | None = None
    asks_anew: bool = False
    future: Future[int] = field(default_factory=Future)

    @property
    def is_whole(self) -> bool:
        return not self.quads and self.reserved is None and self.change is None


class Holding:
    """Of one source, for as long as this process writes the store. Any thread may call."""

    def __init__(self, attached: AttachedSource) -> None:
        self.source, self._store, self._clock = attached.source, attached.store, attached.clock
        self._catalog, self._publish = attached.catalog, attached.publish
        self._name = self.source.settings.name
        self._changed = threading.Condition()
        self._requests: list[_RefreshRequest] = []
        self._needs = Needs()
        self._status = Status()
        self._counted: dict[HeldPattern, int] = {}  # what is asked, when it was chosen
        self._latest = b""  # the last value of the predicate that says what changed
        self._due_ms = self._clock.now_ms()
        self._closed = False
        self._control = self._new_control()
        self._thread = threading.Thread(target=self._run, name=f"rillet-source-{self._name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """What is under way is given up."""
        with self._changed:
            self._closed = True
            self._control.cancel()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    # ---- what others ask for

    def refresh(self) -> int:
        """Fetches everything now; returns a snapshot that has it. Raises SourceAway."""
        return self._ask(_RefreshRequest(asks_anew=bool(self._catalog().remote_patterns))).result()

    def reserve(self, needs: frozenset[Need]) -> Reserved:
        """Waits until all that a query needs is held, but for what is to be asked. It stays so until it is released,
        and from then on if a registered query needs it."""
        reserved = self._needs.reserve(needs)
        try:
            if not reserved.is_held_by(self.patterns()):
                self._ask(_RefreshRequest(reserved)).result()
        except BaseException:
            reserved.release()
            raise
        return reserved

    def written(self, quads: Iterable[Quad]) -> None:
        """These quads of the source were just inserted or deleted: returns when what is held of them is right."""
        if self.source.traits.default == "union":
            quads = [each for s, p, o, g in quads for each in ((s, p, o, g), (s, p, o, b""))]
        held, remote, quads = self.patterns(), self._catalog().remote_patterns, list(dict.fromkeys(quads))
        touched = [quad for quad in quads if any(pattern.matches(quad) for pattern in held)]
        asks_anew = any(pattern.matches(quad) for quad in quads for pattern in remote)
        if not touched and not asks_anew:
            return
        if not touched:
            self._ask(_RefreshRequest(change=((), ()), asks_anew=True)).result()
            return
        is_known = len(touched) <= _QUADS_MAX and not any(is_blank(term) for quad in touched for term in quad)
        self._ask(_RefreshRequest(quads=touched if is_known else (), asks_anew=asks_anew)).result()

    def apply(self, inserted: Sequence[Quad], deleted: Sequence[Quad]) -> None:
        """Takes over a change of the source that is known exactly, as one snapshot. Blank nodes have labels that last;
        quads that no pattern matches are not held. The source has changed before this is called."""
        remote = self._catalog().remote_patterns
        asks_anew = any(p.matches(quad) for quads in (inserted, deleted) for quad in quads for p in remote)
        self._ask(_RefreshRequest(change=(inserted, deleted), asks_anew=asks_anew)).result()

    def needed(self) -> list[HeldPattern]:
        """Those that are held, those that are being fetched, as a change may come in between, and those that the source
        is asked for."""
        more = self._needs.reserved() | self._catalog().remote_patterns
        return widest(more.union(self.patterns())) if more else self.patterns()

    def patterns(self) -> list[HeldPattern]:
        """Those that are held."""
        record = self._catalog().main
        return [] if record is None else record.patterns

    def status(self) -> dict[str, Any]:
        settings, record = self.source.settings, self._catalog().main
        as_of = self._status.as_of or (None if record is None else record.as_of)
        return {
            "source": settings.name,
            "url": settings.shown_url,
            "state": self._status.state,
            "as_of": None if as_of is None else as_of.shown(),
            "held": held_count(self._store.at(self._store.head())),
            "round_trips": self._status.round_trips,
            "lag_ms": None if as_of is None else max(0, self._clock.now_ms() - as_of.start),
            "error": self._status.error,
        }

    def groups(self) -> list[dict[str, Any]]:
        """Each pattern that is held, and each that the source is asked for; and how many quads match it."""
        snapshot = self._store.at(self._store.head())
        held = [
            {"pattern": pattern.shown(), "way": "held", "quads": count_of_held(snapshot, pattern, self._store.ids)}
            for pattern in self.patterns()
        ]
        remote = [
            {"pattern": pattern.shown(), "way": "asked", "quads": self._counted.get(pattern)}
            for pattern in sorted(self._catalog().remote_patterns)
        ]
        return held + remote

    def explained(self, text: RegisteredText) -> list[dict[str, Any]]:
        """Of each pattern that a query needs how it is answered: what is not held yet is counted by the source. Then
        what the source would be asked at each evaluation, with values of the windows."""
        snapshot, held = self._store.at(self._store.head()), self.patterns()
        fetching = Fetching(self.source, self._store.permanent_ids, self._new_control(_EXPLAINED_S))
        choice = HoldingChoice(self.source.settings, fetching, held)
        found: dict[HeldPattern, dict[str, Any]] = {}
        remote: set[HeldPattern] = set()
        for need in sorted(needs_of(text), key=lambda need: need.own):
            try:
                pattern, count, may_hold = choice.of(need)
            except (CannotFetch, DeadlineExceeded) as error:
                found[need.own] = {"pattern": need.own.shown(), "way": None, "quads": None, "error": str(error)}
                continue
            if count is None:
                count = count_of_held(snapshot, pattern, self._store.ids)
            way = "held" if may_hold else "asked" if need.may_be_remote else "refused"
            found[pattern] = {"pattern": pattern.shown(), "way": way, "quads": count}
            remote |= {pattern} if way == "asked" else set()
        ways = list(found.values())
        return ways + self._questions(text, snapshot, remote) if remote else ways

    def _questions(
        self, text: RegisteredText, snapshot: Snapshot, remote_patterns: set[HeldPattern]
    ) -> list[dict[str, Any]]:
        holds = holds_at_any([snapshot], lambda term: int(self._store.ids([term])[0]))
        plan = bind_join_plan(text.select, remote_patterns, self.source, holds)
        return [
            {"asked": question_of_group(remote), "exclusive": is_exclusive} for remote, is_exclusive in plan.remotes()
        ]

    def _ask(self, request: _RefreshRequest) -> Future[int]:
        with self._changed:
            if self._closed:
                raise self._is_closed()
            self._requests.append(request)
            self._changed.notify_all()
        return request.future

    def _new_control(self, timeout_s: float = _REFRESH_S) -> Control:
        return Control(timeout_s, what="reading of a source", settings=("a source that answers faster", "less"))

    def _is_closed(self) -> SourceAway:
        return SourceAway(f"this server does not read the source {self._name!r} any more", _RETRY_AFTER_S)

    # ---- the thread

    def _run(self) -> None:
        while (requests := self._take()) is not None:
            try:
                sn = self._answered(requests)
            except Exception as error:  # noqa: BLE001  whoever waits gets it, and the status says it
                self._failed(error, requests)
            else:
                for request in requests:
                    if not request.future.done():
                        request.future.set_result(sn)

    def _take(self) -> list[_RefreshRequest] | None:
        """Waits until a refresh is due or asked for; None at the end."""
        with self._changed:
            while not self._closed and not self._requests and self._clock.now_ms() < self._due_ms:
                self._clock.wait(self._changed, self._due_ms)
            requests, self._requests = self._requests, []
            if not self._closed:
                return requests
        for request in requests:
            request.future.set_exception(self._is_closed())
        return None

    def _failed(self, error: Exception, requests: Sequence[_RefreshRequest]) -> None:
        if self._closed:
            raised: Exception = self._is_closed()
        else:
            raised = self._reported(error)
        for request in requests:
            if not request.future.done():
                # To ask for less helps, to ask later does not.
                is_bad = request.reserved is not None and isinstance(error, UnknownBlankNodes)
                request.future.set_exception(BadArgument(f"the query cannot be held: {error}") if is_bad else raised)

    def _reported(self, error: Exception) -> Exception:
        why = str(error) or type(error).__name__
        self._status.failed("away" if isinstance(error, NoAnswer) else "failing", why)
        fields = {"source": self._name, "why": why}
        if isinstance(error, CannotFetch | DeadlineExceeded):
            log.warning("a source was not read", extra={"fields": fields})
            return SourceAway(f"the source {self._name!r} did not answer what is needed of it: {why}", _RETRY_AFTER_S)
        if isinstance(error, RilletError):
            log.warning("a source was not held", extra={"fields": fields})
        else:
            log.error("a source could not be held", exc_info=error, extra={"fields": fields})
        return error

    def _answered(self, requests: list[_RefreshRequest]) -> int:
        """Does what is asked, at least; returns a snapshot that has it."""
        is_due = not requests or self._clock.now_ms() >= self._due_ms
        with self._changed:
            if self._closed:
                raise self._is_closed()
            self._control = self._new_control()
        fetching = Fetching(self.source, self._store.permanent_ids, self._control)
        try:
            # Before anything is fetched, which has these changes, and perhaps later ones.
            for request in requests:
                self._take_over(request, fetching)
            for request in requests:
                if request.reserved is not None:
                    self._choose(request, request.reserved, fetching)
            left = [request for request in requests if not request.future.done()]
            if not left and not is_due:
                return int(self._store.head())
            refresh = Refresh(self._store.at(self._store.head()), fetching, self._catalog().main)
            return self._refreshed(refresh, left, is_due)
        except BaseException:
            self._set_next(is_due)
            raise
        finally:
            self._status.round_trips += fetching.round_trips

    def _set_next(self, is_due: bool) -> None:
        """When all is compared again, if it was now; before anybody sees that it was."""
        if is_due:
            self._due_ms = self._clock.now_ms() + int(self.source.settings.refresh_s * 1000)

    def _take_over(self, request: _RefreshRequest, fetching: Fetching) -> None:
        """A change that is known."""
        if request.change is None:
            return
        record, sn = self._catalog().main, int(self._store.head())
        try:
            found = Refresh(self._store.at(sn), fetching, record).with_change(*request.change)
        except UnknownBlankNodes:
            request.change = None  # everything is fetched
            return
        if (record is not None and not found.is_empty) or request.asks_anew:
            now_ms = self._clock.now_ms()
            record = record or SourceRecord(self._name, [], AsOf(now_ms, now_ms), AsOf(now_ms, now_ms))
            record = msgspec.structs.replace(record, as_of=AsOf(record.as_of.start, now_ms))
            sn = self._published(found, self._with_answers_outdated(record, request.asks_anew))
        request.future.set_result(sn)

    def _refreshed(self, refresh: Refresh, requests: Sequence[_RefreshRequest], is_due: bool) -> int:
        record, begun_ms = refresh.record, self._clock.now_ms()
        some = [quad for request in requests for quad in request.quads]
        asks_anew = any(request.asks_anew for request in requests)
        is_partial = record is not None and not is_due and not any(request.is_whole for request in requests)
        if is_partial and all(request.quads for request in requests):
            found = refresh.of_quads(some)
            if not asks_anew:
                return int(self._store.head()) if found.is_empty else self._published(found, None)
            assert record is not None, "what is held has a record"
            return self._published(found, self._with_answers_outdated(record, True))
        patterns = self._needs.of(self._catalog().queries, [] if record is None else record.patterns)
        latest = self._latest
        if is_partial and record is not None and not some:
            found = refresh.of_new(patterns)
            as_of, whole = (
                AsOf(record.as_of.start, self._clock.now_ms()),
                AsOf(record.whole.start, self._clock.now_ms()),
            )
        else:
            latest = refresh.latest_change() if patterns else b""
            is_whole = bool(requests) or not self._latest or not latest or self._is_whole_due(record, patterns)
            found = refresh.whole(patterns) if is_whole else refresh.changed_since(self._latest, patterns)
            as_of = AsOf(begun_ms, self._clock.now_ms())
            whole = as_of if is_whole or record is None else record.whole
        self._set_next(is_due)
        sn = int(self._store.head())
        if not found.is_empty or asks_anew or patterns != ([] if record is None else record.patterns):
            known = record or SourceRecord(self._name, patterns, as_of, whole)
            fresh = msgspec.structs.replace(known, patterns=patterns, as_of=as_of, whole=whole)
            sn = self._published(found, self._with_answers_outdated(fresh, asks_anew))
        self._latest = latest
        self._status.succeeded(as_of)
        return sn

    def _with_answers_outdated(self, record: SourceRecord, asks_anew: bool) -> SourceRecord:
        """The record, which says if queries that ask the source are to ask it again."""
        if not asks_anew:
            return record
        later_ms = max(record.fresh_since_ms + 1, self._clock.now_ms())
        return msgspec.structs.replace(record, fresh_since_ms=later_ms)

    def _is_whole_due(self, record: SourceRecord | None, patterns: Sequence[HeldPattern]) -> bool:
        """Whether all has to be fetched, and not only the subjects that changed."""
        if record is None or patterns != record.patterns:
            return True
        return self._clock.now_ms() - record.whole.start >= self.source.settings.full_s * 1000

    def _published(self, found: Difference, record: SourceRecord | None) -> int:
        def change(view: HeadView) -> Intent:
            if record is None:
                return Intent(result=int, write=found.write)
            there = view.catalog.main
            if there is not None:  # absorbing goes on beside
                absorbed = {"absorbed_sn": there.absorbed_sn, "store_id": there.store_id}
                changed = msgspec.structs.replace(record, **absorbed)
            else:
                changed = record
            return Intent(result=int, steps=[CatalogStep("source", MAIN_NUMBER, changed)], write=found.write)

        return int(self._publish(change).result())

    def _choose(self, request: _RefreshRequest, reserved: Reserved, fetching: Fetching) -> None:
        """Chooses what is to be held for a query, and what is to be asked; refuses it if what cannot be asked is too
        much to be held."""
        settings = self.source.settings
        choice = HoldingChoice(settings, fetching, self.patterns())
        chosen, remote = [], {}
        for need in reserved.needs:
            pattern, count, may_hold = choice.of(need)
            if may_hold:
                chosen.append(pattern)
            elif need.may_be_remote:
                remote[need.own] = count or 0
            else:
                reserved.release()
                request.future.set_exception(too_much(settings, pattern, count or 0))
                return
        self._counted |= remote
        reserved.choose(chosen, remote)
