"""The server on one page: the store and its size, what is retained and why, Spark with its shards, attached stores, and
the limits of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flask import render_template
from flask.typing import ResponseReturnValue

from endpoint.console.display import number, size
from endpoint.console.pages.subscribers import may_see_addresses
from endpoint.console.room import Room
from endpoint.console.statistics import disk_bytes
from endpoint.limits import HttpLimits
from endpoint.monitoring.settings_in_force import SettingInForce
from hbase_store.errors import StoreError
from stream_ext.errors import RilletError
from stream_ext.query_memory import usual_bytes

#: For how long the page waits for HBase to say where its regions are.
_PATIENCE_S = 2.0


def page(room: Room) -> ResponseReturnValue:
    status = room.service.status()
    spark = dict(status["spark"] or {})
    shards, ui = spark.pop("shards", []), spark.pop("ui", None)
    return render_template(
        "console/server.html",
        status=status,
        retention=status["retention"],
        spark=list(_facts(spark)),
        shards=shards,
        ui=ui if ui is not None and ui.startswith(("http://", "https://")) else None,
        disk=disk_bytes(room.service.store.url),
        regions=_regions(room),
        sources=room.service.sources_status(),
        limits=_limits(room.limits),
        settings=[(each, _value(each)) for each in room.settings] if may_see_addresses(room) else None,
    )


def _regions(room: Room) -> list[tuple[str, int, str]] | str | None:
    """Of each table on HBase: its regions, and where they are. A text: why that is not known; None: not on HBase."""
    if room.regions is None:
        return None
    try:
        found = room.regions.wait(_PATIENCE_S).value
    except (StoreError, RilletError) as error:
        return str(error)
    return [
        (table, sum(on.values()), ", ".join(f"{server}: {count}" for server, count in sorted(on.items())))
        for table, on in found.items()
    ]


def _value(setting: SettingInForce) -> str:
    value = setting.value
    if value is None or value == () or value == "":
        return "not set"
    if setting.unit == "bytes":
        return size(value)
    if setting.unit:
        return f"{value:g} {setting.unit}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _limits(limits: HttpLimits) -> dict[str, str]:
    return {
        "Time of a query or update": f"{limits.query_s:g} s",
        "Memory of a query": size(limits.query_bytes),
        "Memory of all queries": size(limits.queries_bytes or usual_bytes(limits.query_bytes)),
        "Rows of an answer": number(limits.rows),
        "Length of a query or update": size(limits.text_bytes),
        "Data of a request": f"{size(limits.body_bytes)}, unpacked {size(limits.inflated_bytes)}",
        "A term that an expression makes": size(limits.term_bytes),
        "Open connections": number(limits.connections),
        "Logged as a slow query after": f"{limits.slow_query_s:g} s",
    }


def _facts(status: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Facts within facts, one after the other: `round trip ms p50`, `3`."""
    for name, value in status.items():
        label = f"{above}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _facts(value, f"{label} ")
        else:
            yield label, "none" if value in (None, "", []) else str(value)
