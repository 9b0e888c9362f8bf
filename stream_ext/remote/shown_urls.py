"""Addresses as they are shown: in messages, status, log and EXPLAIN, without what they keep secret.

http://ann:secret@host/ds?apikey=1234&x=1      =>      http://***@host/ds?apikey=***&x=***"""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_HIDDEN = "***"
#: Shorter values are no secrets, and would be found in other words.
_SECRET_MIN = 4


def shown_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return _HIDDEN
    account, at, host = parts.netloc.rpartition("@")
    query = "&".join(_hidden(each) for each in parts.query.split("&")) if parts.query else ""
    fragment = _HIDDEN if parts.fragment else ""
    return SplitResult(parts.scheme, f"{_HIDDEN if account else ''}{at}{host}", parts.path, query, fragment).geturl()


def _hidden(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}{equals}{_HIDDEN}" if equals else _HIDDEN


class Secrets:
    """What an address and an authorization keep secret; `hide` leaves it out of what others say."""

    def __init__(self, url: str, authorization: str | None = None) -> None:
        parts = urlsplit(url)
        account = parts.netloc.rpartition("@")[0]
        found = {parts.fragment, account, *account.partition(":")[::2]}
        found |= {value for each in parts.query.split("&") for value in each.partition("=")[::2][-1:]}
        found |= {value for _, value in parse_qsl(parts.query)}
        if authorization:
            token = authorization.strip().rpartition(" ")[2]
            found |= {token, token.partition(":")[2]}
        found |= {unquote(each) for each in found}
        self._texts = sorted((each for each in found if len(each) >= _SECRET_MIN), key=len, reverse=True)

    def hide(self, text: str) -> str:
        for each in self._texts:
            text = text.replace(each, _HIDDEN)
        return text
