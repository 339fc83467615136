"""Trackers: what shows a run elsewhere. `TRACKERS` holds the settings class of each by the name that run files use."""

from typing import Annotated

from pydantic import Field

from groupwise.telemetry.trackers.contract import TrackerSettings
from groupwise.telemetry.trackers.tensorboard import TensorBoardSettings
from groupwise.telemetry.trackers.trackio import TrackioSettings
from groupwise.telemetry.trackers.wandb import WandbSettings

TRACKERS: dict[str, type[TrackerSettings]] = {
    "tensorboard": TensorBoardSettings,
    "wandb": WandbSettings,
    "trackio": TrackioSettings,
}

AnyTracker = Annotated[TensorBoardSettings | WandbSettings | TrackioSettings, Field(discriminator="name")]
"""What a run file may name as a tracker."""
