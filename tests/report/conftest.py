"""One browser for all tests of the page, and one small real run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import groupwise
from groupwise.telemetry.display import Silent

Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a few real steps of SFT and GRPO."""
    folder = tmp_path_factory.mktemp("real") / "sums"
    few = ["stages.0.steps=14", "stages.1.steps=6", "evaluation.prompts=20", "evaluation.samples=2"]
    groupwise.train("sums_from_scratch", overrides=few, out=folder, display=Silent())
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as the system has it; the tests are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(names)} is installed")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=options)
        yield running
        running.close()


@pytest.fixture
def opened(browser: Any) -> Opened:
    """Opens an address and gives the page; fails at the end if it complained, or asked for anything from elsewhere."""

    @contextmanager
    def open_page(address: str | Path, width: int = 1280, **options: Any) -> Iterator[Any]:
        local = isinstance(address, Path)
        target = address.as_uri() if isinstance(address, Path) else address
        context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce", **options)
        page = context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(target)
        page.wait_for_selector("#settings")
        yield page
        allowed = (target, "blob:", "data:") if local else (target,)
        assert complaints == []
        assert [url for url in asked if not url.startswith(allowed)] == []
        context.close()

    return open_page
