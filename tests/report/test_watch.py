"""The live page's server: what it answers, to whom, and that it keeps up with a run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from report_runs import Wrote, add_step, hostile_run, make_run, metric_row, write_metrics

from groupwise.errors import RunFolderError
from groupwise.report.watching import MOST, server_of
from groupwise.telemetry.run_folder import RunFolder

RIGHT, WRONG = Wrote("right", 1.0, True), Wrote("wrong", 0.0, False)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "run")
    for step in range(1, 4):
        add_step(made, step, {f"p{number}": [RIGHT, WRONG] for number in range(3)})
    write_metrics(made, [metric_row(step) for step in range(1, 4)])
    return made


@pytest.fixture
def port(run: RunFolder) -> Iterator[int]:
    with server_of([run.path], 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def asked(port: int, path: str) -> Any:
    status, _, body = get(port, path)
    assert status == 200, body
    return json.loads(body)


def test_the_page_is_served_with_a_mark_and_without_groups(port: int) -> None:
    status, headers, body = get(port, "/")
    page = body.decode()
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert (
        headers["X-Content-Type-Options"] == "nosniff"
        and "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    )
    assert "connect-src 'self'" in page and '"live":true' in page and '"groups":' not in page


def test_the_state_comes_again_only_when_the_run_went_on(run: RunFolder, port: int) -> None:
    first = asked(port, "/state")
    assert first["runs"][0]["curves"]["reward_mean"][0] == [1, 2, 3]
    assert first["runs"][0]["recorded"] == {"training": 9, "evaluation": 0}
    path = f"/state?seen={urllib.request.quote(first['state'])}"
    assert get(port, path)[0] == 204
    add_step(run, 4, {"new": [RIGHT, WRONG]})
    write_metrics(run, [metric_row(4)])
    second = asked(port, path)
    assert second["state"] != first["state"] and second["runs"][0]["curves"]["reward_mean"][0] == [1, 2, 3, 4]
    assert asked(port, "/groups?offset=9")["groups"][0]["prompt_id"] == "new"


def test_groups_come_in_stretches_and_one_in_full(port: int) -> None:
    found = asked(port, "/groups?show=mixed&offset=2&count=3&source=training")
    assert found["total"] == 9
    assert [(group["step"], group["prompt_id"]) for group in found["groups"]] == [(1, "p2"), (2, "p0"), (2, "p1")]
    assert asked(port, "/groups?search=P1")["total"] == 3 and asked(port, "/groups?show=dropped")["total"] == 0
    group = asked(port, "/group?source=training&step=2&id=p1%232")
    assert group["prompt"] == "question p1" and [one["reward"] for one in group["completions"]] == [1.0, 0.0]
    assert group["completions"][0]["coefficients"] == [1.0] * len("right")
    assert len(asked(port, f"/groups?count={10 * MOST}")["groups"]) == 9


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/../../etc/passwd", "/run.toml", "/groups?show=other", "/groups?run=1", "/groups?offset=-1",
        "/group?source=training&step=x&id=p1", "/group?source=training&step=9&id=p1%239", "/group", "/groups?count=1e9",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_found(port: int, path: str) -> None:
    assert get(port, path)[0] == 404


def test_only_requests_made_to_its_own_address_are_answered(port: int) -> None:
    assert get(port, "/state", Host=f"localhost:{port}")[0] == 200
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        status, _, body = get(port, "/state", Host=name)
        assert status == 403 and b"runs" not in body
    assert get(port, "/", "POST")[0] == 501


def test_harmful_texts_are_served_as_json(tmp_path: Path) -> None:
    folder = hostile_run(tmp_path / "hostile").path
    with server_of([folder], 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            for step, kind in ((1, "tags"), (2, "end"), (5, "control")):
                status, headers, body = get(
                    server.server_port, f"/group?source=training&step={step}&id={kind}%23{step}"
                )
                assert status == 200 and headers["Content-Type"].startswith("application/json") and b"<" not in body
                assert json.loads(body)["columns"]["odd"] == "\ud800"
        finally:
            server.shutdown()
            thread.join()


def test_a_port_that_is_taken_is_said(run: RunFolder) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RunFolderError, match=r"can't serve on port \d+: .*; give another --port, or 0"):
            server_of([run.path], taken.getsockname()[1])


def test_the_command_says_where_and_ends_with_ctrl_c(run: RunFolder) -> None:
    program = "import groupwise.cli.seeing; from groupwise.cli.app import app; app()"
    command = [sys.executable, "-c", program, "watch", str(run.path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.split()[0]
        assert address.startswith("http://127.0.0.1:") and "Ctrl-C" in line
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"<title>run: groupwise</title>" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
