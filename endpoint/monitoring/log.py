"""The log of the server: one line for each event, on standard error, for people or for programs.

    2026-11-19T08:00:00.123Z warning rillet.service the service waits for=store why="no answer for 2 s"
    {"time":"2026-11-19T08:00:00.123Z","level":"warning","logger":"rillet.service","message":"the service waits",...}

Code logs a constant sentence and facts: `log.warning("the service waits", extra={"fields": {...}})`. Facts may come
from clients. So line breaks and control characters in them are escaped, each has a limited length, and what looks like
a secret is removed. A thread of its own writes the lines: code that logs never waits for a full pipe."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Empty, Full, Queue
from typing import Any, Literal, TextIO

import msgspec

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["text", "json"]

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
FORMS: tuple[Form, ...] = ("text", "json")

#: Limits of one fact, of a traceback, and of the lines that wait to be written.
_VALUE_CHARACTERS = 500
_LOOKED_AT_CHARACTERS = 4_000
_TRACEBACK_CHARACTERS = 16_000
_FIELDS_MAX = 30
_LINES_MAX = 10_000
#: So many lines are also kept in memory, for a page.
_RECENT_MAX = 300
_FLUSH_S = 2.0

_HIDDEN = "***"
#: Fields with these names are hidden; and texts that look like secrets, in any field. Our own messages contain "the
#: bearer token" and "`Authorization: Bearer TOKEN`": these are no secrets.
_SECRET_NAMES = re.compile(r"authorization|cookie|password|passwd|secret|token", re.IGNORECASE)
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"(authorization\b[\"']?\s*[:=]\s*[\"']?)(?!bearer TOKEN`(?:[\s,;]|$))(?:(?:bearer|basic)\s+)?[^\s\"',;]+",
            re.I,
        ),
        r"\1***",
    ),
    (re.compile(r"\b(bearer|basic)\s+(?!(?:token|with)(?![A-Za-z0-9+/_.~=-]))[A-Za-z0-9+/_.~=-]{3,}", re.I), r"\1 ***"),
    (re.compile(r"(\b(?:set-)?cookie\b\s*[:=]\s*)\S[^\n]*", re.I), r"\1***"),
    (re.compile(r"((?:token|password|passwd|secret|api[_-]?key)[\"']?\s*[=:]\s*[\"']?)[^\s&\"',;]+", re.I), r"\1***"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@?#]*@", re.I), r"\1***@"),
)
#: Characters that end a line in some terminals, move the cursor, or change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BARE = re.compile(r"[^\s\"'=]+")


class Settings(msgspec.Struct, frozen=True):
    level: Level = "warning"
    form: Form = "text"


class Formatter(logging.Formatter):
    """Writes a record as one line. `secrets`: texts that are removed wherever they occur, for example the server's
    token."""

    def __init__(self, form: Form, secrets: Sequence[str] = ()) -> None:
        super().__init__()
        self._form, self._secrets = form, [secret for secret in secrets if secret]

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        level, logger = record.levelname.lower(), self._shown(record.name)
        message, fields = self._shown(record.getMessage()), self._fields(getattr(record, "fields", {}))
        trace = self._traceback(record)
        if self._form == "json":
            entry = {"time": time, "level": level, "logger": logger, "message": message, **fields}
            return msgspec.json.encode(entry if trace is None else {**entry, "traceback": trace}).decode()
        fields_text = "".join(f" {name}={_quoted(value)}" for name, value in fields.items())
        indented = "" if trace is None else "".join(f"\n  | {line}" for line in trace.split("\n"))
        return f"{time} {level} {logger} {message}{fields_text}{indented}"

    def _fields(self, fields: Mapping[str, object]) -> dict[str, Any]:
        return {self._shown(name): self._field(name, value) for name, value in list(fields.items())[:_FIELDS_MAX]}

    def _field(self, name: str, value: object) -> Any:
        if _SECRET_NAMES.search(name):
            return _HIDDEN
        return value if value is None or isinstance(value, bool | int | float) else self._shown(str(value))

    def _shown(self, text: str) -> str:
        # Cut first, as the patterns are slow on megabytes; but cut with a margin, so that no secret is cut in half.
        looked_at = self._without_secrets(text[:_LOOKED_AT_CHARACTERS])
        cut = "" if len(text) <= _VALUE_CHARACTERS else f"... ({len(text)} characters)"
        return _CONTROL.sub(_escaped, looked_at[:_VALUE_CHARACTERS]) + cut

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        for pattern, instead in _SECRETS:
            text = pattern.sub(instead, text)
        return text

    def _traceback(self, record: logging.LogRecord) -> str | None:
        """The traceback; its lines are ours, and each is cleaned by itself."""
        if record.exc_info is None or record.exc_info[1] is None:
            return None
        text = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        cut = text if len(text) <= _TRACEBACK_CHARACTERS else "...\n" + text[-_TRACEBACK_CHARACTERS:]
        return "\n".join(self._shown(line) for line in cut.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode()


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "none" if value is None else str(value).lower()


class Handler(logging.Handler):
    """Gives lines to a thread that writes them. If standard error is blocked, lines beyond a limit are dropped."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: Queue[str | None] = Queue(_LINES_MAX)
        self._left_out = 0
        self.recent: deque[str] = deque(maxlen=_RECENT_MAX)
        self._thread = threading.Thread(target=self._write, name="rillet-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            self.recent.append(line)
            self._lines.put_nowait(line)
        except Full:
            self._left_out += 1
        except Exception:  # noqa: BLE001 -- as in logging: a line that cannot be written is reported by handleError
            self.handleError(record)

    def close(self) -> None:
        with contextlib.suppress(Full):
            self._lines.put_nowait(None)
        self._thread.join(_FLUSH_S)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            lines = [line]
            with contextlib.suppress(Empty):  # with the lines that arrived meanwhile
                while (line := self._lines.get_nowait()) is not None:
                    lines.append(line)
            if self._left_out:
                lines.append(f"({self._left_out} lines were left out because they came faster than they were read)")
                self._left_out = 0
            with contextlib.suppress(OSError, ValueError):  # the reader of the pipe is gone
                self._stream.write("\n".join(lines) + "\n")
                self._stream.flush()
            if line is None:
                return


@contextmanager
def logging_to(stream: TextIO, settings: Settings, secrets: Sequence[str] = ()) -> Iterator[None]:
    """While the context is open, all log records of this process are written to this stream."""
    global _current, _handler
    handler = Handler(stream)
    handler.setFormatter(Formatter(settings.form, secrets))
    root, level = logging.getLogger(), logging.getLevelNamesMapping()[settings.level.upper()]
    # Only warnings of libraries. Nothing of uvicorn: it would log answers that are cut off a second time, and each
    # connection that sends no HTTP.
    levels = {"rillet": level, "uvicorn": logging.CRITICAL, None: max(logging.WARNING, level)}
    before = root.handlers[:], {name: logging.getLogger(name).level for name in levels}, _current, _handler
    root.handlers[:] = [handler]
    _set_levels(levels)
    _current, _handler = settings, handler
    try:
        yield
    finally:
        root.handlers[:], levels_before, _current, _handler = before
        _set_levels(levels_before)
        handler.close()


def _set_levels(levels: Mapping[str | None, int]) -> None:
    """By `setLevel`, for loggers remember what is enabled; None is the root."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


_current: Settings | None = None
_handler: Handler | None = None


def recent() -> list[str] | None:
    """The last lines of the log of this process; None: the embedding application has the log."""
    return None if _handler is None else list(_handler.recent)


def current() -> Settings | None:
    """The log settings of this process, for the processes that it starts; None: the embedding application decides."""
    return _current


def of_terminal(stream: TextIO = sys.stderr) -> Level:
    """The default settings: on a terminal only warnings."""
    return "warning" if stream.isatty() else "info"
