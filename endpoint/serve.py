"""`rillet serve`: one process that writes to a store and answers over HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import resource
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import uvicorn
import uvloop

from endpoint.app import RilletEndpoint, create_app
from endpoint.http.access import Access, is_loopback
from endpoint.http.certificates import settings_of, trusting
from endpoint.http.stop_signals import StopSignals
from endpoint.limits import HttpLimits
from endpoint.monitoring.log import Form, Level, logging_to, of_terminal
from endpoint.monitoring.log import Settings as LogSettings
from endpoint.monitoring.settings_in_force import settings_in_force
from hbase_store.version import __version__
from stream_ext.clock import SystemClock
from stream_ext.errors import BadArgument, RilletError
from stream_ext.evaluation_budget import TERM_BYTES
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from stream_ext.service.service import Budget, Limits, Retain, Service, SparkSettings

log = logging.getLogger("rillet.server")

#: After this time a computing thread gives the interpreter to the event loop. Python's default is 5 ms.
_SWITCH_S = 0.001
#: Open files besides connections: those of the store, of Spark and of SERVICE requests.
_OTHER_FILES = 512
#: The most processes that read long pushes, unless more are asked for.
_PUSH_READERS_MAX = 4
_GRACE_S = 5  # for running answers when the server stops
#: So many new containers are looked at together for cycles; Python's default is 700. There are few cycles: nearly all
#: that is found is what running requests use.
COLLECTED_AFTER = (50_000, 20, 100)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    store: str
    host: str = "127.0.0.1"
    port: int = 8000
    base: str | None = None
    engine: Literal["spark", "inline"] = "spark"
    spark_master: str = "local[*]"
    spark_address: str = ""
    spark_package: str = ""
    spark_epoch_s: float = 30.0
    spark_shards: int = 0  # one for each core
    spark_rows: int = 0  # of queries that are divided; 0: none is, unless it asks for it
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    step_timeout_s: float = 10.0
    batch_ms: int = 100
    durability: Literal["process", "power"] = "process"
    cache_bytes: int = 512 << 20
    read_ahead: int = 64 << 20  # of a store on HBase
    retain_snapshots_s: float = 300.0
    retain_emissions_s: float = 3600.0
    timing_bytes: int = 1 << 30
    max_lag_s: float = 10.0
    max_catch_up_s: float = 600.0
    query_share: float = 0.25
    max_queries: int = 100_000
    query_timeout_s: float = 300.0
    query_bytes: int = 2 << 30
    queries_bytes: int | None = None  # None: half of the machine's memory
    term_bytes: int = TERM_BYTES
    evaluation_timeout_s: float = 60.0
    state_bytes: int = 2 << 30
    connections: int = 4096
    head_timeout_s: float = 10.0
    idle_timeout_s: float = 60.0
    least_rate: int = 4 << 10
    slow_query_s: float = 10.0
    log_level: Level | None = None  # None: it depends on standard error
    log_format: Form = "text"
    query_workers: int | None = None  # None: one, for an embedded store
    push_readers: int | None = None  # None: one for each core
    token: str | None = None
    read_token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    allowed_urls: AllowedUrls = NOTHING
    sources: tuple[SourceSettings, ...] = ()
    updates: Literal["source", "ours"] | None = None  # None: to the source main if it takes any
    absorb: Literal["source", "ours"] | None = None  # None: what streams absorb stays in our own store

    def retain(self) -> Retain:
        return Retain(int(self.retain_snapshots_s * 1000), int(self.retain_emissions_s * 1000), self.timing_bytes)

    def service_limits(self) -> Limits:
        return Limits(
            queries=self.max_queries,
            evaluated_s=self.query_timeout_s,
            catch_up_ms=int(self.max_catch_up_s * 1000),
            query_share=self.query_share,
            lag_ms=int(self.max_lag_s * 1000),
            read_s=self.query_timeout_s,
            push_readers=self.readers(),
        )

    def limits(self) -> HttpLimits:
        """The limits of requests. Raises BadArgument if a query could not use its own limit."""
        if self.queries_bytes is not None and self.queries_bytes < self.query_bytes:
            raise BadArgument(
                f"--queries-bytes {self.queries_bytes}: this is for all queries together, and each query may "
                f"use {self.query_bytes} (--query-bytes): raise this limit, or lower that of each query"
            )
        return HttpLimits(
            query_s=self.query_timeout_s,
            query_bytes=self.query_bytes,
            queries_bytes=self.queries_bytes,
            term_bytes=self.term_bytes,
            connections=self.connections,
            head_s=self.head_timeout_s,
            idle_s=self.idle_timeout_s,
            rate_bytes=self.least_rate,
            slow_query_s=self.slow_query_s,
            spark_rows=self.spark_rows or math.inf,
        )

    def budget(self) -> Budget:
        """The budget of registered queries."""
        return Budget(self.evaluation_timeout_s, self.state_bytes, self.term_bytes)

    def log(self) -> LogSettings:
        return LogSettings(self.log_level or of_terminal(), self.log_format)

    def workers(self) -> int:
        """The number of query workers."""
        return int(self.store.startswith("lmdb:")) if self.query_workers is None else self.query_workers

    def readers(self) -> int:
        """The number of processes that read long pushes."""
        return min(os.cpu_count() or 1, _PUSH_READERS_MAX) if self.push_readers is None else self.push_readers

    def access(self, base: str) -> Access:
        """Who may read and write; raises BadArgument if the tokens do not protect what they should."""
        check_token(self)
        names = None
        if self.allowed_hosts or (self.token is None and is_loopback(self.host)):
            names = {*self.allowed_hosts, urlsplit(base).hostname or ""}
        return Access(self.token, base, read_token=self.read_token, hosts=names, cors=self.cors)

    def tls(self) -> dict[str, str]:
        """The settings of TLS for uvicorn; raises BadArgument if the files are no certificate and key."""
        return settings_of(self.tls_cert, self.tls_key)

    def trusted(self) -> ssl.SSLContext | bool:
        """How the certificate of another server of the same store is checked: our own is trusted, too."""
        return trusting(self.tls_cert) if self.tls_cert else True

    def attached(self) -> list[SparqlEndpointSource]:
        """The sources, which are not asked anything yet; raises BadArgument for addresses that are none."""
        return [SparqlEndpointSource(each, self.allowed_urls.timeout_s) for each in self.sources]

    def secrets(self) -> list[str]:
        """What the log must not show."""
        return [self.token or "", self.read_token or "", *(each.authorization or "" for each in self.sources)]

    def spark(self) -> SparkSettings:
        """The settings of Spark; raises BadArgument if it could not be started with them."""
        return SparkSettings(
            master=self.spark_master,
            address=self.spark_address,
            package=self.spark_package,
            epoch_s=self.spark_epoch_s,
            step_timeout_s=self.step_timeout_s,
            shards=self.spark_shards,
            conf=dict(self.spark_conf),
        )


class _Loop(uvloop.Loop):
    """An event loop whose TLS handshakes have the time limit of a request's head: during the handshake there is no
    connection object that could check it."""

    def __init__(self, handshake_s: float) -> None:
        super().__init__()
        self._handshake_s = handshake_s

    async def create_server(self, *arguments: Any, **named: Any) -> Any:
        if named.get("ssl") is not None:
            named["ssl_handshake_timeout"] = self._handshake_s
        return await super().create_server(*arguments, **named)


class Server(uvicorn.Server):
    """uvicorn's server; when it stops it ends subscriptions first, then waits for the other answers."""

    def __init__(
        self,
        app: RilletEndpoint,
        when_ready: Callable[[], None] = lambda: None,
        tls: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",  # `_Loop`, below
                http=app.app_state.connections.protocol(),  # type: ignore[arg-type]  # it is only called
                timeout_keep_alive=int(app.app_state.limits.idle_s) + 1,  # `Connections` ends it before
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,  # any client can write them
                **tls,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        self._app, self._when_ready = app, when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._app.app_state.start()
        self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.app_state.stop()
        await super().shutdown(sockets)
        if (forwarding := self._app.app_state.forwarding) is not None:
            await forwarding.close()
        self._app.app_state.close()

    def run_until_stopped(self, listening: socket.socket) -> None:
        """Runs in the calling thread. If this is not the main thread, signals are the caller's business."""
        with asyncio.Runner(loop_factory=lambda: _Loop(self._app.app_state.limits.head_s)) as runner:
            runner.run(self.serve(sockets=[listening]))


def serve(settings: ServeSettings, announce: Callable[[str], None]) -> None:
    """Returns when a signal has stopped the server; `say` is called with lines for people."""
    check_token(settings)
    spark, workers, tls = settings.spark(), settings.workers(), settings.tls()
    sys.setswitchinterval(_SWITCH_S)
    make_room_for(settings.connections)
    with logging_to(sys.stderr, settings.log(), settings.secrets()):
        _serve(settings, spark, workers, tls, announce)
    announce("stopped")


def _serve(
    settings: ServeSettings, spark: SparkSettings, workers: int, tls: Mapping[str, Any], announce: Callable[[str], None]
) -> None:
    with listen(settings.host, settings.port) as listening, StopSignals() as signals:
        address = _address(settings.host, listening, "https" if tls else "http")
        base = settings.base or address
        with Service.open(
            settings.store,
            base=base if base.endswith("/") else base + "/",
            clock=SystemClock(),
            engine=settings.engine,
            spark=spark,
            batch_ms=settings.batch_ms,
            limits=settings.service_limits(),
            address=address,
            durability=settings.durability,
            cache_bytes=settings.cache_bytes,
            read_ahead=settings.read_ahead,
            retain=settings.retain(),
            allowed_urls=settings.allowed_urls,
            budget=settings.budget(),
            sources=settings.attached(),
            updates=settings.updates,
            absorb=settings.absorb,
            shared=True,
            own_base=settings.base is not None,
        ) as service:
            access = settings.access(service.base)
            app = create_app(
                service, access=access, limits=settings.limits(), query_workers=workers, forwards=True,
                verify=settings.trusted(), settings=settings_in_force(settings),
            )  # fmt: skip

            def ready() -> None:
                fields = {"address": address, "store": settings.store, "engine": settings.engine, "pid": os.getpid()}
                log.info("the server is ready", extra={"fields": {"version": __version__, **fields}})
                announce(banner(settings, address, service.writer_address))

            # These objects stay for ever: the garbage collector, which stops all threads, need not visit them.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*COLLECTED_AFTER)
            server = Server(app, when_ready=ready, tls=tls)
            signals.serving = True
            server.run_until_stopped(listening)
            log.info("the server is stopping")


def check_token(settings: ServeSettings) -> None:
    if not ((settings.token or "") + (settings.read_token or "")).isascii():
        raise BadArgument("a token must be ASCII, because it is sent in a header")
    if not is_loopback(settings.host) and not settings.token:
        raise BadArgument(
            f"--host {settings.host} is reachable from other machines, which could write: set a token "
            "with --token TOKEN or RILLET_TOKEN, or listen on 127.0.0.1"
        )
    if settings.read_token and not settings.token:
        raise BadArgument("--read-token protects reading, but writing would be open to all: give a --token, too")
    if settings.read_token and settings.read_token == settings.token:
        raise BadArgument(
            "--read-token and --token are the same, so every reader could write: give two different tokens"
        )


def make_room_for(connections: int) -> None:
    """Raises the limit of open files: each connection is one, and when none is free, accept fails and a client
    hangs."""
    wanted = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and hard < wanted:
        raise BadArgument(
            f"--connections {connections}: this process may open {hard} files (ulimit -Hn), and needs {wanted}: "
            f"allow more, or give --connections {max(1, hard - _OTHER_FILES)}"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Opens the socket before anything slow starts, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(2048)
        except OSError as error:
            raise RilletError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from None
        yield listening


def _address(host: str, listening: socket.socket, scheme: str) -> str:
    """The URL of the server for others; on all interfaces its host name is used."""
    port = listening.getsockname()[1]
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port}/"


def banner(settings: ServeSettings, address: str, writer: str | None = None) -> str:
    """`writer`: the address of the server that writes to the store, if it is another one ('': it is no server)."""
    guarded = "writing needs the token" if settings.token else "anyone on this machine may write"
    if settings.read_token:
        guarded = "reading and writing need their tokens"
    return (
        f"Rillet {__version__} is ready: store {settings.store}, engine {settings.engine}, {guarded}\n"
        + "".join(f"  source   {each.name} at {each.shown_url}\n" for each in settings.sources)
        + ("" if writer is None else f"  writer   {writer or 'a process that is no server'}; this server reads\n")
        + f"  SPARQL   {address}sparql   (a browser gets the query page)\n"
        f"  streams  {address}streams\n"
        f"  queries  {address}queries\n"
        f"  console  {address}console/\n"
        f"  Ctrl-C stops it"
    )
