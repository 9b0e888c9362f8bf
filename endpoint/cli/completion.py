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
  compgen -P lmdb: -d -- "${1#lmdb:}"  # a store is a folder
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
  [[ "${COMP_WORDS[*]}" =~ --server[=\\ ]([^\\ ]+) ]] && printf -- '--server %s' "${BASH_REMATCH[1]}"
}"""

#: bash divides words at `:` and `=`, a URL into five, and replaces what follows the last of these signs only.
_WHOLE_WORDS = r"""
_rillet() {
  local line=${COMP_LINE:0:COMP_POINT} word typed COMP_WORDS=() COMP_CWORD
  read -ra typed <<<"$line"
  [[ $line == *[[:space:]] ]] && typed+=("")
  for word in "${typed[@]}"; do
    [[ $word == --*=* ]] && COMP_WORDS+=("${word%%=*}" "${word#*=}") || COMP_WORDS+=("$word")
  done
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_rillet "$1" "$word" "${COMP_WORDS[COMP_CWORD - 1]}"
  COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[:=]}"}"}")
}
complete -o bashdefault -F _rillet rillet
"""


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
    made = str(shtab.complete(parser, shell))
    return made + _WHOLE_WORDS if shell == "bash" else made
