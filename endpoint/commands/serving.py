"""`rillet serve`."""

from __future__ import annotations

import argparse

from endpoint.commands.flags import (
    Commands,
    OneOf,
    Several,
    UsageError,
    add_command,
    add_setting,
    add_store,
    at_least_one,
    base_iri,
    hosts,
    origins,
    seconds,
    size,
    some_seconds,
    urls,
    whole,
)

_EXAMPLES = """\
  rillet serve
  rillet serve --store lmdb:/var/lib/rillet --port 8080
  rillet serve --store hbase://127.0.0.1:9090/rillet --engine spark --spark-master 'local[4]'
  RILLET_TOKEN=secret rillet serve --host 0.0.0.0     others may read; who has the token may write
  rillet serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem    with RILLET_TOKEN and RILLET_READ_TOKEN"""

_ENGINE = OneOf("spark", "inline", not_built=["auto"])


def add(commands: Commands) -> None:
    parser = add_command(commands, "serve", serve, "answer over HTTP, and run the registered queries", _EXAMPLES)
    add_store(parser)
    add_setting(parser, "--host", "the address to listen on", "127.0.0.1")
    add_setting(parser, "--port", "the port to listen on; 0 takes a free one", "8000", type=whole)
    add_setting(
        parser,
        "--base",
        "what relative IRIs resolve against, if not the URL it listens on",
        type=base_iri,
        metavar="IRI",
    )
    add_setting(parser, "--engine", "what runs registered queries: spark or inline", "spark", type=_ENGINE)
    add_setting(parser, "--spark-master", "where Spark runs: local[N] or spark://...", "local[*]", metavar="URL")
    add_setting(parser, "--spark-epoch", "length of an epoch; 0: micro-batches", "30s", type=seconds, metavar="TIME")
    hangs = "after which a Spark worker without a sign of life is killed, and what it was stepping tried apart"
    add_setting(parser, "--step-timeout", hangs, "10s", type=seconds, metavar="TIME")
    add_setting(parser, "--batch-ms", "the longest that a pushed element waits for company", "100", type=whole)
    survives = "what a push survives: process (our crash) or power"
    add_setting(parser, "--durability", survives, "process", type=OneOf("process", "power"))
    asked = "for how long an older snapshot may be asked for"
    add_setting(parser, "--retain-snapshots", asked, "5m", type=seconds, metavar="TIME")
    add_setting(parser, "--retain-emissions", "for how long emissions are kept", "1h", type=seconds, metavar="TIME")
    taken = "what stream elements that are not absorbed may take in the store"
    add_setting(parser, "--timing-bytes", taken, "1G", type=size, metavar="SIZE")
    behind = "when registered queries are further behind than this, pushes to their streams get 429"
    add_setting(parser, "--max-lag", behind, "10s", type=seconds, metavar="TIME")
    behind = "a query that is behind the others for longer is parked, for more fell due at once than it got through"
    add_setting(parser, "--max-catch-up", behind, "10m", type=seconds, metavar="TIME")
    many = "how many queries may be registered at a time"
    add_setting(parser, "--max-queries", many, "100000", type=whole, metavar="N")
    longest = "the longest that a query or update may take"
    add_setting(parser, "--query-timeout", longest, "5m", type=seconds, metavar="TIME")
    most = "the most that is alive in a query at a time"
    add_setting(parser, "--query-bytes", most, "2G", type=size, metavar="SIZE")
    together = "the most that all queries have together; by default half of the machine's memory"
    add_setting(parser, "--queries-bytes", together, type=size, metavar="SIZE")
    add_setting(parser, "--term-bytes", "the longest term that an expression makes", "4M", type=size, metavar="SIZE")
    longest = "the longest that one evaluation of a registered query may take"
    add_setting(parser, "--evaluation-timeout", longest, "1m", type=seconds, metavar="TIME")
    most = "the most that a registered query may remember, and make at an evaluation"
    add_setting(parser, "--state-bytes", most, "2G", type=size, metavar="SIZE")
    beside = "processes beside the server that answer long queries; by default 1 for an lmdb: store"
    add_setting(parser, "--query-workers", beside, type=whole, metavar="N")
    many = "how many connections may be open at a time"
    add_setting(parser, "--connections", many, "4096", type=at_least_one, metavar="N")
    longest = "the longest that the head of a request may take to come"
    add_setting(parser, "--head-timeout", longest, "10s", type=some_seconds, metavar="TIME")
    longest = "after which a connection without a request is closed"
    add_setting(parser, "--idle-timeout", longest, "60s", type=some_seconds, metavar="TIME")
    least = "the least that a client sends of a body, or reads of an answer, in a second"
    add_setting(parser, "--least-rate", least, "4K", type=size, metavar="SIZE")
    add_setting(parser, "--allow-load", "URLs that LOAD may fetch; without it none", type=urls, metavar="'URL ...'")
    asked = "endpoints that SERVICE may ask; without it none"
    add_setting(parser, "--allow-service", asked, type=urls, metavar="'URL ...'")
    most = "the most that LOAD takes from one URL, or SERVICE from one answer"
    add_setting(parser, "--fetch-bytes", most, "64M", type=size, metavar="SIZE")
    longest = "the longest that LOAD and SERVICE wait for one answer"
    add_setting(parser, "--fetch-timeout", longest, "30s", type=seconds, metavar="TIME")
    longest = "the longest that one evaluation of a registered query waits for SERVICE"
    add_setting(parser, "--service-timeout", longest, "5s", type=seconds, metavar="TIME")
    oldest = "after which registered queries ask a SERVICE again; 0: in each snapshot"
    add_setting(parser, "--service-refresh", oldest, "60s", type=seconds, metavar="TIME")
    least = "what is logged to standard error: debug, info, warning or error; by default info, on a terminal warning"
    add_setting(parser, "--log-level", least, type=OneOf("debug", "info", "warning", "error"), metavar="LEVEL")
    add_setting(parser, "--log-format", "how: text or json, a line for each event", "text", type=OneOf("text", "json"))
    slow = "queries and updates that take this long are logged; 0: none"
    add_setting(parser, "--slow-query", slow, "10s", type=seconds, metavar="TIME")
    add_setting(parser, "--token", "what those who write must send; needed where others can reach us")
    closes = "what those who read must send, and may not write with; without it reading is open"
    add_setting(parser, "--read-token", closes, metavar="TOKEN")
    named = "names of this server besides localhost and that of --base; others get 403"
    add_setting(parser, "--allowed-host", named, type=hosts, action=Several, metavar="NAME")
    let_in = "origins whose web pages may read, and write with the token; without it none"
    add_setting(parser, "--cors", let_in, type=origins, action=Several, metavar="ORIGIN")
    add_setting(parser, "--tls-cert", "the certificate to speak HTTPS with, and its chain: a PEM file", metavar="FILE")
    add_setting(parser, "--tls-key", "the key of that certificate: a PEM file", metavar="FILE")


def serve(arguments: argparse.Namespace) -> None:
    if arguments.port > 65_535:
        raise UsageError(f"--port {arguments.port}: ports end at 65535")
    from endpoint.serve import ServeSettings, Stopped
    from endpoint.serve import serve as run
    from stream_ext.errors import BadArgument
    from stream_ext.outside import Outside

    settings = ServeSettings(
        store=arguments.store,
        host=arguments.host,
        port=arguments.port,
        base=arguments.base,
        engine=arguments.engine,
        spark_master=arguments.spark_master,
        spark_epoch_s=arguments.spark_epoch,
        step_timeout_s=arguments.step_timeout,
        batch_ms=arguments.batch_ms,
        durability=arguments.durability,
        retain_snapshots_s=arguments.retain_snapshots,
        retain_emissions_s=arguments.retain_emissions,
        timing_bytes=arguments.timing_bytes,
        max_lag_s=arguments.max_lag,
        max_catch_up_s=arguments.max_catch_up,
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
        slow_query_s=arguments.slow_query,
        log_level=arguments.log_level,
        log_format=arguments.log_format,
        token=arguments.token or None,
        read_token=arguments.read_token or None,
        allowed_hosts=arguments.allowed_host or (),
        cors=arguments.cors or (),
        tls_cert=arguments.tls_cert or None,
        tls_key=arguments.tls_key or None,
        outside=Outside(
            load=arguments.allow_load or (),
            service=arguments.allow_service or (),
            bytes_max=arguments.fetch_bytes,
            timeout_s=arguments.fetch_timeout,
            refresh_s=arguments.service_refresh,
            standing_s=arguments.service_timeout,
        ),
    )
    try:
        settings.spark()
        settings.workers()
        settings.tls()
        settings.limits()
    except BadArgument as error:
        raise UsageError(str(error)) from None
    try:
        run(settings, say=lambda line: print(line, flush=True))
    except Stopped:
        print("stopped before it was ready", flush=True)
