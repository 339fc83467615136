"""trackio: a data base on this machine, TRACKIO_DIR or in the Hugging Face cache; `trackio show` serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from groupwise.telemetry.trackers.contract import Start, TrackerSettings

if TYPE_CHECKING:
    import trackio


class TrackioSettings(TrackerSettings):
    """A run in a trackio project."""

    name: Literal["trackio"] = "trackio"
    package: ClassVar[str] = "trackio"
    project: str = "groupwise"
    """The project; the run has the name of its folder. Several projects can be shown side by side."""

    def open(self, start: Start) -> TrackioTracker:
        """Begin a run, or go on with the one of that name where this run goes on."""
        import trackio
        import trackio.run

        for module in (trackio, trackio.run, trackio.utils):
            vars(module)["print"] = _say_nothing  # it tells the terminal, and has no setting against that
        run = trackio.init(
            project=self.project,
            name=start.folder.name,
            config=dict(start.config),
            resume="allow" if start.step else "never",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return TrackioTracker(run)


class TrackioTracker:
    """The numbers of one run."""

    def __init__(self, run: trackio.Run) -> None:
        self.run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        self.run.finish()


def _say_nothing(*_: Any, **__: Any) -> None:
    """In the place of `print`."""
