"""Names: one class name for one thing, and words that a reader of stream processors knows."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("hbase_store", "stream_ext", "plugin", "endpoint")
#: What a reader can take in: lines of a module, modules of a folder, files on the way of one element or question.
LINES_MAX, FILES_MAX, WALK_MAX = 400, 30, 12
#: Words that say nothing to a reader of stream processors. Say emitted, requested, evaluated, stored, remote, single.
RETIRED = {
    "said",
    "told",
    "asked",
    "heard",
    "stands",
    "standing",
    "beside",
    "alone",
    "elsewhere",
    "insist",
    "desk",
    "lens",
}


def classes(package: str) -> Iterator[tuple[str, str]]:
    for file in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(file.relative_to(ROOT))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_class_name_is_used_twice_in_a_package(package: str) -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name, file in classes(package):
        found[name].append(file)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
    assert found


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_made_of_words_that_others_know(package: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for name in (file.stem, *_defined(ast.parse(file.read_text())))
        if RETIRED & set(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_"))
    ]
    assert found == []


def _defined(module: ast.Module) -> Iterator[str]:
    """The names of functions, classes, arguments and fields."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.arg(name) | ast.AnnAssign(ast.Name(name)):
                yield name
            case ast.Attribute(_, name, ast.Store()):
                yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_each_room_says_what_it_is_for(package: str) -> None:
    rooms = [folder for folder in (ROOT / package).rglob("*") if folder.is_dir() and any(folder.glob("*.py"))]
    silent = [str(room.relative_to(ROOT)) for room in rooms if not _docstring(room / "__init__.py")]
    assert silent == []


def _docstring(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text())) or "") if file.exists() else ""


@pytest.mark.parametrize("page", ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_guides_name_what_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"`((?:hbase_store|stream_ext|plugin|endpoint|tests)/[\w/.]*)`", text)
    assert len(named) > 30
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("walk", ["From a push to an emission", "From a query to its answer"])
def test_a_walk_through_the_code_has_few_files(walk: str) -> None:
    section = (ROOT / "docs" / "ARCHITECTURE.md").read_text().partition(f"## {walk}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\| (\d+)\. .* \| `[\w/]+\.py` \|$", section, re.MULTILINE)
    assert [int(step) for step in steps] == list(range(1, len(steps) + 1))
    assert 8 <= len(steps) <= WALK_MAX


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_shows_each_room(package: str) -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rooms = [each.parent.name for each in (ROOT / package).glob("*/__init__.py")]
    assert [room for room in rooms if f"{room}/" not in text] == []


def test_a_module_is_not_long_without_a_reason() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    reasons = dict(re.findall(r"^\| `([\w/]+\.py)` \| (.+?) \|$", text.partition("## Long modules")[2], re.MULTILINE))
    modules = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    long = {str(file.relative_to(ROOT)) for file in modules if len(file.read_text().splitlines()) > LINES_MAX}
    assert len(modules) > 300
    assert sorted(long - reasons.keys()) == []


def test_a_folder_is_not_long() -> None:
    folders = [each for package in PACKAGES for each in (ROOT / package).rglob("*") if any(each.glob("*.py"))]
    assert len(folders) > 40
    assert [str(each) for each in folders if len(list(each.glob("*.py"))) > FILES_MAX + 1] == []  # and its __init__
