"""The page as a file: nothing of a run is markup, it is bounded, and the commands that make it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_runs import HOSTILE, Wrote, add_step, hostile_run, make_run, metric_row, write_metrics
from typer.testing import CliRunner

import groupwise.cli.seeing  # noqa: F401 (it registers the commands)
from groupwise.cli.app import app
from groupwise.report.page import as_json, html, write_report


def parts_of(page: str) -> tuple[dict[str, Any], list[str], str]:
    """The data, the scripts that run, and the policy."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    return json.loads(found), scripts, policy


def test_no_text_of_a_run_can_become_markup(tmp_path: Path) -> None:
    folder = hostile_run(tmp_path / "run").path
    page = write_report([folder]).read_text("utf-8")
    data, scripts, policy = parts_of(page)
    assert len(scripts) == 2 and page.count("<script") == 3 and page.count("</script>") == 3
    assert "onerror=" not in page.partition('id="data">')[0] and "<img" not in page
    texts = {group["prompt_id"]: group["completions"][0] for group in data["runs"][0]["groups"]}
    assert {kind: "".join(one["texts"]) for kind, one in texts.items() if kind != "long"} == {
        kind: text for kind, text in HOSTILE.items() if kind != "long"
    }
    assert data["runs"][0]["groups"][0]["columns"]["odd"] == "\ud800"


def test_the_policy_allows_these_scripts_alone_and_no_request(tmp_path: Path) -> None:
    page = write_report([hostile_run(tmp_path / "run").path]).read_text("utf-8")
    _, scripts, policy = parts_of(page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts]
    assert rules["script-src"].split() == hashes and rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'none'" and "unsafe" not in policy and "http" not in policy
    bodies = re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!data:,|#)", bodies)


def test_our_scripts_never_make_markup_of_a_text() -> None:
    from groupwise.report.page import SCRIPTS, asset

    assert not [
        name for name in SCRIPTS if re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", asset(name))
    ]


def test_data_are_json_whatever_is_in_them() -> None:
    odd = {"a": "</script>\u2028\ud800é", "b": [float("nan"), 1.0, float("-inf")], "c": {"d": (1, None, True)}}
    text = as_json(odd)
    assert "<" not in text and text.encode("utf-8") and "é" in text
    assert json.loads(text) == {"a": "</script>\u2028\ud800é", "b": [None, 1.0, None], "c": {"d": [1, None, True]}}


def test_names_of_folders_are_text_in_the_title() -> None:
    run = {"name": "</title><script>x</script>"}
    page = html({"live": False, "runs": [run]})
    assert "<title> /title  script x /script : groupwise</title>" in page and page.count("<script>") == 2


def test_a_thousand_steps_make_a_file_of_a_few_megabytes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_metrics(run, [metric_row(step) for step in range(1, 1001)])
    words = tuple(f" word{number}" for number in range(400))
    wrote = [Wrote("".join(words), float(sample % 2), tokens=words) for sample in range(8)]
    for step in range(1, 1001, 25):
        add_step(run, step, {f"p{number}": wrote for number in range(2)})
    page = write_report([run.path])
    data, _, _ = parts_of(page.read_text("utf-8"))
    assert 1_000_000 < page.stat().st_size < 4_000_000
    assert 10 < len(data["runs"][0]["groups"]) < 80 == data["runs"][0]["recorded"]["training"]
    assert len(data["runs"][0]["curves"]["reward_mean"][0]) == 1000


def test_report_of_one_run_is_in_its_folder_of_several_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        write_metrics(make_run(tmp_path / name), [metric_row(1)])
    invoke = CliRunner().invoke
    assert invoke(app, ["report", "one"]).output == f"wrote {tmp_path / 'one' / 'report.html'}\n"
    assert invoke(app, ["report", "one", "two"]).exit_code == 0
    both, _, _ = parts_of((tmp_path / "report.html").read_text("utf-8"))
    assert [run["name"] for run in both["runs"]] == ["one", "two"]
    assert invoke(app, ["report", "one", "--out", "mine.html"]).exit_code == 0
    assert parts_of((tmp_path / "mine.html").read_text("utf-8"))[0]["runs"][0]["name"] == "one"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "nothing"], "holds no run (no run.toml); give the folder"),
        (["report", "one", "--out", "no/such/place.html"], "can't write"),
        (["watch", "nothing"], "holds no run (no run.toml); give the folder"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "one")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert message in line


def test_a_run_before_its_first_step_has_a_page(tmp_path: Path) -> None:
    data, _, _ = parts_of(write_report([make_run(tmp_path / "run").path]).read_text("utf-8"))
    (run,) = data["runs"]
    assert run["curves"] == {} and run["groups"] == [] and run["pass_rates"] == {"training": None, "evaluation": None}
    assert dict(run["facts"])["steps"] == "0 of 8"
