"""`rillet serve`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from endpoint.cli import attaching
from endpoint.cli.flags import (
    Commands,
    Group,
    OneOf,
    Several,
    UsageError,
    add_command,
    add_setting,
    add_store,
    assignments,
    at_least_one,
    base_iri,
    hosts,
    origins,
    percent,
    seconds,
    size,
    some_seconds,
    urls,
    whole,
)

if TYPE_CHECKING:
    from endpoint.serve import ServeSettings

_EXAMPLES = """\
  rillet serve
  rillet serve --store lmdb:/var/lib/rillet --port 8080
  rillet serve --attach http://127.0.0.1:3030/ds/sparql          streams over the data of a Fuseki
  rillet serve --store hbase://127.0.0.1:9090/rillet --engine spark --spark-master 'local[4]'
  RILLET_TOKEN=secret rillet serve --host 0.0.0.0     everybody may read, writing needs the token
  RILLET_TOKEN=secret RILLET_READ_TOKEN=look rillet serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem"""

_ENGINE = OneOf("spark", "inline", not_built=["auto"])


def add(commands: Commands) -> None:
    what = "start a server: SPARQL over HTTP, streams and registered queries"
    parser = add_command(commands, "serve", serve, what, _EXAMPLES)
    _add_address(parser.add_argument_group("store and address"))
    _add_runner(parser.add_argument_group("where registered queries run"))
    _add_streams(parser.add_argument_group("streams and registered queries"))
    _add_limits(parser.add_argument_group("limits of queries"))
    _add_connections(parser.add_argument_group("connections"))
    _add_outgoing(parser.add_argument_group("outgoing requests: LOAD and SERVICE"))
    attaching.add(parser.add_argument_group("attached stores"))
    _add_log(parser.add_argument_group("log"))
    _add_access(parser.add_argument_group("access and HTTPS"))


def _add_address(group: Group) -> None:
    add_store(group)
    add_setting(group, "--host", "the address to listen on", "127.0.0.1")
    add_setting(group, "--port", "the port to listen on; 0: any free port", "8000", type=whole)
    base = "the base of relative IRIs; if not given, the URL that the server listens on"
    add_setting(group, "--base", base, type=base_iri, metavar="IRI")


def _add_runner(group: Group) -> None:
    add_setting(group, "--engine", "the runner of registered queries: spark or inline", "spark", type=_ENGINE)
    add_setting(
        group,
        "--spark-master",
        "where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://...",
        "local[*]",
        metavar="URL",
    )
    reached = "where tasks on other machines reach this server: HOST or HOST:PORT"
    add_setting(group, "--spark-address", reached, "", metavar="HOST")
    packed = "the environment that tasks run in, from rillet package; if not given, the same path on all machines"
    add_setting(group, "--spark-package", packed, "", metavar="FILE")
    add_setting(group, "--spark-epoch", "length of an epoch; 0: micro-batches", "30s", type=seconds, metavar="TIME")
    _add_spark(group)
    hangs = "kill a Spark worker that shows no progress for this long"
    add_setting(group, "--step-timeout", hangs, "10s", type=seconds, metavar="TIME")


def _add_spark(group: Group) -> None:
    shards = "tasks of Spark that share the queries; 0: one for each core, at most 8"
    add_setting(group, "--spark-shards", shards, "0", type=whole, metavar="N")
    long = "a query that is estimated to make more rows is divided among tasks of Spark; 0: only with engine=spark"
    add_setting(group, "--spark-rows", long, "0", type=whole, metavar="N")
    add_setting(group, "--spark-memory", "the memory of Spark's driver", "512M", type=size, metavar="SIZE")
    conf = "a setting of Spark itself, for example spark.executor.memory=2g; may be given several times"
    add_setting(group, "--spark-conf", conf, type=assignments, action=Several, metavar="NAME=VALUE")
    shown = "whether Spark's own web pages are served on 127.0.0.1: on or off"
    add_setting(group, "--spark-ui", shown, "off", type=OneOf("on", "off"))
    least = "the lowest level that Spark logs: off, error, warn, info or debug"
    add_setting(group, "--spark-log-level", least, "off", type=OneOf("off", "error", "warn", "info", "debug"))


def _spark_conf(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of Spark itself; those that are given by name take precedence."""
    return {
        "spark.driver.memory": f"{arguments.spark_memory >> 20}m",
        "spark.ui.enabled": str(arguments.spark_ui == "on").lower(),
        "spark.log.level": arguments.spark_log_level.upper(),
        **dict(arguments.spark_conf or ()),
    }


def _add_streams(group: Group) -> None:
    waits = "the longest that a push waits for other pushes to share its snapshot, in milliseconds"
    add_setting(group, "--batch-ms", waits, "100", type=whole, metavar="N")
    readers = "processes that read long pushes; default one for each core, at most 4; 0: the server reads them"
    add_setting(group, "--push-readers", readers, type=whole, metavar="N")
    survives = "what an acknowledged push survives: process (a crash of the server) or power (a power failure)"
    add_setting(group, "--durability", survives, "process", type=OneOf("process", "power"))
    retained = "how long old snapshots can be queried"
    add_setting(group, "--retain-snapshots", retained, "5m", type=seconds, metavar="TIME")
    add_setting(group, "--retain-emissions", "how long emissions are retained", "1h", type=seconds, metavar="TIME")
    room = "the most space for stream elements that the store does not absorb"
    add_setting(group, "--timing-bytes", room, "1G", type=size, metavar="SIZE")
    behind = "reject pushes (429) while the queries over their stream are further behind than this"
    add_setting(group, "--max-lag", behind, "10s", type=seconds, metavar="TIME")
    behind = "park a query that is behind the other queries for longer than this"
    add_setting(group, "--max-catch-up", behind, "10m", type=seconds, metavar="TIME")
    part = "slow queries that take more than this part of the evaluation time while pushes wait; 100%: never"
    add_setting(group, "--query-share", part, "25%", type=percent, metavar="PART")
    add_setting(group, "--max-queries", "the most registered queries", "100000", type=whole, metavar="N")


def _add_limits(group: Group) -> None:
    longest = "the longest that a query or update may take"
    add_setting(group, "--query-timeout", longest, "5m", type=seconds, metavar="TIME")
    most = "the most memory that a query or update may use at a time"
    add_setting(group, "--query-bytes", most, "2G", type=size, metavar="SIZE")
    together = "the most memory of all queries and updates together; default half of the machine's memory"
    add_setting(group, "--queries-bytes", together, type=size, metavar="SIZE")
    cached = "the most memory for rows of the store that were read, also of each query worker; half as much for texts"
    add_setting(group, "--cache-bytes", cached, "512M", type=size, metavar="SIZE")
    ahead = "how much of a store on HBase is read into memory at the start, the smallest columns first; 0: nothing"
    add_setting(group, "--read-ahead", ahead, "64M", type=size, metavar="SIZE")
    longest = "the longest term that an expression may create"
    add_setting(group, "--term-bytes", longest, "4M", type=size, metavar="SIZE")
    longest = "the longest that one evaluation of a registered query may take"
    add_setting(group, "--evaluation-timeout", longest, "1m", type=seconds, metavar="TIME")
    most = "the most memory of a registered query: its state and one evaluation"
    add_setting(group, "--state-bytes", most, "2G", type=size, metavar="SIZE")
    workers = "processes that evaluate long queries; default 1 for an lmdb: store, 0 for HBase"
    add_setting(group, "--query-workers", workers, type=whole, metavar="N")


def _add_connections(group: Group) -> None:
    add_setting(group, "--connections", "the most open connections", "4096", type=at_least_one, metavar="N")
    longest = "the longest that the head of a request may take to arrive"
    add_setting(group, "--head-timeout", longest, "10s", type=some_seconds, metavar="TIME")
    longest = "close a connection that has no request for this long"
    add_setting(group, "--idle-timeout", longest, "60s", type=some_seconds, metavar="TIME")
    least = "the least bytes a second that a client must send of a body, or read of a response"
    add_setting(group, "--least-rate", least, "4K", type=size, metavar="SIZE")


def _add_outgoing(group: Group) -> None:
    allowed = "URLs that LOAD may fetch; not given: none"
    add_setting(group, "--allow-load", allowed, type=urls, metavar="'URL ...'")
    allowed = "endpoints that SERVICE may query; not given: none"
    add_setting(group, "--allow-service", allowed, type=urls, metavar="'URL ...'")
    most = "the largest document of LOAD, or response of SERVICE"
    add_setting(group, "--fetch-bytes", most, "64M", type=size, metavar="SIZE")
    longest = "the longest that LOAD and SERVICE wait for one response"
    add_setting(group, "--fetch-timeout", longest, "30s", type=seconds, metavar="TIME")
    longest = "the longest that one evaluation of a registered query waits for SERVICE"
    add_setting(group, "--service-timeout", longest, "5s", type=seconds, metavar="TIME")
    oldest = "how long registered queries reuse responses of SERVICE; 0: for one snapshot"
    add_setting(group, "--service-refresh", oldest, "60s", type=seconds, metavar="TIME")


def _add_log(group: Group) -> None:
    least = "the lowest level that is logged: debug, info, warning or error; default info, on a terminal warning"
    add_setting(group, "--log-level", least, type=OneOf("debug", "info", "warning", "error"), metavar="LEVEL")
    forms = "the format of the log: text or json"
    add_setting(group, "--log-format", forms, "text", type=OneOf("text", "json"), metavar="FORMAT")
    slow = "log queries and updates that take at least this long; 0: none"
    add_setting(group, "--slow-query", slow, "10s", type=seconds, metavar="TIME")


def _add_access(group: Group) -> None:
    add_setting(group, "--token", "the token for writing; required unless --host is a loopback address")
    reading = "the token for reading; not given: everybody may read"
    add_setting(group, "--read-token", reading, metavar="TOKEN")
    names = "host names of this server besides localhost and the host of --base; requests for others get 403"
    add_setting(group, "--allowed-host", names, type=hosts, action=Several, metavar="NAME")
    allowed = "origins whose web pages may read, and write with the token; not given: none"
    add_setting(group, "--cors", allowed, type=origins, action=Several, metavar="ORIGIN")
    add_setting(group, "--tls-cert", "serve HTTPS with this certificate and its chain: a PEM file", metavar="FILE")
    add_setting(group, "--tls-key", "the key of that certificate: a PEM file", metavar="FILE")


def serve(arguments: argparse.Namespace) -> None:
    if arguments.port > 65_535:
        raise UsageError(f"--port {arguments.port}: the greatest port is 65535")
    from endpoint.http.stop_signals import Stopped
    from endpoint.serve import serve as run

    settings = _settings(arguments)
    _check(settings)
    if arguments.settings_file is not None:
        print(f"settings of {arguments.settings_file}", flush=True)
    try:
        run(settings, announce=lambda line: print(line, flush=True))
    except Stopped:
        print("stopped before it was ready", flush=True)


def _check(settings: ServeSettings) -> None:
    """What can be known to be wrong before the store is opened. Raises UsageError."""
    from stream_ext.errors import BadArgument

    try:
        settings.spark()
        settings.workers()
        settings.tls()
        settings.limits()
        settings.attached()
    except BadArgument as error:
        raise UsageError(str(error)) from None


def _settings(arguments: argparse.Namespace) -> ServeSettings:
    """A table: each setting, and the flag that it comes from."""
    from endpoint.serve import ServeSettings
    from stream_ext.remote.allowed_urls import AllowedUrls

    return ServeSettings(
        store=arguments.store,
        host=arguments.host,
        port=arguments.port,
        base=arguments.base,
        engine=arguments.engine,
        spark_master=arguments.spark_master,
        spark_address=arguments.spark_address,
        spark_package=arguments.spark_package,
        spark_epoch_s=arguments.spark_epoch,
        spark_shards=arguments.spark_shards,
        spark_rows=arguments.spark_rows,
        spark_conf=_spark_conf(arguments),
        step_timeout_s=arguments.step_timeout,
        batch_ms=arguments.batch_ms,
        durability=arguments.durability,
        cache_bytes=arguments.cache_bytes,
        read_ahead=arguments.read_ahead,
        retain_snapshots_s=arguments.retain_snapshots,
        retain_emissions_s=arguments.retain_emissions,
        timing_bytes=arguments.timing_bytes,
        max_lag_s=arguments.max_lag,
        max_catch_up_s=arguments.max_catch_up,
        query_share=arguments.query_share,
        max_queries=arguments.max_queries,
        query_timeout_s=arguments.query_timeout,
        query_bytes=arguments.query_bytes,
        queries_bytes=arguments.queries_bytes,
        term_bytes=arguments.term_bytes,
        evaluation_timeout_s=arguments.evaluation_timeout,
        state_bytes=arguments.state_bytes,
        connections=arguments.connections,
        head_timeout_s=arguments.head_timeout,
        idle_timeout_s=arguments.idle_timeout,
        least_rate=arguments.least_rate,
        query_workers=arguments.query_workers,
        push_readers=arguments.push_readers,
        slow_query_s=arguments.slow_query,
        log_level=arguments.log_level,
        log_format=arguments.log_format,
        token=arguments.token or None,
        read_token=arguments.read_token or None,
        allowed_hosts=arguments.allowed_host or (),
        cors=arguments.cors or (),
        tls_cert=arguments.tls_cert or None,
        tls_key=arguments.tls_key or None,
        allowed_urls=AllowedUrls(
            load=arguments.allow_load or (),
            service=arguments.allow_service or (),
            bytes_max=arguments.fetch_bytes,
            timeout_s=arguments.fetch_timeout,
            refresh_s=arguments.service_refresh,
            service_timeout_s=arguments.service_timeout,
        ),
        sources=attaching.settings(arguments),
        updates=arguments.updates,
        absorb=arguments.absorb,
    )
