"""Following: the engine of a server that only reads. It evaluates nothing; what the writer has emitted can be read from
it, and its subscribers get it."""

from __future__ import annotations

from hbase_store import Store
from stream_ext.service.engine import Engine
from stream_ext.writer.injector import Injector


class Following:
    """An engine that is not started, and an injector that writes nothing: both as the store says."""

    def __init__(self, store: Store, injector: Injector, engine: Engine) -> None:
        self._store, self.injector, self.engine = store, injector, engine
        self._commit = store.emissions.commits
        engine.merge.follow()
        engine.subscriptions.serve(engine.emissions, engine.merge.last, engine.merge.memberships)
        engine.subscriptions.resume(injector.catalog.queries)

    def follow(self) -> bool:
        """Reads what another process has published and emitted since the last call, and notifies subscribers. Returns
        whether there was anything."""
        before = self.injector.head, self._commit
        self.injector.follow()
        commit = self._store.emissions.commits
        self._notify_subscribers()
        self._commit = commit
        return (self.injector.head, commit) != before

    def has(self, snapshot: int, commit: int) -> bool:
        """Whether this snapshot and the emissions of this commit can be read here."""
        return self.injector.head >= snapshot and self._commit >= commit

    def _notify_subscribers(self) -> None:
        merge, subscriptions = self.engine.merge, self.engine.subscriptions
        before = {query: merge.last(query) for query in subscriptions.subscribed()}
        if merge.follow():
            self._store.emissions.look_at_oldest_again()
            # Read again: who subscribed meanwhile is told, too.
            queries = subscriptions.subscribed()
            subscriptions.announce([query for query in queries if merge.last(query) > before.get(query, 0)])
        subscriptions.end_all_but(self.injector.catalog.queries)
