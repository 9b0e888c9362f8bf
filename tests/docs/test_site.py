"""The documentation as a site: it is built without a network, each link leads somewhere, and a page fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

from tests.docs.pages import DOCS, ROOT
from tests.parts.missing import missing

#: Attributes that a browser follows by itself when it shows a page.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


def build(folder: Path, config: Path) -> subprocess.CompletedProcess[str]:
    if find_spec("mkdocs") is None:
        missing("MKDOCS", "make setup")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder]
    # No proxy answers at this address: what would be fetched fails.
    known = os.environ | {
        "NO_MKDOCS_2_WARNING": "1",
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=known)


class Fetches(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.urls += [value or "" for name, value in attributes if (tag, name) in FETCHED]


def test_the_site_is_built_from_docs_and_its_pages_fetch_nothing_from_the_network(tmp_path: Path) -> None:
    done = build(tmp_path, ROOT / "mkdocs.yml")
    assert done.returncode == 0, done.stderr
    pages = [path.relative_to(DOCS) for path in DOCS.rglob("*.md")]
    named = {path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html") for path in pages}
    built = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.html")}
    assert built == named | {Path(name) for name in ("start.html", "contributing.html", "changelog.html", "404.html")}
    for path in sorted(built):
        fetches = Fetches()
        fetches.feed((tmp_path / path).read_text())
        assert len(fetches.urls) > 3
        outside = [url for url in fetches.urls if re.match(r"(?:\w+:)?//", url) and not url.startswith("data:")]
        assert outside == [], path
    assert '"location":"how_to/patterns.html' in (tmp_path / "search" / "search_index.json").read_text()
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text()), style


def test_a_broken_link_breaks_the_site(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n[nowhere](nowhere.md)")
    written = (ROOT / "mkdocs.yml").read_text()
    config = written[: written.index("hooks:")] + written[written.index("markdown_extensions:") :]
    (tmp_path / "mkdocs.yml").write_text(config)
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
