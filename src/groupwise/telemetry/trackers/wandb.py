"""Weights & Biases. Its key, entity and server come from its own settings (`wandb login`, WANDB_ENTITY, ...)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal
from uuid import uuid4

from groupwise.telemetry.trackers.contract import Start, TrackerSettings

if TYPE_CHECKING:
    import wandb


class WandbSettings(TrackerSettings):
    """A run at Weights & Biases."""

    name: Literal["wandb"] = "wandb"
    package: ClassVar[str] = "wandb"
    project: str = "groupwise"
    """The project there; the run has the name of its folder."""
    mode: Literal["online", "offline"] = "online"
    """`offline` writes to `wandb/` of the run folder alone; `wandb sync` uploads that later."""

    def open(self, start: Start) -> WandbTracker:
        """Begin a run there. A resumed run goes on with the same one, whose id stands in `wandb/groupwise-run-id`."""
        import wandb

        file = start.folder / "wandb" / "groupwise-run-id"
        if not file.is_file():
            file.parent.mkdir(exist_ok=True)
            file.write_text(uuid4().hex[:12])
        run = wandb.init(
            project=self.project,
            name=start.folder.name,
            id=file.read_text().strip(),
            resume="allow" if self.mode == "online" else None,
            dir=start.folder,
            mode=self.mode,
            config=dict(start.config),
            settings=wandb.Settings(silent=True, console="off"),  # it would take over the terminal
        )
        return WandbTracker(run)


class WandbTracker:
    """The numbers of one run. Steps that a resumed run repeats are known there already, and are left out by wandb."""

    def __init__(self, run: wandb.Run) -> None:
        self.run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        self.run.finish()
