"""From files to snapshots: each file is one snapshot, published at once or not at all.

Where the store is free, the files are written to it here. Where a server holds it, they are streamed to that server,
which does the same: so it does not matter to who loads. A file that the store has loaded already is not loaded again,
wherever it lies by now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

import hbase_store
from endpoint.files.reading import Source, digest_of, named, pieces_of, place_of
from endpoint.files.writer import by_whoever_writes
from hbase_store import Loading, Store
from stream_ext.errors import BadData, RilletError
from stream_ext.writer.load_records import BadLine, Loaded, UnusualLineReader, graph_term, loaded

if TYPE_CHECKING:
    from endpoint.client import Client


_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the files are to be read."""

    graph: str | None
    base: str
    go_on: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a source; `seconds` is 0 if it was loaded before."""

    source: Source
    loaded: Loaded
    seconds: float
    told: Sequence[BadLine] = ()


class LoadTarget(Protocol):
    """Where a load goes."""

    statements: int  # of the source that is being read, as far as is known here

    def loaded(self) -> list[Loaded]: ...

    def load(self, pieces: Iterable[bytes], quads: bool, what: Loaded, go_on: bool) -> Sequence[BadLine]:
        """As one snapshot, which it writes into `what`, with the numbers of statements and of bad lines."""
        ...

    def close(self) -> None: ...


def load_all(
    url: str,
    sources: Sequence[Source],
    wanted: Wanted,
    progress: TextIO,
    token: str | None = None,
    server: str | None = None,
) -> Iterator[Done]:
    """What became of each source, when it is written; a `server` stands for the store that it holds."""
    with _target(url, token, progress, server) as target:
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
                    told = target.load(pieces, source.quads, what, wanted.go_on)
            before.append(what)
            yield Done(source, what, time.monotonic() - started, told)


def _known(source: Source, what: Loaded, before: Sequence[Loaded]) -> Loaded | None:
    """The load that had this very file, or a copy of it; fills in the digest of one that is new."""
    if not what.path:
        return None
    if (same := next((known for known in before if what.is_place_of(known)), None)) is not None:
        return same
    what.digest = digest_of(source)
    return next((known for known in before if what.is_copy_of(known)), None)


# ---- where it goes


@contextmanager
def _target(url: str, token: str | None, progress: TextIO, server: str | None) -> Iterator[LoadTarget]:
    """The store, or the server that holds it."""

    def here() -> LoadTarget:
        store = hbase_store.open(url)
        try:
            store.take_lease("")
        except BaseException:
            store.close()
            raise
        return Local(store)

    def of(address: str) -> LoadTarget:
        from endpoint.client import Client  # whose httpx who loads here himself need not wait for

        return ServerTarget(Client(address, token=token, timeout_s=None), address)

    def there(address: str) -> LoadTarget:
        progress.write(f"a server holds {url}: loading by way of {address}\n")
        return of(address)

    with closing(of(server) if server else by_whoever_writes(here, there)) as target:
        yield target


class Local:
    """The store itself."""

    def __init__(self, store: Store) -> None:
        self._store, self.statements = store, 0

    def close(self) -> None:
        self._store.close()

    def loaded(self) -> list[Loaded]:
        return loaded(self._store)

    def load(self, pieces: Iterable[bytes], quads: bool, what: Loaded, go_on: bool) -> Sequence[BadLine]:
        lines = UnusualLineReader(quads, go_on)
        loading = Loading(lines, quads)
        for piece in pieces:
            loading.read(piece)
            self.statements = loading.statements
        loading.end()
        what.statements, what.bad = loading.statements, lines.bad
        name = what.packed() if what.path else b""
        what.sn = int(self._store.load(loading, graph=graph_term(what.graph), name=name))
        return lines.reported


class ServerTarget:
    """The server that holds the store."""

    def __init__(self, client: Client, address: str) -> None:
        self._client, self._address, self.statements = client, address, 0

    def close(self) -> None:
        self._client.close()

    def loaded(self) -> list[Loaded]:
        import httpx

        try:
            found = self._client.loads()
        except httpx.HTTPError as error:
            raise RilletError(f"{self._address} does not answer ({error}); start it with `rillet serve`") from None
        names = ("path", "size", "modified", "graph", "statements", "digest", "bad", "snapshot")
        return [Loaded(*(each[name] for name in names)) for each in found]

    def load(self, pieces: Iterable[bytes], quads: bool, what: Loaded, go_on: bool) -> Sequence[BadLine]:
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
                go_on=go_on,
            )
        except Refused as refused:
            if refused.line:
                raise BadData(str(refused), refused.line, refused.column) from None
            advice = "; here: --token TOKEN, or RILLET_TOKEN" if refused.status == _UNAUTHORIZED else ""
            raise RilletError(f"{self._address}: {refused}{advice}") from None
        except httpx.HTTPError as error:
            raise RilletError(f"the connection to {self._address} was lost ({error}); give the command again") from None
        what.statements, what.bad, what.sn = answer["statements"], answer["bad"], answer["snapshot"]
        return [BadLine(bad["line"], bad["column"], bad["message"]) for bad in answer["first_bad"]]
