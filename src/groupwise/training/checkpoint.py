"""Checkpoints: complete or absent, and checked before they are trusted.

A checkpoint is written aside, flushed, sealed with the size and checksum of every file, and then renamed into place;
resuming takes the newest one whose seal holds. Old ones are removed only after a new one stands.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

SEAL = "complete.json"

Say = Callable[[str], None]


def write(folder: Path, step: int, fill: Callable[[Path], None]) -> Path:
    """Make `folder/step-N` from what `fill` writes into an empty folder."""
    final, aside = folder / f"step-{step}", folder / f".step-{step}.new"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    fill(aside)
    seal = {path.name: {"bytes": path.stat().st_size, "sha256": _digest(path)} for path in sorted(aside.iterdir())}
    (aside / SEAL).write_text(json.dumps(seal, indent=2) + "\n", "utf-8")
    for path in aside.iterdir():
        _flush(path)
    if final.exists():  # an incomplete or damaged one that resume has passed over
        shutil.rmtree(final)
    aside.replace(final)
    _flush(folder)
    return final


def newest(folder: Path, say: Say) -> tuple[int, Path] | None:
    """Step and folder of the newest complete checkpoint; says which damaged ones it passes over."""
    for step, path in sorted(found(folder), reverse=True):
        fault = damage(path)
        if fault is None:
            return step, path
        say(f"checkpoint {path.name} is skipped: {fault}")
    return None


def found(folder: Path) -> Iterator[tuple[int, Path]]:
    """Step and folder of every checkpoint, complete or not."""
    for path in folder.glob("step-*"):
        if path.is_dir() and re.fullmatch(r"step-\d+", path.name):
            yield int(path.name.removeprefix("step-")), path


def damage(path: Path) -> str | None:
    """None for a complete checkpoint, or what is wrong with it."""
    seal = path / SEAL
    if not seal.is_file():
        return "it was never completed"
    try:
        files = json.loads(seal.read_text("utf-8"))
    except ValueError:
        return f"{SEAL} can't be read"
    for name, known in files.items():
        file = path / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != known["bytes"]:
            return f"{name} has {file.stat().st_size} bytes instead of {known['bytes']}"
        if _digest(file) != known["sha256"]:
            return f"{name} has changed"
    return None


def prune(folder: Path, keep: int, protected: Iterable[int]) -> None:
    """Remove all but the `keep` newest checkpoints and the protected steps, and what crashes left half-written."""
    steps = sorted(step for step, _ in found(folder))
    kept = {*steps[-keep:], *protected}
    for step, path in list(found(folder)):
        if step not in kept:
            shutil.rmtree(path)
    for path in folder.glob(".step-*.new"):
        shutil.rmtree(path, ignore_errors=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
