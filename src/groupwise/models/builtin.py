"""Models that groupwise makes itself: `builtin:NAME` is a plain Hugging Face folder in the user's cache.

A model is made once, on first use, and then only read. It is written aside and renamed, so that a folder is
complete or absent, and other processes that want the same model wait for it instead of making it again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from groupwise.errors import ModelError
from groupwise.models import smollm2, tiny_char

PREFIX = "builtin:"
BUILDERS: dict[str, Callable[[Path, Callable[[str], None]], None]] = {
    smollm2.NAME: smollm2.build,
    tiny_char.NAME: tiny_char.build,
}
RECIPE = 1
"""Part of the folder's name: raised whenever a builder writes something else, so that no old copy is used."""


def cache_folder() -> Path:
    """Where groupwise keeps what it makes: `$GROUPWISE_CACHE`, else `groupwise` in the user's cache."""
    if own := os.environ.get("GROUPWISE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "groupwise"


def builtin_folder(name: str, say: Callable[[str], None] = print) -> Path:
    """The folder of the built-in model `name` (without `builtin:`), made now if it isn't there.

    Raises `ModelError` for an unknown name, or where the model can't be made.
    """
    check_builtin_name(name)
    folder = cache_folder() / "models" / f"{name}-{RECIPE}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f".{folder.name}.lock"):
            if not folder.is_dir():
                make(name, folder, say)
    except OSError as error:
        raise ModelError(
            f"builtin:{name} can't be written to {folder} ({error.strerror or error})",
            fix="free some space, or set GROUPWISE_CACHE to a folder that you may write to",
        ) from error
    return folder


def check_builtin_name(name: str) -> None:
    """Raises `ModelError` unless there is a built-in model of this name."""
    if name not in BUILDERS:
        near = get_close_matches(name, BUILDERS, n=1)
        guess = f"did you mean {PREFIX}{near[0]}? " if near else ""
        known = ", ".join(PREFIX + known for known in BUILDERS)
        raise ModelError(f"no built-in model is called {PREFIX}{name}", fix=f"{guess}there are {known}")


def make(name: str, folder: Path, say: Callable[[str], None]) -> None:
    """Build the model beside `folder`, then rename it there."""
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        BUILDERS[name](aside, say)
        aside.chmod(0o755)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; it is let go when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
