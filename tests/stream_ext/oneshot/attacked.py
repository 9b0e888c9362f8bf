"""A process that is attacked: `python -m tests.stream_ext.oneshot.attacked FOLDER`. One line of JSON tells of each
attack how the query ended, and how much memory it took at most.

Its address space is bounded, so that an attack that succeeds ends here, and not the machine."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from stream_ext.clock import ManualClock
from stream_ext.evaluation_budget import Control
from stream_ext.service.service import Service

EX = "http://ex/"
SUBJECTS = 4000
BUDGET = 64 << 20
_ADDRESSES = 2 << 30  # beyond what imports and the store take
_LONG = "a" * 1000


def chained(step: str, times: int = 24) -> str:
    """Each variable is made of the one before it."""
    binds = " ".join(f"BIND({step.replace('?v', f'?v{i}')} AS ?v{i + 1})" for i in range(times))
    return f"SELECT (STRLEN(STR(?v{times})) AS ?n) {{ ?q <{EX}one> ?v0 {binds} }}"


def of_each(pattern: str, what: str = "(COUNT(*) AS ?n)", end: str = "") -> str:
    return f"SELECT {what} {{ {pattern} }} {end}"


TERMS = {
    "REPLACE in REPLACE": chained(f'REPLACE(?v, "a", "{_LONG}")'),
    "REPLACE by itself": chained('REPLACE(?v, "a", ?v)'),
    "REPLACE by its groups": chained(f'REPLACE(?v, "(.+)", "{"$1" * 400}")'),
    "CONCAT": chained("CONCAT(?v, ?v)"),
    "CONCAT caught": chained("COALESCE(CONCAT(?v, ?v), IF(BOUND(?v), ?v, ?v), ?v)"),
    "UCASE": chained("UCASE(CONCAT(?v, ?v))"),
    "ENCODE_FOR_URI": chained('ENCODE_FOR_URI(CONCAT(?v, "%%%", ?v))'),
    "STRDT": chained("STRDT(CONCAT(STR(?v), STR(?v)), <http://ex/type>)"),
    "IRI": chained('IRI(CONCAT("http://ex/", STR(?v), STR(?v)))'),
    "constants": f'SELECT (STRLEN(REPLACE(REPLACE("{_LONG}", "a", "{_LONG}"), "a", "{_LONG}")) AS ?n) {{}}',
    "GROUP_CONCAT": of_each(f"?s <{EX}n> ?x . ?t <{EX}n> ?y", f'(STRLEN(GROUP_CONCAT(?x; separator="{_LONG}")) AS ?n)'),
}
ROWS = {
    "long texts of many rows": of_each(f'?s <{EX}n> ?x BIND(CONCAT(STR(?x), "{_LONG * 50}") AS ?c)', "?c"),
    "parts of one long text": of_each(
        f'?s <{EX}n> ?x BIND(SUBSTR("{_LONG * 50}", ?x) AS ?c)', "(SUM(STRLEN(?c)) AS ?n)"
    ),
    "digests of long texts": of_each(f'?s <{EX}n> ?x BIND(SHA512(CONCAT(STR(?x), "{_LONG * 50}")) AS ?c)'),
    "an order of long texts": of_each(
        f'?s <{EX}n> ?x BIND(CONCAT(STR(?x), "{_LONG * 50}") AS ?c)', "?x", "ORDER BY ?c LIMIT 1"
    ),
    "a product": of_each(f"?s <{EX}n> ?x . ?t <{EX}m> ?y FILTER(?x < ?y)"),
    "a hub": of_each(f"?s <{EX}h> ?x . ?t <{EX}h> ?x FILTER(?s != ?t)"),
    "a hub of any predicate": of_each("?s ?p ?x . ?t ?q ?x FILTER(?s != ?t)"),
    "OPTIONAL": of_each(f"?s <{EX}n> ?x OPTIONAL {{ ?t <{EX}m> ?y FILTER(?x + 1 < ?y) }}"),
    "FILTER EXISTS": of_each(f"?s <{EX}n> ?x FILTER EXISTS {{ ?t <{EX}m> ?y . ?u <{EX}n> ?z FILTER(?y + ?z = ?x) }}"),
    "VALUES": of_each(
        " ".join(f"VALUES ?v{n} {{ {' '.join(map(str, range(600)))} }}" for n in range(3)) + "FILTER(?v0 = ?v1 + ?v2)"
    ),
    "a path around": of_each(f"?s <{EX}k>* ?t"),
    "a path over a hub": of_each(f"?s <{EX}h>/^<{EX}h>/<{EX}h>/^<{EX}h> ?t"),
    "a sub-SELECT": of_each(
        f"{{ SELECT ?x ?y {{ ?s <{EX}n> ?x . ?t <{EX}m> ?y }} ORDER BY ?y }} {{ SELECT ?x {{ ?s <{EX}n> ?x }} }}"
    ),
    "CONSTRUCT": "CONSTRUCT { "
    + " ".join(f"?s <{EX}c{n}> ?x . [] <{EX}d{n}> ?x ." for n in range(300))
    + f" }} {{ ?s <{EX}n> ?x }}",
    "DESCRIBE": f"DESCRIBE ?s ?t {{ ?s <{EX}n> ?x . ?t <{EX}m> ?y }}",
    "INSERT of a product": f"INSERT {{ ?s <{EX}c> ?t }} WHERE {{ ?s <{EX}n> ?x . ?t <{EX}m> ?y }}",
    "INSERT of many quads": "INSERT { "
    + " ".join(f"?s <{EX}c{n}> ?x . [] <{EX}d{n}> ?x ." for n in range(300))
    + f" }} WHERE {{ ?s <{EX}n> ?x }}",
}
ATTACKS = TERMS | ROWS


def fill(service: Service) -> None:
    lines = [f'<{EX}q> <{EX}one> "aaaaaaaa" .']
    for i in range(SUBJECTS):
        s = f"<{EX}s{i}>"
        lines.append(
            f"{s} <{EX}n> {i + 1} ; <{EX}m> {i + 1} ; <{EX}h> <{EX}hub> ; <{EX}k> <{EX}s{(i + 1) % SUBJECTS}> ."
        )
    service.update(f"INSERT DATA {{ {' '.join(lines)} }}")


def attack(service: Service, text: str) -> tuple[str, str]:
    """How it ended: the kind of error, and its message."""
    control = Control(60.0, BUDGET)
    try:
        if text.startswith("INSERT"):
            service.update(text, control=control)
        else:
            service.query(text, control=control)
    except Exception as error:  # noqa: BLE001 -- whatever it is: that is what is asked
        return type(error).__name__, str(error)
    return "", ""


def peak_kb() -> int:
    status = Path("/proc/self/status").read_text().split("VmHWM:")[1]
    return int(status.split()[0])


def main() -> None:
    with Service.open(
        f"lmdb:{sys.argv[1]}/store", base="http://rillet/", clock=ManualClock(1_000_000), engine="inline", batch_ms=0
    ) as service:
        fill(service)
        service.query(f"SELECT * {{ <{EX}s1> <{EX}k>/<{EX}k> ?t . ?t ?p ?o }}")  # what is compiled and read once
        addresses = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (addresses + _ADDRESSES, resource.RLIM_INFINITY))
        for name, text in ATTACKS.items():
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = peak_kb()
            kind, message = attack(service, text)
            print(json.dumps([name, kind, message, (peak_kb() - before) << 10]), flush=True)


if __name__ == "__main__":
    main()
