"""The page in a real browser: curves, groups, tokens, keys, both widths, both schemes, and texts that mean harm."""

from __future__ import annotations

import re
import shutil
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow.parquet as parquet
import pytest
from report_runs import HOSTILE, Wrote, add_step, hostile_run, make_run, metric_row, write_metrics

from groupwise.report.page import write_report
from groupwise.report.watching import server_of

Opened = Callable[..., Any]

INK = """canvas => {
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3]) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return colours.size;
}"""
"""How many colours are drawn in a canvas."""
CONTRAST = """() => {
    const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const read = (colour, below) => {
        paint.fillStyle = `rgb(${below})`; paint.fillRect(0, 0, 1, 1);
        paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const weights = [0.2126, 0.7152, 0.0722];
    const light = (rgb) => rgb.map((v) => channel(v / 255)).reduce((sum, v, i) => sum + v * weights[i], 0);
    const ground = (element) => element === null ? [255, 255, 255]
        : read(getComputedStyle(element).backgroundColor, ground(element.parentElement));
    const poor = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName)) continue;
        if (!element.checkVisibility()) continue;
        const below = ground(element), [a, b] = [light(read(getComputedStyle(element).color, below)), light(below)];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) poor.push([element.textContent.slice(0, 30), element.className, ratio.toFixed(2)].join(" | "));
    }
    return poor;
}"""
"""Texts whose contrast with what lies behind them is below 4.5 (WCAG AA)."""


@pytest.fixture(scope="module")
def real_page(real_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([real_run], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([hostile_run(tmp_path_factory.mktemp("hostile") / "run").path])


def until(page: Any, expression: str) -> None:
    """Wait until this holds; asked from here, as the page's policy forbids to evaluate a text inside it."""
    deadline = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


def recorded(folder: Path, step: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(folder / "rollouts" / f"step-{step:06d}.parquet").to_pylist()
    return rows


def test_a_real_run_is_drawn(opened: Opened, real_page: Path, real_run: Path) -> None:
    with opened(real_page) as page:
        shown = page.eval_on_selector_all("figure h4", "all => all.map(one => one.textContent)")
        assert {
            "Reward", "Evaluation", "Held out", "Entropy", "Clipped tokens", "Largest ratio", "Gradient norm", "Length",
            "Sampler gap", "Lost completions", "Tokens per second", "Seconds by phase", "Memory",
        } <= set(shown)  # fmt: skip
        inks = [canvas.evaluate(INK) for canvas in page.query_selector_all("figure canvas")]
        assert len(inks) == len(shown) and min(inks) >= 4, "axes, grid and at least one line"
        assert "J = Σ W [ min" in page.inner_text("#objective")
        facts = page.inner_text("#facts")
        assert "builtin:tiny-char" in facts and "all 20" in facts and "test reward" in facts
        legend = page.inner_text("#chart-evaluation .legend")
        assert re.search(r"test reward [\d.]+ \[-?[\d.]+, [\d.]+\]", legend)


def test_a_group_is_opened_and_a_tokens_coefficient_read(opened: Opened, real_page: Path, real_run: Path) -> None:
    with opened(real_page) as page:
        assert page.input_value("#group-show") == "mixed"
        page.click("#groups .group-list li:nth-child(2) button")
        until(page, "document.querySelector('.group-list li:nth-child(2) [aria-current]')")
        head = page.inner_text("#group h3")
        step, name = re.match(r"Step (\d+), 1-grpo, group (\S+)", head).groups()
        rows = [row for row in recorded(real_run, int(step)) if row["group_id"] == name]
        assert page.locator("#group .sibling").count() == len(rows) == 8
        row = next(row for row in rows if row["coefficients"][0] > 0)
        card = page.locator("#group .sibling").nth(row["sample"])
        token = card.locator(".token").first
        token.hover()
        told = card.locator(".told").inner_text()
        coefficient, log_prob = row["coefficients"][0], row["sampler_log_probs"][0]
        assert f"coefficient +{coefficient:.4g}" in told and f"log-prob {log_prob:.4g}" in told
        assert row["token_texts"][0] in told
        assert "up" in token.get_attribute("class") and row["reason"] in card.inner_text()
        background = token.evaluate("one => getComputedStyle(one).backgroundColor")
        assert background not in ("rgba(0, 0, 0, 0)", "transparent")


def test_filters_and_search(opened: Opened, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    right, wrong, hung = Wrote("fine", 1.0, True), Wrote("poor", 0.0, False), Wrote("hung", None)
    long = Wrote("a much longer needle", 0.0, False, finish="length")
    add_step(run, 1, {"mixed": [right, wrong], "same": [wrong, wrong], "hung": [right, hung], "cut": [long, wrong]})
    add_step(run, 2, {"odd": [Wrote("odd", 1.0, True, -7.0), wrong], "out": [right, right]}, dropped={"out": "alike"})
    add_step(run, 2, {"test": [right, wrong]}, folder="evaluations")
    with opened(write_report([run.path])) as page:

        def found(show: str, search: str = "", source: str = "training") -> list[str]:
            page.select_option("#group-source", source)
            page.select_option("#group-show", show)
            page.fill("#group-search", search)
            page.wait_for_timeout(300)
            return page.eval_on_selector_all("#groups .title", "all => all.map(one => one.textContent.split(' ')[1])")

        assert found("all") == ["mixed", "same", "hung", "cut", "odd", "out"]
        assert found("mixed") == ["mixed", "odd"] and found("surprising") == ["odd", "mixed"]
        assert found("longest")[0] == "cut" and found("cut off") == ["cut"]
        assert found("not scored") == ["hung"] and found("dropped") == ["out"]
        assert found("all", "NEEDLE") == ["cut"] and found("all", "absent") == []
        assert page.inner_text("#groups [role=status]") == "No group is like this."
        assert found("all", source="evaluation") == ["test"]
        page.click("#prompts table.heat td.judged >> nth=0")
        until(page, "document.querySelector('#group-search').value === 'mixed'")


def test_smoothing_zoom_and_hidden_lines(opened: Opened, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_metrics(run, [metric_row(step, reward_mean=float(step % 2), correct_mean=0.1) for step in range(1, 101)])
    with opened(write_report([run.path])) as page:
        assert "mean of 5 steps" in page.inner_text(".toolbar output")
        page.locator("#chart-entropy").scroll_into_view_if_needed()  # both charts are in view
        boxes = {name: page.locator(f"#chart-{name} .u-over").bounding_box() for name in ("reward", "entropy")}
        box = boxes["reward"]

        def value_at(place: float, name: str = "reward") -> tuple[int, str]:
            here = boxes[name]
            page.mouse.move(here["x"] + here["width"] * place, here["y"] + here["height"] / 2)
            step = page.inner_text(f"#chart-{name} .at")
            return int(step.split()[1]), page.inner_text(f"#chart-{name} .legend li:first-child")

        assert value_at(0.99)[0] >= 98 and value_at(0.01)[0] <= 3
        step, legend = value_at(0.5)
        assert legend == f"reward {step % 2}", "the legend tells the raw value"
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=4)
        page.mouse.up()
        assert 24 <= value_at(0.01)[0] <= 28 and 48 <= value_at(0.99)[0] <= 52
        assert 24 <= value_at(0.01, "entropy")[0] <= 28 and 48 <= value_at(0.99, "entropy")[0] <= 52
        page.mouse.dblclick(boxes["entropy"]["x"] + 100, boxes["entropy"]["y"] + 50)
        assert value_at(0.99)[0] >= 98, "a zoom in one is a zoom in all"
        before = page.locator("#chart-reward canvas").evaluate(INK)
        page.click("#chart-reward .legend li:nth-child(1) button")
        assert page.get_attribute("#chart-reward .legend li:nth-child(1) button", "aria-pressed") == "false"
        page.locator("#smoothing").fill("0")
        assert "none" in page.inner_text(".toolbar output")
        assert page.locator("#chart-reward canvas").evaluate(INK) < before


def test_the_keyboard_reaches_everything(opened: Opened, real_page: Path) -> None:
    with opened(real_page) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.focus("#chart-entropy .plot")
        page.keyboard.press("End")
        last = int(page.inner_text("#chart-entropy .at").split()[1])
        page.keyboard.press("ArrowLeft")
        assert int(page.inner_text("#chart-entropy .at").split()[1]) == last - 1
        page.keyboard.press("+")
        page.keyboard.press("Home")
        page.keyboard.press("0")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true", "the legend comes next"
        page.focus("#groups .group-list li:nth-child(3) button")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('.group-list li:nth-child(3) [aria-current]')")
        page.focus("#group .tokens >> nth=0")
        first = page.inner_text("#group .told >> nth=0")
        page.keyboard.press("ArrowRight")
        second = page.inner_text("#group .told >> nth=0")
        assert first.startswith("token 1 of") and second.startswith("token 2 of") and "log-prob" in second
        page.focus("#prompts table.heat >> nth=0")
        page.keyboard.press("ArrowDown")
        prompt = page.inner_text("#prompts .told >> nth=0").split(" · ")[0]
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#group-search').value !== ''")
        assert page.input_value("#group-search").startswith(prompt.rstrip("= "))
        unnamed = page.eval_on_selector_all(
            "button, input, select, [tabindex='0']",
            """all => all.filter(one => !(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.title))
                         .map(one => one.outerHTML.slice(0, 80))""",
        )
        assert unnamed == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(opened: Opened, real_page: Path, width: int, scheme: str) -> None:
    with opened(real_page, width, color_scheme=scheme) as page:
        page.click("summary >> text=Other numbers")
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CONTRAST) == []
        beyond = "all => all.filter(one => one.getBoundingClientRect().right > innerWidth + 1)"
        wide = page.eval_on_selector_all("main *", f"{beyond}.filter(one => !one.closest('.wide, .uplot')).length")
        assert wide == 0
        assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_harmful_texts_are_shown_as_texts(opened: Opened, hostile_page: Path) -> None:
    with opened(hostile_page, 390) as page:
        page.select_option("#group-show", "all")
        for number, kind in enumerate(HOSTILE, start=1):
            page.click(f"#groups .group-list li:nth-child({number}) button")
            until(page, f"document.querySelector('#group h3').textContent.includes('group {kind}#')")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, kind
            page.click("#group details summary")
        assert page.title() == "run: groupwise"
        assert page.evaluate("document.querySelectorAll('#main script, #main img, #main iframe').length") == 0

        def text(kind: str) -> str:
            page.click(f"#groups .group-list li:nth-child({list(HOSTILE).index(kind) + 1}) button")
            return page.locator("#group .tokens").first.evaluate("one => one.textContent")

        assert text("tags") == HOSTILE["tags"] and text("end") == HOSTILE["end"]
        assert text("right to left") == "⟨U+202E⟩evil⟨U+202C⟩ שלום ⟨U+2066⟩abc"
        assert text("control") == "a⟨U+0000⟩b⟨U+0007⟩c⟨U+001B⟩[31md⟨U+007F⟩⟨U+2028⟩e⇥\tf↵\ng"
        assert text("long").startswith("x" * 1000) and "19,000 more tokens are not in this file" in text("long")
        assert "⟨U+D800⟩" in page.text_content("#group details dl")
        assert HOSTILE["tags"] in page.inner_text("#chart-parts .legend")


def test_a_chart_is_saved_as_svg_and_png(opened: Opened, hostile_page: Path, tmp_path: Path) -> None:
    with opened(hostile_page) as page:
        for word in ("SVG", "PNG"):
            with page.expect_download() as download:
                page.click(f"[aria-label='Save Parts of the reward as {word}']")
            download.value.save_as(tmp_path / f"chart.{word}")
    root = ElementTree.parse(tmp_path / "chart.SVG").getroot()
    space = "{http://www.w3.org/2000/svg}"
    lines = [line for line in root.iter(f"{space}polyline") if line.get("stroke-width") == "2"]
    assert len(lines) == 3 and all(len(line.get("points", "").split()) == len(HOSTILE) for line in lines)
    assert (
        HOSTILE["tags"] in [text.text for text in root.iter(f"{space}text")] and root.find(f".//{space}script") is None
    )
    png = (tmp_path / "chart.PNG").read_bytes()
    assert png.startswith(b"\x89PNG") and int.from_bytes(png[16:20]) == 1280 and len(png) > 5000


def test_smoothing_stays_within_a_stage(opened: Opened, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    stages = [("0-sft", 1.0, range(1, 41)), ("1-grpo", 3.0, range(41, 81))]
    write_metrics(run, [metric_row(step, stage=name, grad_norm=norm) for name, norm, steps in stages for step in steps])
    with opened(write_report([run.path])) as page:
        assert "mean of 5 steps" in page.inner_text(".toolbar output")
        with page.expect_download() as download:
            page.click("[aria-label='Save Gradient norm as SVG']")
        download.value.save_as(tmp_path / "chart.svg")
    lines = list(ElementTree.parse(tmp_path / "chart.svg").getroot().iter("{http://www.w3.org/2000/svg}polyline"))
    heights = [{point.split(",")[1] for point in line.get("points", "").split()} for line in lines]
    assert len(lines) == 2 and heights[0] == heights[1] and len(heights[0]) == 2


def test_runs_are_laid_over_each_other(opened: Opened, real_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(real_run, other, ignore=shutil.ignore_patterns("checkpoints"))
    with opened(write_report([real_run, other], tmp_path / "both.html")) as page:
        legend = page.eval_on_selector_all("#chart-entropy .legend li", "all => all.map(one => one.textContent)")
        assert [line.split(":")[0] for line in legend] == ["sums", "other"]
        page.select_option("#group-run", "1")
        until(page, "document.querySelector('#groups [role=status]').textContent.includes('found')")
        assert page.locator("#prompts .map h3").all_inner_texts()[0].startswith("sums: ")


def test_the_live_page_keeps_up_and_reads_groups_from_the_ledger(opened: Opened, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    right, wrong = Wrote("fine", 1.0, True), Wrote("poor", 0.0, False)
    with server_of([run.path], 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with opened(f"http://127.0.0.1:{server.server_port}/") as page:
                assert "No step is recorded yet" in page.inner_text("#curves")
                for step in (1, 2):
                    add_step(run, step, {f"p{number}": [right, wrong] for number in range(30)})
                write_metrics(run, [metric_row(step) for step in (1, 2)])
                page.wait_for_selector("#chart-reward", timeout=20_000)
                page.wait_for_selector("#group .sibling")
                assert page.inner_text("#groups [role=status]") == "60 groups found"
                page.click("button.more")
                until(page, "document.querySelectorAll('.group-list li').length === 60")
                page.click(".group-list li:nth-child(60) button")
                until(page, "document.querySelector('#group h3').textContent.includes('group p29#2')")
                page.hover("#group .tokens .token >> nth=0")
                assert "coefficient +1" in page.inner_text("#group .told >> nth=0")
                write_metrics(run, [metric_row(3, reward_mean=0.75)])
                until(page, "document.querySelector('#chart-reward .legend').textContent.includes('0.75')")
        finally:
            server.shutdown()
            thread.join()
