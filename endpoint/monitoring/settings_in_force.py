"""The settings that a server was started with, as its console shows them: each by its flag. No secret is among them.

--retain-snapshots   300 s     the default
--token              given     not the default"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Of these only whether they are given: they are secrets, or contain some.
_SECRET = ("token", "read_token", "tls_key")
#: They have a page of their own, or are several flags.
_OF_OTHER_PAGES = ("sources", "allowed_urls", "spark_conf")
#: What the command line gives without the flag.
_USUAL = {"absorb": "ours"}
_FLAGS = {"allowed_hosts": "allowed-host"}
_GIVEN = "given"


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """`unit`: s, ms, bytes, or none."""

    flag: str
    value: Any
    unit: str
    is_default: bool


def settings_in_force(settings: DataclassInstance) -> list[SettingInForce]:
    """In the order of their definition."""
    return [_shown(field, getattr(settings, field.name)) for field in _fields(settings)]


def _fields(settings: DataclassInstance) -> Iterator[Field[Any]]:
    return (field for field in fields(settings) if field.name not in _OF_OTHER_PAGES)


def _shown(field: Field[Any], value: Any) -> SettingInForce:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    unit = next((unit for unit in ("s", "ms", "bytes") if field.name.endswith(f"_{unit}")), "")
    name = field.name.removesuffix("_s") if unit == "s" else field.name
    if field.name in _SECRET:
        value, unit, is_default = (_GIVEN if value else None), "", not value
    else:
        is_default = value in (default, _USUAL.get(field.name, default))
    return SettingInForce("--" + _FLAGS.get(field.name, name.replace("_", "-")), value, unit, is_default)
