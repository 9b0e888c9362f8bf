"""`rillet top QUERY`: the operators of a registered query while it runs, with rows, time and memory of each.

operator                    rows  rows each  ms each  time %    state
group by ?district            94       8.55    0.475      11  114,800
join                         220      20.00    0.149       3   85,100"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from endpoint.cli import terminal

if TYPE_CHECKING:
    from endpoint.client import Client

COLUMNS = ("operator", "rows", "rows each", "ms each", "time %", "state")


def lines_of(client: Client, query: str, is_live: bool) -> Iterator[str]:
    """A table for each network of the query: for a terminal aligned, with a head; otherwise lines with tabs."""
    found = client.query_operators(query)
    prefixes = terminal.prefixes_of(client.query_status(query)["text"]) if is_live else {}
    if found["why"] is not None:
        yield f"nothing is measured: {found['why']}"
    for network in found["networks"]:
        rows = list(_rows(network, prefixes))
        if not is_live:
            yield from ("\t".join(row) for row in [list(COLUMNS), *rows])
            continue
        shared = f", shared by {found['shared_by']} queries" if found["shared_by"] > 1 else ""
        evaluations, took_ms = network["evaluations"], network["ms"] / max(1, network["evaluations"])
        yield f"{found['query']}, evaluated {network['evaluated']}{shared}"
        yield f"{evaluations:,} evaluations in {network['seconds']:.0f} s, {took_ms:.2f} ms each in its operators"
        yield ""
        yield from terminal.table(COLUMNS, rows)


def _rows(network: Mapping[str, Any], prefixes: Mapping[str, str]) -> Iterator[list[str]]:
    evaluations, ms = max(1, network["evaluations"]), network["ms"] or 1.0
    for each in network["operators"]:
        text = terminal.shortened(each["operator"], prefixes)
        if each.get("shared_with"):
            text += f" with {', '.join(each['shared_with'])}"
        if "rows" not in each:
            yield [text, *[""] * (len(COLUMNS) - 1)]
            continue
        state = "" if each["state_bytes"] is None else f"{each['state_bytes']:,}"
        yield [
            text,
            f"{each['rows']:,}",
            f"{each['rows'] / evaluations:.2f}",
            f"{each['ms'] / evaluations:.3f}",
            f"{100 * each['ms'] / ms:.0f}",
            state,
        ]
