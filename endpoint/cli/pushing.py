"""`rillet push` and `rillet streams`."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from endpoint.cli import terminal
from endpoint.cli.flags import Commands, UsageError, add_command, add_server, open_file
from endpoint.cli.server_commands import client_of, print_json
from stream_ext.errors import RilletError

if TYPE_CHECKING:
    from endpoint.client import Client
    from endpoint.files.replay import Pace

_MEDIA_TYPES = {
    "nt": "application/n-triples",
    "nq": "application/n-quads",
    "ttl": "text/turtle",
    "trig": "application/trig",
    "jsonld": "application/ld+json",
    "rdf": "application/rdf+xml",
    "ndjson": "application/x-ndjson",
}
_FORMATS = (*_MEDIA_TYPES, "tnt")
_NDJSON = _MEDIA_TYPES["ndjson"]
_PACKED = (".gz", ".zst")
#: How often a push is sent again after the server was busy.
_TRIES_MAX = 300
_BUSY, _STOPPING = 429, 503
#: For how long a pipe waits for a lost server, and how often it tries.
_PATIENCE_S = 60.0
_RETRY_S = 0.5

_SHOWN_EVERY_S = 0.5
#: A push that took longer says at its end how long.
_SAID_S = 1.0
_INTERRUPTED = 130

_PUSH = """\
  rillet push taxis position.ttl --timestamp 2024-01-31T12:00:00Z
  rillet push taxis day.ndjson.gz --wait evaluated
  rillet push gps gps.tnt.gz --rate 60x                one minute of the recording each second
  rillet push events log.trig --timestamp 5000         a log of RDF Messages: each message is an element
  rillet push obs obs.nt --time-from http://www.w3.org/ns/sosa/resultTime --rate 500
  tail -f live.ndjson | rillet push taxis --format ndjson --source roof
  echo '<http://ex/t1> <http://ex/in> <http://ex/z1> .' | rillet push taxis --format nt"""


def add(commands: Commands) -> None:
    parser = add_command(commands, "push", push, "push elements to a stream", _PUSH)
    parser.add_argument("stream", help="the name or IRI of the stream")
    parser.add_argument(
        "file", nargs="?", default="-", help="the file to push, also .gz or .zst; - or nothing: standard input"
    )
    parser.add_argument("--format", choices=_FORMATS, help="the format of the file; default: by its name")
    parser.add_argument(
        "--timestamp", metavar="TIME", help="the time of elements without one: milliseconds or xsd:dateTime"
    )
    parser.add_argument(
        "--rate",
        type=rate,
        metavar="N",
        help="N: push N elements a second; Nx: replay at N times the speed of their timestamps",
    )
    parser.add_argument(
        "--time-from",
        type=_time_from,
        metavar="WHAT",
        help="the time of each element: data (default), arrival, or the IRI of the predicate with the time",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="a name for the sender: a push whose response was lost is sent again and counts once",
    )
    parser.add_argument(
        "--wait",
        choices=["published", "evaluated"],
        help="wait until the push is readable (default), or until registered queries have evaluated it",
    )
    add_server(parser)
    streams_ = add_command(
        commands, "streams", streams, "list the streams and the time that each has reached", "  rillet streams"
    )
    streams_.add_argument("--json", action="store_true", help="print the response of the server as JSON")
    add_server(streams_)


def rate(text: str) -> tuple[float, bool]:
    """The number, and whether it is a factor."""
    factor = text.endswith("x")
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate: write 100 (elements a second), 1x or 60x")
    return number, factor


def _time_from(text: str) -> str:
    from stream_ext.names import is_iri

    if text not in ("data", "arrival") and not is_iri(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write data, arrival, or the IRI of a predicate")
    return text


@dataclass(slots=True)
class _Sum:
    """The sums of all receipts of pushes; on a terminal they are shown as they grow."""

    accepted: int = 0
    late: int = 0
    snapshot: int = 0
    warned: bool = False
    begun_s: float = field(default_factory=time.monotonic)
    shown_s: float = 0.0
    is_shown: bool = False
    file: BinaryIO | None = None  # what is read of it shows how much is left; None: a pipe, which has no end

    def add(self, receipt: dict[str, Any]) -> None:
        self.accepted += receipt["accepted"]
        self.late += receipt["late"]
        self.snapshot = receipt["snapshot"]
        if not self.warned:  # shown once: the other receipts repeat it
            for warning in receipt.get("warnings", ()):
                self.warned = True
                _print_notice(f"warning: {warning}")
        self._show()

    def _show(self) -> None:
        now_s = time.monotonic()
        if now_s - self.shown_s < _SHOWN_EVERY_S or not terminal.is_live(sys.stderr):
            return
        took_s = max(now_s - self.begun_s, 0.001)
        sys.stderr.write(f"\r\x1b[K{self}; {self.accepted / took_s:,.0f} elements/s{self._left(took_s)}")
        sys.stderr.flush()
        self.shown_s, self.is_shown = now_s, True

    def _left(self, took_s: float) -> str:
        if self.file is None:
            return ""
        position, size = self.file.tell(), os.fstat(self.file.fileno()).st_size
        if not 0 < position <= size:
            return ""
        return f", {100 * position // size} %, {took_s * (size - position) / position:.0f} s left"

    @property
    def summary(self) -> str:
        """At the end: a push that took a while also says how long."""
        took_s = time.monotonic() - self.begun_s
        if took_s < _SAID_S:
            return str(self)
        return f"{self} in {took_s:.1f} s ({self.accepted / took_s:,.0f} a second)"

    def clear(self) -> None:
        """Ends the line on the terminal, before other output."""
        if self.is_shown:
            sys.stderr.write("\r\x1b[K")
            self.is_shown = False

    def __str__(self) -> str:
        late = f", {self.late:,} late" if self.late else ""
        elements = "1 element" if self.accepted == 1 else f"{self.accepted:,} elements"
        return f"{elements} accepted{late}, snapshot {self.snapshot}"


def push(arguments: argparse.Namespace) -> None:
    format = arguments.format or _suffix(arguments.file)
    if format not in _FORMATS:
        raise UsageError(f"unknown format; give --format {'|'.join(_FORMATS)}")
    cut = format in ("ndjson", "tnt") or arguments.rate is not None or arguments.time_from not in (None, "data")
    if cut:
        _check_cut(arguments, format)
    elif arguments.source is not None:
        raise UsageError(
            "--source works only where the file is sent as several pushes: ndjson, tnt, or any format with --rate"
        )
    total = _Sum()
    try:
        with _opened(arguments.file, total) as source, client_of(arguments) as client:
            if cut:
                _replay(arguments, format, source, client, total)
            else:
                _send_whole(arguments, format, source, client, total)
    except KeyboardInterrupt:
        total.clear()
        print(file=sys.stderr)  # the terminal has written ^C into our line
        so_far = str(total) if total.accepted else "no push was acknowledged"
        _print_notice(f"stopped: {so_far}; a push that was being sent may be accepted, too")
        raise SystemExit(_INTERRUPTED) from None
    except BaseException:
        total.clear()
        if total.accepted:
            _print_notice(f"{total}, then an error:")
        raise
    total.clear()
    print(total.summary)


def _suffix(name: str) -> str:
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return name.rpartition(".")[2]


def _check_cut(arguments: argparse.Namespace, format: str) -> None:
    from endpoint.files.replay import CUT_FORMATS

    if format not in CUT_FORMATS:
        raise UsageError(
            f"--rate and --time-from work for {', '.join(CUT_FORMATS)}: a file of another format is one push"
        )
    if arguments.time_from == "arrival" and arguments.rate is not None and arguments.rate[1]:
        raise UsageError(
            "--rate Nx needs the times of the elements, and --time-from arrival ignores them: use a rate without x"
        )
    if arguments.timestamp is not None and arguments.time_from is not None:
        raise UsageError("--timestamp and --time-from both set the time: give one of them")


@contextmanager
def _opened(name: str, total: _Sum) -> Iterator[BinaryIO]:
    from endpoint.files.replay import unpacked

    if name == "-":
        yield unpacked(cast("BinaryIO", sys.stdin.buffer))
        return
    with open_file(name) as file:
        total.file = file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
        yield unpacked(file)


def _send_whole(arguments: argparse.Namespace, format: str, source: BinaryIO, client: Client, total: _Sum) -> None:
    """Sends the whole input as one body; its media type defines the elements."""
    total.add(_Sender(arguments, client, _MEDIA_TYPES[format], 0.0)(source.read()))


def _replay(arguments: argparse.Namespace, format: str, source: BinaryIO, client: Client, total: _Sum) -> None:
    from endpoint.files.replay import Cutter, Pacer, blocks_of_lines

    cutter = Cutter(format, arguments.time_from or "data")
    pacer = Pacer(_pace(arguments.rate), time.monotonic, time.sleep)
    send = _Sender(arguments, client, _NDJSON, _PATIENCE_S)
    for lines in blocks_of_lines(source):
        for body in pacer.bodies(cutter.feed(lines)):
            total.add(send(body))
    for body in pacer.bodies(cutter.end()):
        total.add(send(body))


def _pace(rate: tuple[float, bool] | None) -> Pace:
    from endpoint.files.replay import AsItWas, PerSecond, at_once

    if rate is None:
        return at_once
    number, factor = rate
    return AsItWas(number) if factor else PerSecond(number)


class _Sender:
    """Sends bodies in order. A body is sent again if the server was busy (it has accepted nothing of it), or if the
    server was not reachable. If the connection is lost before the answer, it is unknown whether a body was accepted;
    except with --source: the server recognises a repeated push by its number."""

    def __init__(self, arguments: argparse.Namespace, client: Client, media_type: str, patience_s: float) -> None:
        self._arguments, self._client, self._media_type = arguments, client, media_type
        self._patience_s = patience_s
        self._seq = 0
        self._sent = False

    def __call__(self, body: bytes) -> dict[str, Any]:
        self._seq = max(self._seq + 1, time.time_ns() // 1000)  # greater than the numbers of earlier runs
        receipt = self._push_until_accepted(body)
        self._sent = True
        return receipt

    def _push_until_accepted(self, body: bytes) -> dict[str, Any]:
        tries, lost_at = 0, None
        while True:
            tries += 1
            try:
                receipt = self._push(body)
            except Exception as error:
                wait_s = self._wait_s(error, body)
                if lost_at is None and not _is_busy(error):
                    lost_at = time.monotonic()
                    _print_notice(f"{_reason(error)}; trying again for {self._patience_s:g} s")
                if tries == _TRIES_MAX or (lost_at is not None and time.monotonic() - lost_at >= self._patience_s):
                    raise
                time.sleep(wait_s)
                continue
            if lost_at is not None:
                _print_notice("the server is answering again")
            if not receipt.get("repeated"):
                return receipt
            if tries > 1:
                return receipt | {"accepted": body.count(b"\n") + 1}
            raise RilletError(
                f"{self._arguments.source} has already sent a later push to {self._arguments.stream}: does "
                "another process send under this name, or is the clock of this machine behind? Give another "
                "--source"
            )

    def _push(self, body: bytes) -> dict[str, Any]:
        source = self._arguments.source
        return self._client.push(
            self._arguments.stream,
            body,
            media_type=self._media_type,
            timestamp=self._arguments.timestamp,
            wait=self._arguments.wait,
            source=source,
            seq=None if source is None else self._seq,
        )

    def _wait_s(self, error: Exception, body: bytes) -> float:
        """The time to wait before the next try; raises the error, as a message for people, if there is none."""
        import httpx

        from endpoint.client import Refused

        known = self._arguments.source is not None
        if isinstance(error, Refused):
            if error.status == _BUSY or (known and self._sent and error.status == _STOPPING):
                return error.retry_after_s or 1.0
            raise error
        if not isinstance(error, httpx.TransportError) or not self._sent:
            raise error
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) or known:
            return _RETRY_S
        elements = body.count(b"\n") + 1
        advice = "with --source NAME such a push is sent again and counts only once"
        raise RilletError(f"{error}; it is not known whether the last {elements:,} elements were accepted ({advice})")


def _is_busy(error: Exception) -> bool:
    return getattr(error, "status", None) == _BUSY


def _reason(error: Exception) -> str:
    from endpoint.client import Refused

    return str(error) if isinstance(error, Refused) else f"the connection was lost ({error})"


def _print_notice(line: str) -> None:
    print(f"rillet: {line}", file=sys.stderr, flush=True)


def streams(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.streams()
    if arguments.json:
        print_json(found)
        return
    columns = ["stream", "runs_by", "time", "late", "lateness", "timeless", "iri"]
    rows = [[_cell(name, each[name]) for name in columns] for each in found]
    heads = ["stream", "times from", *columns[2:]]
    if any(each["created_by"] for each in found):  # perhaps a mistyped name: nothing was pushed to it yet
        heads.insert(-1, "created by")
        for row, each in zip(rows, found, strict=True):
            row.insert(-1, f"query {each['created_by']}" if each["created_by"] else "")
    advice = "there are no streams; rillet stream create NAME creates one"
    print("\n".join(terminal.table(heads, rows)) if rows else advice)


def _cell(name: str, value: Any) -> str:
    if name == "time":
        return terminal.stream_time(value)
    if name == "lateness":
        return f"{value} ms"
    if name == "timeless":
        return {True: "all", False: "nothing"}[value] if isinstance(value, bool) else " ".join(value)
    return "" if value is None else str(value)
