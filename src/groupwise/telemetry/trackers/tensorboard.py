"""TensorBoard: event files in `tensorboard/` of the run folder; `tensorboard --logdir runs` shows all runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.telemetry.trackers.contract import Start, TrackerSettings

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardSettings(TrackerSettings):
    """Event files for TensorBoard."""

    name: Literal["tensorboard"] = "tensorboard"
    package: ClassVar[str] = "tensorboard"

    def open(self, start: Start) -> TensorBoardTracker:
        """Write to the run folder; what was logged after the step that a run goes on from is hidden."""
        from torch.utils.tensorboard import SummaryWriter

        purge = start.step + 1 if start.step else None
        return TensorBoardTracker(SummaryWriter(str(start.folder / "tensorboard"), purge_step=purge))


class TensorBoardTracker:
    """Scalars of one run."""

    def __init__(self, writer: SummaryWriter) -> None:
        self.writer = writer

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()
