"""What a tracker is: a place outside the run folder where the numbers of a run can be looked at.

The run folder is the record; a tracker gets a copy and can never stop a run. So a tracker is written as if nothing went
wrong: `guarded` calls it from a thread of its own, and after the first error no more. A worked example, complete:

    class Lines(TrackerSettings):
        name: Literal["lines"] = "lines"
        package: ClassVar = "json"

        def open(self, start):
            return LinesTracker(start.folder / "lines.jsonl")

    class LinesTracker:
        def __init__(self, path):
            self.file = path.open("a")

        def log(self, step, values):
            print(json.dumps({"step": step, **values}), file=self.file, flush=True)

        def close(self):
            self.file.close()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol

from groupwise.errors import RunFileError
from groupwise.settings import Settings


@dataclass(frozen=True)
class Start:
    """What a tracker is told of a run."""

    folder: Path
    """The run folder; its name is the run's."""
    config: Mapping[str, Any]
    """The effective run file."""
    step: int
    """The last step that is recorded already: 0, or where a resumed run goes on."""


class Tracker(Protocol):
    """An open tracker; see the module's docstring."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """The finite numbers of one row of metrics; names of tables within it are parted by `/`."""

    def close(self) -> None:
        """The run has ended."""


class TrackerSettings(Settings, ABC):
    """The base of trackers' settings."""

    name: str
    package: ClassVar[str]
    """The package that it needs, as pip and import name it."""

    def check(self) -> None:
        """Raises `RunFileError` where the package isn't installed."""
        if find_spec(self.package) is None:
            raise RunFileError(
                f"the tracker {self.name} needs the package {self.package}",
                fix=f"pip install {self.package}, or take it out of [[trackers]]",
            )

    @abstractmethod
    def open(self, start: Start) -> Tracker:
        """Begin, or go on; called once, from the thread that the tracker is used in."""
