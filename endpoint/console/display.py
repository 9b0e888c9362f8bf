"""Terms, numbers and times as a page shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from hbase_store.layout.terms import parse_term
from stream_ext.times import date_of_ms

#: Prefixes that people know without a declaration.
WELL_KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "prov": "http://www.w3.org/ns/prov#",
}

_PREFIX = re.compile(r"\bPREFIX\s+([\w.-]*):\s*<([^<>\s]*)>", re.IGNORECASE)
_BROWSER = re.compile(r"(Edg|Firefox|Chrome|Safari)/")
_DIGITS = re.compile(r"^([^.eE]*\.0*(?!0)\d{6})\d+$")
_LOCAL = re.compile(r"[A-Za-z0-9_][\w.-]*|")
_NUMBERS = frozenset(WELL_KNOWN["xsd"] + name for name in ("integer", "decimal", "double", "float", "int", "long"))
#: A page searches these for each term that it shows.
_PREFIXES_MAX = 200
#: Longer terms are cut on a page; the endpoint has them whole.
_CHARACTERS_MAX = 20_000
#: From here on a number is a time after 2001, and is shown as one.
_MOMENT_MS = 1_000_000_000_000
_MOMENT_MS_MAX = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Shown:
    kind: str  # iri, literal, number, blank
    text: str
    full: str  # canonical N-Triples
    note: str = ""  # a language or a datatype

    @property
    def length(self) -> int:
        return len(self.text) + len(self.full) + len(self.note)

    @property
    def is_link(self) -> bool:
        """Only IRIs that are safe as a link: an IRI may begin with `javascript:`."""
        whole = self.full.endswith(">")
        return whole and self.kind == "iri" and self.full[1:].lower().startswith(("http://", "https://"))


def prefixes_of(text: str) -> dict[str, str]:
    """The prefixes that a text declares (the first ones of very many), and the well-known ones."""
    declared = [(found[1], found[2]) for found in islice(_PREFIX.finditer(text), _PREFIXES_MAX)]
    return {**WELL_KNOWN, **dict(declared)}


def shown(term: bytes, prefixes: Mapping[str, str] = WELL_KNOWN) -> Shown:
    parsed, full = parse_term(term), term.decode()
    if len(full) > _CHARACTERS_MAX:
        return Shown(parsed.kind, parsed.value[:_CHARACTERS_MAX] + "…", full[:_CHARACTERS_MAX] + "…")
    if parsed.kind == "blank":
        return Shown("blank", full, full)
    if parsed.kind == "iri":
        return Shown("iri", short(parsed.value, prefixes), full)
    if parsed.language:
        return Shown("literal", parsed.value, full, f"@{parsed.language}")
    if parsed.datatype in _NUMBERS:
        return Shown("number", brief_number(parsed.value), full, short(parsed.datatype, prefixes))
    return Shown("literal", parsed.value, full, "" if parsed.datatype is None else short(parsed.datatype, prefixes))


def brief_number(text: str) -> str:
    """A number with at most six digits after its point: a mean may have 50."""
    return _DIGITS.sub(r"\1…", text)


def short(iri: str, prefixes: Mapping[str, str]) -> str:
    """The IRI with the prefix of the longest matching namespace, otherwise in angle brackets."""
    fitting = [(len(space), name) for name, space in prefixes.items() if space and iri.startswith(space)]
    if fitting:
        length, name = max(fitting)
        if _LOCAL.fullmatch(iri[length:]):
            return f"{name}:{iri[length:]}"
    return f"<{iri}>"


def number(value: int) -> str:
    """The number with a narrow space between thousands, which has no other meaning in any country."""
    return f"{value:,}".replace(",", "\u202f")


def size(count: int) -> str:
    """Bytes in the unit that leaves a number below 1024."""
    value, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if value >= 100 or units[0] == "bytes" else f"{value:.1f} {units[0]}"


def moment(time_ms: int | None) -> str:
    """A time as a date; a small time is abstract and stays a number."""
    if time_ms is None:
        return "never"
    if not _MOMENT_MS <= time_ms < _MOMENT_MS_MAX:
        return str(time_ms)
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def stream_time(time_ms: int | None) -> str:
    """The time of a stream: a small one also as a date, as it may be a mistake of units."""
    if time_ms is None or abs(time_ms) >= _MOMENT_MS:
        return moment(time_ms)
    return f"{time_ms} ({date_of_ms(time_ms)})"


def length(milliseconds: int | None) -> str:
    """A length of time in its largest whole unit."""
    if milliseconds is None:
        return "the server's default"
    for unit, worth in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % worth == 0:
            return f"{milliseconds // worth} {unit}"
    return f"{milliseconds} ms"


def brief(value: float) -> str:
    """A mean with as many digits as matter: 12 345, 17.3, 0.04."""
    return number(round(value)) if value >= 100 else f"{value:.3g}"


def seconds(count: int) -> str:
    """How long ago, or for how long: 40 s, 12 min, 3 h."""
    for unit, worth in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if count >= 2 * worth:
            return f"{count // worth} {unit}"
    return f"{count} s"


def shortened(text: str, prefixes: Mapping[str, str]) -> str:
    """The line with its IRIs as prefixed names."""
    words = text.split(" ")
    return " ".join(
        short(word[1:-1], prefixes) if word.startswith("<") and word.endswith(">") else word for word in words
    )


def program_name(agent: str) -> str:
    """The program of a User-Agent: a browser says the names of all others, too."""
    if not agent.startswith("Mozilla/"):
        return agent or "a program without a name"
    found = _BROWSER.search(agent)
    return f"a browser ({found[1]})" if found else "a browser"
