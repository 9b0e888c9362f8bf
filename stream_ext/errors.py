"""What can go wrong that is not our bug. A message says what, where, and what to do next.

RilletError
├── TextError          a query's or update's text: line, column, the line with a caret
│   ├── QuerySyntaxError   it is not in the language
│   ├── Unsupported        the language has it, this version does not run it; the message names it
│   ├── NotAllowed         it would fetch a URL that the settings do not allow
│   ├── ServiceFailed      the endpoint of a SERVICE did not answer
│   └── UpdateFailed       an operation of an update failed; its whole request changes nothing
├── BadData            pushed or loaded RDF: line, column
├── BadArgument        an option, parameter or header
├── NotFound           no stream, query or emission of that name
├── NameInUse          another stream or query has the name
├── Gone               a snapshot or an emission that is not retained any more
├── TooLarge           a body or text over its limit
│   └── QueryTooLarge      a query would make more solutions than it may
├── UnsupportedMedia   a media type that nothing here reads
├── NotAcceptable      a media type that nothing here writes
├── Overload           come back later (`retry_after_s`)
├── SourceFailed       an attached store did not answer a query that the request needs; nothing of it was done
│   └── SourceAway         the quads to be held of it cannot be fetched now
├── NotWriter          this process may not write to its store now; nothing of the request was done
├── OutcomeUnknown     the writer stopped while it wrote the request: it may be done or not
├── JobFailed          Spark's tasks for a query failed, or could not be run
├── DeadlineExceeded   it took longer than was allowed
└── QueryCancelled     its client, or an operator, ended it
"""

from __future__ import annotations

import re


class RilletError(Exception):
    """The root: every error that a user can cause or must know."""


class TextError(RilletError):
    def __init__(self, message: str, text: str, line: int, column: int) -> None:
        self.message, self.text, self.line, self.column = message, text, line, column
        super().__init__(self.render())

    def render(self) -> str:
        lines = re.split("\r\n|\n|\r", self.text)  # not splitlines: a form feed ends no line
        shown = lines[self.line - 1] if self.line <= len(lines) else ""
        start = max(0, self.column - 61)
        cut = shown[start : start + 120].replace("\t", " ")
        return f"line {self.line}, column {self.column}: {self.message}\n  {cut}\n  {' ' * (self.column - 1 - start)}^"


class QuerySyntaxError(TextError):
    pass


class Unsupported(TextError):
    pass


class NotAllowed(TextError):
    pass


class ServiceFailed(TextError):
    pass


class UpdateFailed(TextError):
    pass


class BadData(RilletError):
    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.message, self.line, self.column = message, line, column
        where = f"line {line}, column {column}: " if line else ""
        super().__init__(where + message)


class BadArgument(RilletError):
    pass


class NotFound(RilletError):
    pass


class NameInUse(RilletError):
    """`query`: the registered query with this name, which the text could replace."""

    def __init__(self, message: str, query: str | None = None) -> None:
        self.query = query
        super().__init__(message)


class Gone(RilletError):
    pass


class TooLarge(RilletError):
    pass


class QueryTooLarge(TooLarge):
    pass


class UnsupportedMedia(RilletError):
    pass


class NotAcceptable(RilletError):
    pass


class Overload(RilletError):
    def __init__(self, message: str, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class SourceFailed(RilletError):
    """`retry_after_s`: 0 if it will not be otherwise later."""

    def __init__(self, message: str, retry_after_s: int = 0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class SourceAway(SourceFailed):
    pass


class NotWriter(RilletError):
    """`retry_after_s`: 0 if it does not go on by itself."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class OutcomeUnknown(RilletError):
    pass


class DeadlineExceeded(RilletError):
    pass


class QueryCancelled(RilletError):
    pass


class JobFailed(RilletError):
    """A query that was divided into tasks, of which one failed, or could not be run."""
