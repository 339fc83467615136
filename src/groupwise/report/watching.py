"""The page of a run that goes on, served on this machine alone.

    GET /         the page, with all that it shows but the groups
    GET /state    the same data again where the run has recorded something since, else status 204
    GET /groups   a stretch of the list of groups, by choice and text
    GET /group    one group in full, from the ledger

The server listens on the loopback address and answers only requests that were made to it by that name: a page from
elsewhere that has a name of its own point here (DNS rebinding) gets nothing. It writes nothing and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from groupwise.errors import RunFolderError
from groupwise.report.chosen import group_of
from groupwise.report.contents import Source, page_data, sources_of
from groupwise.report.ledger_index import SHOWN
from groupwise.report.page import as_json, html

ADDRESS = "127.0.0.1"
MOST = 200
"""The most groups of one stretch of the list."""

Words = dict[str, str]
Answer = tuple[HTTPStatus, str, str]
"""Status, content type, text."""


class Watch:
    """What is answered, whatever carries it. One question at a time: the index is shared."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources, self.lock = sources, Lock()
        self.routes: dict[str, Callable[[Words], Answer]] = {
            "/": self.page,
            "/state": self.state,
            "/groups": self.groups,
            "/group": self.group,
        }

    def answer(self, target: str) -> Answer:
        """To a GET of this path and query."""
        parts = urlsplit(target)
        route = self.routes.get(parts.path)
        if route is None:
            return HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here"
        words = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        with self.lock:
            try:
                return route(words)
            except FileNotFoundError:
                return _refused("the ledger of the run dropped it just now, to stay under its cap")

    def page(self, words: Words) -> Answer:
        """The whole page."""
        mark = self._mark()
        return HTTPStatus.OK, "text/html", html({**page_data(self.sources, live=True), "state": mark})

    def state(self, words: Words) -> Answer:
        """The runs again, and the mark to ask with next; nothing where the mark in `seen` is still right."""
        mark = self._mark()
        if words.get("seen") == mark:
            return HTTPStatus.NO_CONTENT, "application/json", ""
        return _json({"state": mark, "runs": page_data(self.sources, live=True)["runs"]})

    def groups(self, words: Words) -> Answer:
        """`count` groups of a `run` from `offset` on, of a choice (`show`), a `source`, holding a text (`search`)."""
        source, show = self._source(words), words.get("show", "all")
        offset, count = _whole(words.get("offset", "0")), _whole(words.get("count", "40"))
        if source is None or show not in SHOWN or offset is None or count is None:
            return _refused("no such run, choice or stretch")
        found = source.index.find(show, words.get("search", ""), words.get("source"))
        stretch = found[offset : offset + min(count, MOST)]
        return _json({"total": len(found), "groups": [entry.to_json() for entry in stretch]})

    def group(self, words: Words) -> Answer:
        """The group of a `run` with this `source`, `step` and `id`."""
        source, step = self._source(words), _whole(words.get("step", ""))
        if source is None or step is None:
            return _refused("no such run or step")
        entry = source.index.entry(words.get("source", ""), step, words.get("id", ""))
        if entry is None:
            return _refused("no such group")
        return _json(group_of(source.index.rows(entry), entry))

    def _mark(self) -> str:
        return json.dumps([source.state() for source in self.sources])

    def _source(self, words: Words) -> Source | None:
        """The run that is asked about, its index up to date."""
        place = _whole(words.get("run", "0"))
        if place is None or place >= len(self.sources):
            return None
        self.sources[place].index.refresh()
        return self.sources[place]


def server_of(folders: Sequence[str | Path], port: int) -> ThreadingHTTPServer:
    """A server of the page of these runs, not yet serving; port 0 takes one that is free.

    Raises `RunFolderError` where a folder holds no run or the port can't be had.
    """
    watch = Watch(sources_of(folders))

    class Handler(BaseHTTPRequestHandler):
        """Hands GET requests to the watch."""

        def do_GET(self) -> None:
            """Answer, unless the request was made to another name."""
            own = {f"{name}:{server.server_port}" for name in (ADDRESS, "localhost")}
            if self.headers.get("Host") not in own:
                self._send((HTTPStatus.FORBIDDEN, "text/plain", "this server answers to its own address alone"))
            else:
                self._send(watch.answer(self.path))

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a terminal full of requests hides what matters."""

        def _send(self, answer: Answer) -> None:
            status, kind, text = answer
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.end_headers()
            self.wfile.write(body)

    try:
        server = ThreadingHTTPServer((ADDRESS, port), Handler)
    except (OSError, OverflowError) as error:
        raise RunFolderError(
            f"can't serve on port {port}: {error}", fix="give another --port, or 0 for a free one"
        ) from error
    server.daemon_threads = True
    return server


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _json(value: object) -> Answer:
    return HTTPStatus.OK, "application/json", as_json(value)


def _refused(why: str) -> Answer:
    return HTTPStatus.NOT_FOUND, "text/plain", why
