"""Flags of `rillet serve` for attached stores: `--attach [NAME=]URL` and what belongs to it.

Without a name they concern the source main. A secret is in a file or in the environment, never in the command line."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from endpoint.cli.flags import Group, OneOf, Several, UsageError, add_setting, iri, mark_setting, open_file, seconds

if TYPE_CHECKING:
    from stream_ext.remote.source import SourceSettings

Value = TypeVar("Value")
#: Values by the names of their sources.
Named = tuple[tuple[str, Any], ...]

_MAIN = "main"
_NAMED = re.compile(r"([A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
#: The secret of the source main, or with _ and its name of another.
AUTH_VARIABLE = "RILLET_ATTACH_AUTH"


def add(group: Group) -> None:
    _add(group, "--attach", "a triple store whose data are one dataset with the store, or NAME=URL for SERVICE", _url)
    _add(group, "--attach-update", "where an attached store takes updates", _url)
    auth = "a file whose first line is user:password, Digest user:password or Bearer TOKEN for an attached store; or "
    _add_file(group, auth + f"{AUTH_VARIABLE}[_NAME] with that line")
    fresh = "how often what is held of an attached store is compared with it"
    _add(group, "--attach-refresh", fresh, seconds, "60s", "[NAME=]TIME")
    whole = "how often all of it is compared, if --attach-changed says what has changed"
    _add(group, "--attach-full", whole, seconds, "1h", "[NAME=]TIME")
    mode = "whether registered queries hold what they read of an attached store, or ask for it: hold, ask or auto"
    _add(group, "--attach-mode", mode, OneOf("hold", "ask", "auto"), "auto", "[NAME=]MODE")
    changed = "the predicate whose object says when its subject changed"
    _add(group, "--attach-changed", changed, iri, metavar="[NAME=]IRI")
    default = "what the default graph of an attached store is: own, union or empty; if not given, it is found out"
    _add(group, "--attach-default", default, OneOf("own", "union", "empty"), metavar="[NAME=]KIND")
    to = "updates go to source (the attached store) or ours; default: source if --attach-update is given"
    add_setting(group, "--updates", to, type=OneOf("source", "ours"), metavar="STORE")
    absorbed = "timeless triples of streams go to source (the attached store) or stay in ours"
    add_setting(group, "--absorb", absorbed, "ours", type=OneOf("source", "ours"), metavar="STORE")


#: Where a value without a name is also that of all sources without one of their own.
_OF_ALL = ("refresh", "full", "mode")
_OF_ONE = ("update", "auth", "changed", "default")


def settings(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> tuple[SourceSettings, ...]:
    """The sources of a command line. UsageError for what concerns none of them."""
    from stream_ext.remote.source import SourceSettings

    urls = _by_name("--attach", arguments.attach)
    given = {what: _by_name(f"--attach-{what}", getattr(arguments, f"attach_{what}")) for what in (*_OF_ALL, *_OF_ONE)}
    for what, values in given.items():
        for name in values.keys() - urls.keys():
            if what not in _OF_ALL or name != _MAIN:
                raise UsageError(f"--attach-{what}: no source is called {name!r}: attach it with --attach {name}=URL")
    found = []
    for name, url in urls.items():
        usual = SourceSettings(name, url)
        own = {what: values.get(name) for what, values in given.items()}
        of_all = {what: own[what] if own[what] is not None else given[what].get(_MAIN) for what in _OF_ALL}
        found.append(
            replace(
                usual,
                update_url=own["update"],
                authorization=_secret(name, own["auth"], environ),
                refresh_s=usual.refresh_s if of_all["refresh"] is None else of_all["refresh"],
                full_s=usual.full_s if of_all["full"] is None else of_all["full"],
                mode=of_all["mode"] or usual.mode,
                changed=own["changed"],
                default=own["default"],
            )
        )
    return tuple(found)


def _by_name(flag: str, values: Named | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values or ():
        if name in found:
            called = "without a name" if name == _MAIN else f"called {name!r}"
            raise UsageError(f"{flag}: two are {called}: give one of them another name, {flag} NAME=...")
        found[name] = value
    return found


def _secret(name: str, file: str | None, environ: Mapping[str, str]) -> str | None:
    if file is not None:
        with open_file(file) as opened:
            return opened.readline().decode().strip() or None
    variable = AUTH_VARIABLE if name == _MAIN else f"{AUTH_VARIABLE}_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"
    return environ.get(variable) or None


# ---- flags -----------------------------------------------------------------------------------------------------


def _add(
    group: Group,
    flag: str,
    help: str,
    value: Callable[[str], Any],
    default: str | None = None,
    metavar: str = "[NAME=]URL",
) -> None:
    add_setting(group, flag, help, default, type=_several(value), action=Several, metavar=metavar)


def _add_file(group: Group, help: str) -> None:
    # No variable has the name of the file: RILLET_ATTACH_AUTH is the secret itself.
    mark_setting(group.add_argument("--attach-auth", help=help, type=_file, action=Several, metavar="[NAME=]FILE"))


def _file(text: str) -> Named:
    named = _NAMED.fullmatch(text)
    return ((named[1], named[2]) if named is not None else (_MAIN, text),)


def _several(value: Callable[[str], Value]) -> Callable[[str], tuple[tuple[str, Value], ...]]:
    """The type of a flag for values with or without names, separated by blanks."""

    def read(text: str) -> tuple[tuple[str, Value], ...]:
        found = []
        for part in text.split():
            named = _NAMED.fullmatch(part)
            name, rest = (named[1], named[2]) if named is not None else (_MAIN, part)
            found.append((name, value(rest)))
        return tuple(found)

    return read


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no address of a SPARQL endpoint: write http://HOST/sparql")
    if "@" in parts.netloc:
        raise argparse.ArgumentTypeError(
            "an address with a user name would be seen by everybody on this machine: write it without, and give "
            f"--attach-auth FILE, or the variable {AUTH_VARIABLE}"
        )
    return text
