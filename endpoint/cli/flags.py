"""Flags that several commands share. Every setting has a flag, a variable and a key in the settings file: `--batch-ms`
is RILLET_BATCH_MS and `batch-ms`."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from stream_ext.errors import RilletError

if TYPE_CHECKING:
    from stream_ext.remote.allowed_urls import UrlParts
    from stream_ext.service.service import SparkSettings

DEFAULT_STORE = "lmdb:rillet-data"
DEFAULT_SERVER = "http://127.0.0.1:8000"

CONFIG = "--config"

Commands = Any  # argparse gives its sub-parsers no public type
Group = Any  # nor its groups of flags, which accept flags as a parser does


class UsageError(RilletError):
    """The command line makes no sense."""


def no_such_file(name: str) -> UsageError:
    return UsageError(f"{name}: this file does not exist")


def open_file(name: str) -> BinaryIO:
    """Opens a file. UsageError if it does not exist; other errors are the system's."""
    try:
        return open(name, "rb")
    except FileNotFoundError:
        raise no_such_file(name) from None


class Parser(argparse.ArgumentParser):
    """Reports a mistake on one line, with a suggestion."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"rillet: {message}\n(try: {self.prog} --help)\n")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if not isinstance(arg_string, Preset):
            return super()._get_value(action, arg_string)
        try:
            if isinstance(action, Several):
                each = (super(Parser, self)._get_value(action, text) for text in arg_string.texts)
                return tuple(value for values in each for value in values)
            return super()._get_value(action, str(arg_string))  # a plain text: nobody else knows a Preset
        except argparse.ArgumentError as error:
            raise argparse.ArgumentError(action, f"{arg_string.where}: {error.message}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            message = f"invalid choice: {value!r}{meant(str(value), known)} (choose from {', '.join(known)})"
            raise argparse.ArgumentError(action, message)


class Command(Parser):
    """The parser of one command. Its flags may be before, between and after the other arguments, and it reports its
    own unknown flags."""

    _within = False  # argparse's parse_known_intermixed_args calls this method again

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # argparse cannot parse what has actions (`rillet source list`) this way; these parse their own flags.
        if self._within or self._subparsers is not None or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._within = True
        try:
            known, left = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False
        if left:
            unknown = [each for each in left if each.startswith("-")] or left  # the argument after a flag is its value
            flags = [flag for action in self._actions for flag in action.option_strings]
            self.error(f"unknown for this command: {' '.join(unknown)}{meant(unknown[0].partition('=')[0], flags)}")
        return known, left


def meant(written: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(written, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class OneOf:
    """The type of a setting with few values; unlike `choices` of argparse it checks the environment, too."""

    def __init__(self, *values: str, not_built: Sequence[str] = ()) -> None:
        self.values, self._not_built = values, not_built

    def __call__(self, text: str) -> str:
        allowed = " or ".join(self.values)
        if text in self._not_built:
            raise argparse.ArgumentTypeError(f"{text} is not supported yet by this version: write {allowed}")
        if text not in self.values:
            raise argparse.ArgumentTypeError(f"write {allowed}, not {text!r}{meant(text, self.values)}")
        return text


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], what: str, examples: str
) -> Parser:
    parser: Command = commands.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


class Preset(str):
    """The value of a setting that is not on the command line, and where it is: a variable, or a line of a file.

    texts: what a flag that may be given several times would be given, one text each time"""

    where: str
    texts: tuple[str, ...]

    def __new__(cls, where: str, *texts: str) -> Preset:
        made = super().__new__(cls, " ".join(texts))
        made.where, made.texts = where, texts
        return made


def add_setting(parser: Parser | Group, flag: str, help: str, default: Any = None, **more: Any) -> None:
    """Adds a flag whose default may come from the environment or the settings file; argparse parses this default as a
    text of the command line."""
    variable = "RILLET_" + flag.lstrip("-").replace("-", "_").upper()
    shown = "" if default in (None, "") else f", default {default}"
    if variable in os.environ:
        default = Preset(variable, os.environ[variable])
    described = f"{help} ({variable}{shown})".replace("%", "%%")  # argparse puts values in
    mark_setting(parser.add_argument(flag, default=default, help=described, **more))
    if CONFIG not in parser._option_string_actions:
        file = "a file with settings (RILLET_CONFIG, default rillet.toml of this folder, if there is one)"
        parser.add_argument(CONFIG, metavar="FILE", help=file)  # it is read before this parser is


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The flags and arguments of a parser and of all its commands."""
    for action in parser._actions:  # argparse has no public list of them
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from actions_of(each)


def mark_setting(action: argparse.Action) -> None:
    """The flag can be given in the settings file."""
    action.is_setting = True  # type: ignore[attr-defined]  # argparse has no place for what its users know


def is_setting(action: argparse.Action) -> bool:
    return getattr(action, "is_setting", False)


class Several(argparse.Action):
    """A flag that may be given several times: its value is the list. In the environment, the values are separated by
    blanks."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if not hasattr(namespace, f"_{self.dest}"):  # the flag replaces the value of the environment
            setattr(namespace, f"_{self.dest}", True)
            setattr(namespace, self.dest, ())
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *values))


def add_store(parser: Parser | Group) -> None:
    add_setting(parser, "--store", "lmdb:PATH, or hbase://HOST:9090/NAMESPACE", DEFAULT_STORE, metavar="URL")


def add_server(parser: Parser) -> None:
    add_setting(parser, "--server", "the server to talk to", DEFAULT_SERVER, type=server, metavar="URL")
    add_setting(
        parser, "--token", "the token of the server; a command that only reads may have its read token", metavar="TOKEN"
    )


def add_spark(parser: Parser, what: str) -> None:
    """The flags of a command that starts Spark for itself."""
    parser.add_argument("--spark-master", metavar="MASTER", help=what)
    parser.add_argument(
        "--spark-address", default="", metavar="HOST", help="for a cluster: this machine, as it sees it"
    )
    what = "for a cluster: the environment that tasks run in (rillet package)"
    parser.add_argument("--spark-package", default="", metavar="FILE", help=what)


def spark_of(arguments: argparse.Namespace, master: str | None) -> SparkSettings | None:
    """The Spark that a command starts for itself; None: it starts none."""
    if master is None:
        for name in ("spark_address", "spark_package"):
            if getattr(arguments, name):
                raise UsageError(f"--{name.replace('_', '-')} is for a cluster: give --spark-master, too")
        return None
    from stream_ext.service.service import SparkSettings

    return SparkSettings(master=master, address=arguments.spark_address, package=arguments.spark_package)


def server(text: str) -> str:
    """The type of a flag for the address of a server; http:// may be left out."""
    scheme, found, rest = text.rpartition("://")
    host, _, path = rest.partition("/")
    if not host or (found and scheme.lower() not in ("http", "https")):
        raise argparse.ArgumentTypeError(f"{text!r} is not the address of a server: write {DEFAULT_SERVER}")
    address = f"{scheme or 'http'}://{host}"
    if path or set(host) & set("?#"):
        raise argparse.ArgumentTypeError(f"{text!r}: give the address without a path: {re.split('[?#]', address)[0]}")
    return address


def seconds(text: str) -> float:
    """The type of a flag for a length of time."""
    from endpoint.http.parameters import parse_duration
    from stream_ext.errors import BadArgument

    try:
        return parse_duration(text, "it")
    except BadArgument:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: write 30s, 500ms, 2m or 0") from None


def percent(text: str) -> float:
    """The type of a flag for a part of a whole: 25% is 0.25."""
    number = text.removesuffix("%")
    try:
        found = float(number) / 100
    except ValueError:
        found = -1.0
    if number == text or not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of a whole: write 25%, or 100% for all of it")
    return found


def some_seconds(text: str) -> float:
    """The type of a flag for a length of time above 0."""
    if not (found := seconds(text)):
        raise argparse.ArgumentTypeError(f"{text!r}: it must be longer than 0: write 30s or 500ms")
    return found


_BYTES = re.compile(r"(\d+)\s*([KMGT]?)I?B?", re.IGNORECASE)


def size(text: str) -> int:
    """The type of a flag for a number of bytes."""
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes: write 512M, 2G or 1000000")
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")


def iri(text: str) -> str:
    """The type of a flag for an absolute IRI."""
    from stream_ext.names import is_iri

    if not is_iri(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an absolute IRI: write http://example.org/name or urn:ex:name"
        )
    return text


def base_iri(text: str) -> str:
    """The type of a flag for an IRI that relative IRIs are resolved against."""
    from stream_ext.names import is_iri

    if not is_iri(text) or not re.match(r"https?://[^/?#]|urn:[^:]+:", text, re.IGNORECASE):
        wanted = "an absolute IRI that begins with http://, https:// or urn:"
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}; write http://example.org/ for example")
    return text


def urls(text: str) -> tuple[UrlParts, ...]:
    """The type of a flag for allowed URLs, separated by blanks."""
    from stream_ext.errors import BadArgument
    from stream_ext.remote.allowed_urls import places

    try:
        return places(text)
    except BadArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def assignments(text: str) -> tuple[tuple[str, str], ...]:
    """The type of a flag spark.NAME=VALUE; in the environment there may be several, separated by blanks."""
    found = []
    for assignment in re.split(r"\s+(?=spark\.)", text.strip()):
        name, equals, value = assignment.partition("=")
        if not equals or not re.fullmatch(r"spark(\.\w+)+", name):
            raise argparse.ArgumentTypeError(f"{assignment!r}: write NAME=VALUE; the names of Spark begin with spark.")
        found.append((name, value))
    return tuple(found)


def origins(text: str) -> tuple[str, ...]:
    """The type of a flag for the origins of web pages."""
    from endpoint.http.access import origin_of

    for each in text.split():
        if origin_of(each) != each:
            better = f": write {origin_of(each)}" if origin_of(each) else "; write https://app.example.org"
            raise argparse.ArgumentTypeError(
                f"{each!r} is not an origin (scheme, host and port, as browsers send it){better}"
            )
    return tuple(text.split())


_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")


def hosts(text: str) -> tuple[str, ...]:
    """The type of a flag for host names of this machine."""
    for each in text.split():
        if not _HOST.fullmatch(each.strip("[]")):
            raise argparse.ArgumentTypeError(f"{each!r} is not a host name: write it without scheme and port")
    return tuple(each.strip("[]") for each in text.split())


def whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def at_least_one(text: str) -> int:
    if not (found := whole(text)):
        raise argparse.ArgumentTypeError("it must be at least 1")
    return found
