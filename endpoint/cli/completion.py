"""Completion for shells: commands, flags, and values that are choices, files, stores, or names of the server's streams
and queries. A script asks for these names with `rillet completion streams`, each time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

import shtab

from endpoint.cli.flags import OneOf, actions_of

_STORES = {
    "preamble": {
        "bash": """
_rillet_stores() {
  compgen -P lmdb: -d -- "$1"  # a store is a folder
  compgen -W "lmdb: hbase://" -- "$1"
}
"""
    },
    "bash": "_rillet_stores",
    "zsh": shtab.DIRECTORY["zsh"],
    "tcsh": shtab.DIRECTORY["tcsh"],
}

#: Of the server that the typed line names with --server, or else of the usual one.
_SERVER = """
_rillet_server() {
  local place
  for ((place = 1; place + 1 < ${#COMP_WORDS[@]}; place++)); do
    [[ ${COMP_WORDS[place]} == --server ]] && printf -- '--server %s' "${COMP_WORDS[place + 1]}"
  done
}"""


def _names(of: str) -> dict[str, object]:
    command = f"rillet completion {of}"
    bash = f"""
_rillet_{of}() {{
  compgen -W "$({command} $(_rillet_server) 2>/dev/null)" -- "$1"
}}
"""
    zsh = f"""
_rillet_{of}() {{
  compadd -- ${{(f)"$({command} 2>/dev/null)"}}
}}
"""
    return {
        "preamble": {"bash": _SERVER + bash, "zsh": zsh},
        "bash": f"_rillet_{of}",
        "zsh": f"_rillet_{of}",
        "tcsh": f"`{command}`",
    }


#: By the argument of a command that is a name: what it names.
_NAMED = {"stream": _names("streams"), "query": _names("queries")}
#: A shell expands what it is offered: an IRI may have a command in it, so only plain names are.
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.fullmatch(name)]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    for action in actions_of(parser):
        if isinstance(action.type, OneOf):
            action.choices = action.type.values
        elif action.metavar == "FILE" or action.dest == "file":
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
        elif action.help is not None and action.dest in _NAMED and not action.option_strings and action.nargs is None:
            action.complete = _NAMED[action.dest]  # type: ignore[attr-defined]  # where shtab looks for it
        elif action.dest == "store":
            action.complete = _STORES  # type: ignore[attr-defined]  # where shtab looks for it
    return str(shtab.complete(parser, shell))
