"""Loads files: each file becomes one snapshot, published at once or not at all.

If no other process writes to the store, the files are written directly. If a server writes to it, the files are
streamed to that server, with the same result. A file that was loaded before is not loaded again, even if it was
moved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO
from urllib.parse import urlsplit

import hbase_store
from endpoint.files.reading import Pieces, Source, digest_of, named, pieces_of, place_of
from endpoint.files.writer import with_writer
from hbase_store import Store
from stream_ext.errors import BadData, RilletError
from stream_ext.writer.load_processes import LoadProcesses
from stream_ext.writer.load_reading import LoadReading, LoadTasks
from stream_ext.writer.load_records import BadLine, Loaded, graph_term, loaded

if TYPE_CHECKING:
    from endpoint.client import Client
    from stream_ext.service.service import SparkSettings


_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the files are to be read."""

    graph: str | None
    base: str
    go_on: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one source; `seconds` is 0 if it was loaded before."""

    source: Source
    loaded: Loaded
    seconds: float
    bad_lines: Sequence[BadLine] = ()


class LoadTarget(Protocol):
    """Where a load is written: the store itself, or a server."""

    statements: int  # of the present source, so far

    def loaded(self) -> list[Loaded]: ...

    def load(self, pieces: Pieces, quads: bool, what: Loaded, go_on: bool) -> Sequence[BadLine]:
        """Writes one snapshot; sets its number and those of statements and bad lines in `what`."""
        ...

    def is_at(self, url: str) -> bool:
        """Whether what is written to here would be read there."""
        ...

    def close(self) -> None: ...


def load_all(
    url: str,
    sources: Sequence[Source],
    wanted: Wanted,
    progress: TextIO,
    token: str | None = None,
    server: str | None = None,
    tasks: int | None = 1,
    spark: SparkSettings | None = None,
) -> Iterator[Done]:
    """Loads all sources and yields each result as soon as it is written. `server`: load through this server, and do
    not open the store. `tasks`: as in `Local`."""
    with target_of(url, token, progress, server, tasks, spark) as target:
        before = target.loaded()
        for source in sources:
            started = time.monotonic()
            what = place_of(source, wanted.graph)
            with named(source):
                known = _known(source, what, before)
                if known is not None:
                    yield Done(source, known, 0.0)
                    continue
                target.statements = 0
                with pieces_of(source, wanted.base, progress, lambda: target.statements) as pieces:
                    bad_lines = target.load(pieces, source.quads, what, wanted.go_on)
            before.append(what)
            yield Done(source, what, time.monotonic() - started, bad_lines)


def _known(source: Source, what: Loaded, before: Sequence[Loaded]) -> Loaded | None:
    """The earlier load of this file or of a copy of it; sets the digest of a new file."""
    if not what.path:
        return None
    if (same := next((known for known in before if what.is_place_of(known)), None)) is not None:
        return same
    what.digest = digest_of(source)
    return next((known for known in before if what.is_copy_of(known)), None)


# ---- targets


@contextmanager
def target_of(
    url: str,
    token: str | None,
    progress: TextIO,
    server: str | None,
    tasks: int | None = 1,
    spark: SparkSettings | None = None,
) -> Iterator[LoadTarget]:
    """The store, or the server that writes to it."""

    def here() -> LoadTarget:
        store = hbase_store.open(url)
        try:
            store.take_lease("")
        except BaseException:
            store.close()
            raise
        return Local(store, tasks, spark)

    def of(address: str) -> LoadTarget:
        from endpoint.client import Client  # imports httpx, which a load without a server does not need

        return ServerTarget(Client(address, token=token, timeout_s=None), address)

    def there(address: str) -> LoadTarget:
        progress.write(f"a server has {url} open: loading through {address}\n")
        return of(address)

    with closing(of(server) if server else with_writer(here, there)) as target:
        yield target


class Local:
    """Loads into the store itself; `tasks`: so many processes read and sort long sources (1: this one does).
    `spark`: they are tasks of Spark; None: as many as it has slots."""

    def __init__(self, store: Store, tasks: int | None, spark: SparkSettings | None = None) -> None:
        self._store, self.statements = store, 0
        self._ending = ExitStack()
        self._ending.callback(store.close)
        self._tasks: LoadTasks | None = None
        try:
            if spark is not None:
                from stream_ext.service.standalone_spark import loading_on_spark  # imports what Spark needs

                self._tasks = self._ending.enter_context(loading_on_spark(spark, tasks))
            elif tasks is not None and tasks > 1:
                self._tasks = self._ending.enter_context(closing(LoadProcesses(tasks)))
        except BaseException:
            self._ending.close()
            raise

    def is_at(self, url: str) -> bool:
        return False  # who serves a store holds it

    def close(self) -> None:
        self._ending.close()

    def loaded(self) -> list[Loaded]:
        return loaded(self._store)

    def load(self, pieces: Pieces, quads: bool, what: Loaded, go_on: bool) -> Sequence[BadLine]:
        with LoadReading(quads, go_on, self._tasks) as reading:

            def show() -> None:
                self.statements = reading.statements
                pieces.show(reading.position)

            if pieces.path is not None:
                reading.read_file(pieces.path, show)
            else:
                for piece in pieces:
                    reading.read(piece)
                    self.statements = reading.statements
            loading = reading.end()
            what.statements, what.bad = loading.statements, reading.bad
            name = what.packed() if what.path else b""
            what.sn = int(self._store.load(loading, graph=graph_term(what.graph), name=name))
            return reading.reported


class ServerTarget:
    """Loads by way of the server that writes to the store."""

    def __init__(self, client: Client, address: str) -> None:
        self._client, self._address, self.statements = client, address, 0

    def is_at(self, url: str) -> bool:
        mine, other = (urlsplit(each.replace("//localhost", "//127.0.0.1")) for each in (self._address, url))
        return (mine.scheme, mine.netloc) == (other.scheme, other.netloc)

    def close(self) -> None:
        self._client.close()

    def loaded(self) -> list[Loaded]:
        import httpx

        try:
            found = self._client.loads()
        except httpx.HTTPError as error:
            raise RilletError(f"{self._address} does not answer ({error}); start it with `rillet serve`") from None
        names = ("path", "size", "modified", "graph", "statements", "digest", "bad", "snapshot", "part")
        return [Loaded(*(each[name] for name in names)) for each in found]

    def load(self, pieces: Pieces, quads: bool, what: Loaded, go_on: bool) -> Sequence[BadLine]:
        import httpx

        from endpoint.client import Refused

        try:
            answer = self._client.load(
                pieces,
                quads=quads,
                graph=what.graph,
                path=what.path or None,
                size=what.size,
                modified=what.modified_ns,
                digest=what.digest or None,
                part=what.part or None,
                go_on=go_on,
            )
        except Refused as refused:
            if refused.line:
                raise BadData(str(refused), refused.line, refused.column) from None
            advice = "; give it with --token TOKEN or RILLET_TOKEN" if refused.status == _UNAUTHORIZED else ""
            raise RilletError(f"{self._address}: {refused}{advice}") from None
        except httpx.HTTPError as error:
            raise RilletError(f"the connection to {self._address} was lost ({error}); repeat the command") from None
        what.statements, what.bad, what.sn = answer["statements"], answer["bad"], answer["snapshot"]
        return [BadLine(bad["line"], bad["column"], bad["message"]) for bad in answer["first_bad"]]
