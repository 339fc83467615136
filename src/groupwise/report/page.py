"""One file that holds a page: markup of our own, style, scripts, and the data as JSON.

Nothing of a run is ever markup. The data stand in a script element that is not run, with every `<` written as an
escape, so that no text can end that element; the scripts set text and attributes, never HTML. The page's policy allows
these very scripts, by their hashes, and no request at all, or, for the live page, requests to where it came from.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from groupwise.errors import RunFolderError
from groupwise.report.contents import page_data, sources_of
from groupwise.telemetry.run_folder import write_atomically

FILE = "report.html"
"""The name of the page in a run folder."""
SCRIPTS = (
    "words.js",
    "charts.js",
    "drawing.js",
    "exporting.js",
    "curves.js",
    "tokens.js",
    "groups.js",
    "prompts.js",
    "page.js",
)
"""Our own scripts, in the order in which they stand on each other."""


def write_report(folders: Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Write the page of one run, or of several laid over each other, and give its path.

    By default it is `report.html` in the folder of the run, or here where there are several. Raises `RunFolderError`
    where a folder holds no run or the file can't be written.
    """
    sources = sources_of(folders)
    default = sources[0].folder.path / FILE if len(sources) == 1 else Path(FILE)
    path = Path(default if out is None else out).absolute()
    if path.is_dir():
        path = path / FILE
    text = html(page_data(sources, live=False))
    try:
        write_atomically(path, text)
    except OSError as error:
        raise RunFolderError(f"can't write {path}: {error.strerror}", fix="give another file as --out") from error
    return path


def html(data: Mapping[str, Any]) -> str:
    """The whole page of these data."""
    library = f"{asset('uplot/uPlot.iife.min.js').strip()}\n/* {asset('uplot/LICENSE').strip()} */"
    own = "\n".join(["(() => {", '"use strict";', *(asset(name) for name in SCRIPTS), "})();"])
    style = f"{asset('uplot/uPlot.min.css')}\n{asset('style.css')}"
    asks = "'self'" if data["live"] else "'none'"
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(library)} {_hash(own)}",
            f"style-src {_hash(style)}",
            "img-src data: blob:",
            f"connect-src {asks}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    names = " and ".join(run["name"] for run in data["runs"])
    parts = {
        "POLICY": policy,
        "TITLE": _text(f"{names}: groupwise"),
        "STYLE": style,
        "DATA": as_json(data),
        "LIBRARY": library,
        "SCRIPT": own,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("page.html"))


def as_json(data: Any) -> str:
    """JSON that can stand in a script element, and be written as UTF-8 whatever its texts hold."""
    try:
        text = _compact(data)
    except ValueError:  # a number that is not finite, for which JSON has no name
        text = _compact(_finite(data))
    text = text.replace("<", "\\u003c")
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def asset(name: str) -> str:
    """The text of a file that comes with the page."""
    return (resources.files("groupwise.report") / "assets" / name).read_text("utf-8")


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    """The same with null for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(text: str) -> str:
    """A title: what could be markup, or can't be written as UTF-8, is left out."""
    return re.sub("[<>&\x00-\x1f\ud800-\udfff]", " ", text)
