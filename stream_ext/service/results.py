"""The section of results: the latest answer of a registered query, its emissions, and subscriptions to them."""

from __future__ import annotations

from collections.abc import Callable

from stream_ext.catalog.registered import Registered
from stream_ext.emissions.emission import Emission, EmissionBody
from stream_ext.emissions.subscriptions import Subscription
from stream_ext.errors import Gone, NotFound
from stream_ext.language.algebra.algebra import R2S
from stream_ext.oneshot.answers import answer_at_last_evaluation, answer_of, no_answer
from stream_ext.oneshot.evaluate import Answer
from stream_ext.oneshot.rerun import Rerun
from stream_ext.service.opened import OpenedStore
from stream_ext.windows.query_state import LastEvaluation


class Results:
    """One for each service."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened

    def latest(self, name: str) -> Answer:
        """The whole answer of the last evaluation; an empty one before the first."""
        definition, merge = self._opened.catalog.query(name), self._opened.engine.merge
        state = merge.state(definition.number)
        if state is None or state.evaluated is None:
            return no_answer(definition, self._opened.head())
        if definition.r2s == R2S.RSTREAM.value:
            body = self._opened.engine.emissions.body(definition.number, merge.last(definition.number))
            if body is not None and _is_of(body, state.evaluated):
                return answer_of(body, self._opened.store)
        return answer_at_last_evaluation(
            self._opened.store,
            self._opened.catalog,
            definition,
            state,
            self._opened.allowed_urls,
            self._opened.budget.control(),
            self._opened.sources,
        )

    def emissions(self, name: str, since: int = 0, limit: int | None = None) -> list[Emission]:
        self.check_retained(name, since)
        return self._opened.engine.emissions.read(self._opened.catalog.query(name).number, since, limit)

    def emission_again(self, name: str, number: int) -> bytes:
        """One emission as JSON, evaluated again at its snapshot."""
        definition = self._opened.catalog.query(name)
        if not 0 < number <= self._opened.engine.merge.last(definition.number):
            raise NotFound(f"query {definition.name!r} has no emission {number}")
        self.check_retained(name, number - 1)
        if (body := self._opened.engine.emissions.body(definition.number, number)) is None:
            raise Gone(f"emission {number} of {definition.name!r} is no longer retained")
        catalog, state = self._opened.catalog, self._opened.engine.merge.state(definition.number)
        registered = Registered.of(definition, catalog)
        windows = registered.windows_from(None if state is None else state.t0)
        return Rerun(
            definition,
            registered.query,
            windows,
            self._opened.store,
            self._opened.allowed_urls,
            self._opened.budget.control(),
            self._opened.sources,
        ).json(body)

    def subscribe(self, name: str, since: int, notify: Callable[[], None]) -> Subscription:
        """`notify` is called by any thread when `take` has emissions, or at the end; it must not block."""
        self.check_retained(name, since)
        return self._opened.engine.subscriptions.add(self._opened.catalog.query(name).number, since, notify)

    def check_retained(self, name: str, since: int, seen: bool = False) -> None:
        """Gone, if emissions after `since` are not retained any more; 0 means: from the oldest retained one. Also Gone
        if the client has `seen` the emission `since` and the query has not made it: then it was another query of the
        name."""
        query = self._opened.catalog.query(name)
        last = self._opened.engine.merge.last(query.number)
        if seen and since > last:
            raise Gone(
                f"query {query.name!r} has {last} emissions, so there is no number {since}; if the number is "
                "from a dropped query of the same name, subscribe again without Last-Event-ID"
            )
        if 0 < since < last:
            oldest = self._opened.engine.emissions.oldest(query.number)
            if since + 1 < oldest:
                raise Gone(f"emission {since + 1} of {query.name!r} is no longer retained; the oldest is {oldest}")


def _is_of(body: EmissionBody, evaluated: LastEvaluation) -> bool:
    """In CQELS-QL an empty answer is not emitted."""
    return body.at is not None and (body.at.sn, body.at.k) == (evaluated.sn, evaluated.k)
